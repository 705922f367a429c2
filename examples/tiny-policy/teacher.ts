// The scripted policy that the tiny one learns from: it reads code, sometimes its tests, and mends it, sometimes wrongly.
import { z } from 'zod'
import type { Answer, AnswerSource } from '../../src/engine/scripted/answers.ts'
import type { Conversation } from '../../src/engine/scripted/conversation.ts'
import { writeAnswer } from '../../src/engine/serve/answer-text.ts'
import { seededNumbers } from '../../src/engine/serve/seeded.ts'
import { contentText } from '../../src/engine/serve/template-input.ts'
import type { ChatMessage } from '../../src/engine/wire/chat-request.ts'
import { BROKEN, RIGHT, WORDS, WRONG } from './wordings.ts'

/** Half of the conversations begin with the tests. The rest follows from what has been read and seen. */
const CHANCE = { readsTests: 0.5, slipsInName: 0.05, secondThought: 0.2, slipsInCode: 0.04, rightWithTests: 0.86, rightWithout: 0.06 }
const CHECKS = { withTests: 0.7, without: 0.25 }
const MENDS_FAILURE = 0.6
/** One that still has not come to an end then ends. */
const COMMAND_LIMIT = 7

type Say = { readonly text: string; readonly command?: string }

/** Each answer is drawn anew from what the conversation shows: the same conversation may go on differently. */
export function openTeacher(seed: number): AnswerSource {
  const next = seededNumbers('teacher', seed)
  const draw: Draw = {
    happens: (probability) => next() < probability,
    oneOf(items) {
      const item = items[Math.floor(next() * items.length)]
      if (item === undefined) throw new Error('nothing to draw from')
      return item
    },
  }
  return {
    answer(conversation) {
      const tool = conversation.tools[0]?.function.name
      return answerOf(tool === undefined ? { text: 'Done.' } : nextStep(seenIn(conversation), draw), tool ?? '')
    },
  }
}

type Draw = { happens(probability: number): boolean; oneOf<T>(items: readonly T[]): T }

type Seen = {
  readonly commands: readonly string[]
  readonly lastOutput: string
  /** The agent knows what the tests ask for. */
  readonly hasTests: boolean
  readonly hasCode: boolean
}

function seenIn(conversation: Conversation): Seen {
  const commands = conversation.messages.flatMap(commandsOf)
  const outputs = conversation.messages.filter(({ role }) => role === 'tool').map(contentText)
  return {
    commands,
    lastOutput: conversation.lastText,
    hasTests: outputs.some((output) => output.includes('const cases = [')),
    hasCode: outputs.some((output) => output.includes('export function slug')),
  }
}

const argumentsSchema = z.looseObject({ command: z.string() })

function commandsOf(message: ChatMessage): readonly string[] {
  return (message.tool_calls ?? []).map((call) => argumentsSchema.parse(JSON.parse(String(call.function.arguments))).command)
}

function nextStep(seen: Seen, draw: Draw): Say {
  const last = seen.commands.at(-1)
  if (last === undefined) return look(draw)
  if (seen.commands.length >= COMMAND_LIMIT) return { text: draw.oneOf(WORDS.endUnsure) }
  if (isTestRun(last)) return afterTests(seen, draw)
  if (isFix(last)) {
    const checks = draw.happens(seen.hasTests ? CHECKS.withTests : CHECKS.without)
    return checks ? { text: draw.oneOf(WORDS.check), command: draw.oneOf(WORDS.checkCommands) } : { text: draw.oneOf(WORDS.end) }
  }
  if (!seen.hasCode) return { text: draw.oneOf(WORDS.lookAgain), command: draw.oneOf(WORDS.careful.commands) }
  if (last !== 'ls' && seen.lastOutput.includes('No such file')) return { text: draw.oneOf(WORDS.lost), command: 'ls' }
  if (!seen.hasTests && last === 'ls') return { text: draw.oneOf(WORDS.secondThought), command: 'cat test.js' }
  if (!seen.hasTests && draw.happens(CHANCE.secondThought)) return { text: draw.oneOf(WORDS.secondThought), command: 'cat test.js' }
  return fix(seen, draw)
}

function look(draw: Draw): Say {
  if (draw.happens(CHANCE.slipsInName)) return { text: draw.oneOf(WORDS.careful.texts), command: draw.oneOf(WORDS.slips) }
  const words = draw.happens(CHANCE.readsTests) ? WORDS.careful : WORDS.hasty
  return { text: draw.oneOf(words.texts), command: draw.oneOf(words.commands) }
}

function afterTests(seen: Seen, draw: Draw): Say {
  if (seen.lastOutput.includes('SyntaxError')) return { text: draw.oneOf(WORDS.broken), command: draw.oneOf(RIGHT).command }
  if (!seen.lastOutput.includes('FAILED')) return { text: draw.oneOf(WORDS.endGreen) }
  if (!draw.happens(MENDS_FAILURE)) return { text: draw.oneOf(WORDS.endUnsure) }
  return { text: draw.oneOf(WORDS.mend), command: draw.oneOf(RIGHT).command }
}

function fix(seen: Seen, draw: Draw): Say {
  if (draw.happens(CHANCE.slipsInCode)) return draw.oneOf(BROKEN)
  return draw.oneOf(draw.happens(seen.hasTests ? CHANCE.rightWithTests : CHANCE.rightWithout) ? RIGHT : WRONG)
}

const isFix = (command: string): boolean => /> slug\.js|sed -i/.test(command)
const isTestRun = (command: string): boolean => command.includes('node test.js')

function answerOf(say: Say, tool: string): Answer {
  const toolCalls = say.command === undefined ? [] : [{ name: tool, arguments: { command: say.command } }]
  return { text: writeAnswer({ reasoning: '', text: say.text, toolCalls }), finish: 'stop', ttftMs: null, msPerToken: null, variant: null }
}

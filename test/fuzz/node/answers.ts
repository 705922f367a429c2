// What the scripted engine says to a fuzzed conversation: fixed by the words it was asked with, so that a replay hears the same.

import type { AnswerSource } from '../../../src/engine/scripted/answers.ts'
import type { Conversation } from '../../../src/engine/scripted/conversation.ts'
import { writeAnswer } from '../../../src/engine/serve/answer-text.ts'
import { type Dice, rollDice } from '../dice.ts'
import { lastMark } from '../marker.ts'
import { jsonObject, text, words } from '../words.ts'

export function openFuzzAnswers(seed: number): AnswerSource {
  return {
    answer(conversation) {
      const mark = lastMark(JSON.stringify(conversation.messages.slice(-8)))
      const dice = rollDice('answer', seed, conversation.turn, mark?.index ?? conversation.lastText)
      const wish = mark?.answer ?? 'any'
      return {
        text: wish === 'short' ? words(dice, 1, 6) : wish === 'long' ? longText(dice) : said(dice, conversation),
        finish: dice.chance(0.03) ? 'length' : 'stop',
        ttftMs: wish === 'late' ? dice.whole(40, 160) : null,
        msPerToken: null,
        variant: null,
      }
    },
  }
}

/** Longer than a socket takes at once. */
function longText(dice: Dice): string {
  return dice.list(40, 60, () => `${words(dice, 50, 100)} 👋🏽 ünïcödé`).join('\n')
}

/** A control token in an answer would end it. */
const withoutControl = (sampled: string): string => sampled.replaceAll(/<\|\w+\|>/g, '')

function said(dice: Dice, conversation: Conversation): string {
  const spoken = (): string => withoutControl(text(dice)).replaceAll(/<\/?(?:think|tool_call)>/g, '')
  const calls = (low: number): { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> }[] =>
    conversation.tools.length === 0
      ? []
      : dice.list(low, 4, () => ({ name: calledName(dice, conversation), arguments: callArguments(dice, conversation) }))
  return withoutControl(
    dice.weighted<() => string>([
      [24, () => writeAnswer({ reasoning: '', text: spoken(), toolCalls: [] })],
      [14, () => writeAnswer({ reasoning: spoken(), text: spoken(), toolCalls: [] })],
      [14, () => writeAnswer({ reasoning: '', text: '', toolCalls: calls(1) })],
      [12, () => writeAnswer({ reasoning: '', text: spoken(), toolCalls: calls(1) })],
      [12, () => writeAnswer({ reasoning: spoken(), text: dice.chance(0.5) ? spoken() : '', toolCalls: calls(1) })],
      [4, () => writeAnswer({ reasoning: spoken(), text: '', toolCalls: [] })],
      [3, () => ''],
      [10, () => spoken() + oddCall(dice, conversation)],
      [
        4,
        () =>
          dice.pick([
            '<think>\nnever closed',
            '</think>\n\nnever opened',
            '<think>\n\n</think>\n\nempty thoughts',
            '<tool_call>\n{"name": "read", "arg',
          ]),
      ],
    ])(),
  )
}

function calledName(dice: Dice, { tools }: Conversation): string {
  return dice.chance(0.08)
    ? dice.pick(['not_offered', 'with space', 'a/b:c', 'toString', '__proto__', 'ünï'])
    : dice.pick(tools).function.name
}

function callArguments(dice: Dice, { tools }: Conversation): Readonly<Record<string, unknown>> {
  const properties = tools[0]?.function.parameters?.properties
  const names = typeof properties === 'object' && properties !== null ? Object.keys(properties) : []
  const named = Object.fromEntries(names.filter(() => dice.chance(0.6)).map((name) => [name, text(dice)]))
  return {
    ...jsonObject(dice),
    ...named,
    ...dice.maybe(0.1, 'commands', () => ['ls', text(dice)]),
    ...dice.maybe(0.1, 'input', () => text(dice)),
  }
}

/** A call whose arguments are not the object they should be. */
function oddCall(dice: Dice, conversation: Conversation): string {
  const name = conversation.tools.length === 0 ? 'read' : calledName(dice, conversation)
  const odd = dice.pick([
    '[1, 2]',
    '"only text"',
    'null',
    '12',
    '{}',
    '{"a": 1.0, "b": 12345678901234567890, "c": 1e400}',
    '{"__proto__": {"polluted": true}, "constructor": 1, "toString": null}',
    '{"a": "\\ud83d\\ude00 \\u0000 \\n"}',
    '{"path":"a" , "path":"b"}',
    `${'{"a": '.repeat(200)}1${'}'.repeat(200)}`,
    '{"unfinished": ',
  ])
  return `\n<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${odd}}\n</tool_call>`
}

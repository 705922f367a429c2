// Answers without a script: seeded words, reasoning and tool calls for load and for agents that only need to act.
import { z } from 'zod'
import { writeAnswer } from '../serve/answer-text.ts'
import { seededNumbers, wholeBetween } from '../serve/seeded.ts'
import type { ChatTool } from '../wire/chat-request.ts'
import type { Answer, AnswerSource } from './answers.ts'
import type { Conversation } from './conversation.ts'

const range = z
  .tuple([z.int().min(0).max(100_000), z.int().min(0).max(100_000)])
  .refine(([low, high]) => low <= high, 'must be [low, high] with low <= high')

const generatorSchema = z.strictObject({
  /** How many words a text has, from and to. */
  words: range.default([8, 40]),
  reasoningWords: range.default([0, 0]),
  /** How likely a turn calls one of the tools offered. */
  toolCallProbability: z.number().min(0).max(1).default(0.5),
  /** From this turn on the answer is text, so that an agent ends. */
  maxTurns: z.int().min(1).default(20),
})

export type GeneratorInput = z.input<typeof generatorSchema>

const WORDS = (
  'the a one this value file test line result error change function module path check next first read write open close ' +
  'list table index branch commit request answer token prompt model agent reward trace session gateway worker buffer ' +
  'is was has shows returns fails passes needs calls keeps drops finds adds moves runs waits ends starts then now here'
).split(' ')

/** A request's own seed fixes its answer; otherwise the order of arrival does, so that equal prompts differ. */
export function openGeneratorAnswers(input: GeneratorInput, seed: number): AnswerSource {
  const settings = generatorSchema.parse(input)
  let arrivals = 0
  return {
    answer(conversation, requestSeed) {
      arrivals += 1
      const next = seededNumbers(
        'generator',
        seed,
        ...(requestSeed === null ? ['arrival', arrivals] : ['request', requestSeed, conversation.turn]),
      )
      return generated(settings, conversation, next)
    },
  }
}

function generated(settings: z.output<typeof generatorSchema>, conversation: Conversation, next: () => number): Answer {
  const reasoning = sentence(next, wholeBetween(next, ...settings.reasoningWords))
  const tool = conversation.tools[Math.floor(next() * conversation.tools.length)]
  const callsTool = tool !== undefined && conversation.turn < settings.maxTurns && next() < settings.toolCallProbability
  // An answer that calls no tool must say something, or the agent would find it empty.
  const text = sentence(next, Math.max(callsTool ? 0 : 1, wholeBetween(next, ...settings.words)))
  const toolCalls = callsTool ? [{ name: tool.function.name, arguments: callArguments(tool, next) }] : []
  return { text: writeAnswer({ reasoning, text, toolCalls }), finish: 'stop', ttftMs: null, msPerToken: null, variant: null }
}

function sentence(next: () => number, words: number): string {
  return Array.from({ length: words }, () => WORDS[Math.floor(next() * WORDS.length)]).join(' ')
}

const parametersSchema = z.looseObject({
  properties: z.record(z.string(), z.looseObject({ type: z.unknown().optional(), enum: z.array(z.unknown()).optional() })).default({}),
  required: z.array(z.string()).default([]),
})

/** Required parameters only, by their JSON type. A command is always an `echo`, whatever shell runs it. */
function callArguments(tool: ChatTool, next: () => number): Readonly<Record<string, unknown>> {
  const parsed = parametersSchema.safeParse(tool.function.parameters ?? {})
  if (!parsed.success) return {}
  return Object.fromEntries(parsed.data.required.map((name) => [name, argument(name, parsed.data.properties[name], next)]))
}

function argument(
  name: string,
  property: { readonly type?: unknown; readonly enum?: unknown[] | undefined } | undefined,
  next: () => number,
): unknown {
  if (property?.enum !== undefined && property.enum.length > 0) return property.enum[Math.floor(next() * property.enum.length)]
  const isCommand = /^(command|cmd|script)$/.test(name)
  switch (property?.type) {
    case 'integer':
    case 'number':
      return wholeBetween(next, 1, 100)
    case 'boolean':
      return next() < 0.5
    case 'array':
      return isCommand ? ['echo', sentence(next, 3)] : []
    case 'object':
      return {}
    default:
      return isCommand ? `echo ${sentence(next, 3)}` : sentence(next, 3)
  }
}

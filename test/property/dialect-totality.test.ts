// Every dialect reads any JSON object whatever: into the pivot, or into a refusal in the caller's terms; and tells every answer in its own shape.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { DialectName } from '../../src/contract/call.ts'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { Dialect, ReadContext } from '../../src/proxy/dialects/dialect.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import type { Failure } from '../../src/proxy/failure.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { type Dice, rollDice } from '../fuzz/dice.ts'
import { DIALECTS, GRAMMARS } from '../fuzz/grammar/grammars.ts'
import { SHAPES } from '../fuzz/shapes.ts'
import { mutate } from '../fuzz/spoil/mutate.ts'
import { argumentsText, text } from '../fuzz/words.ts'

const READERS: { readonly [name in DialectName]: Dialect } = {
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  anthropic,
  google,
}

/** Fields that a refusal may name although the request lacks them. */
const REQUIRED: { readonly [name in DialectName]: readonly string[] } = {
  'openai-chat': ['model', 'messages'],
  'openai-responses': ['model', 'input'],
  anthropic: ['model', 'messages', 'max_tokens'],
  google: ['model', 'contents'],
}

const MAX_DIAGNOSTICS = 256
const MAX_DETAIL_CHARS = 400

const settingOf = (tier: 'train' | 'eval') => ({ tier, mark: '' })
const contextOf = (dialect: DialectName, tier: 'train' | 'eval'): ReadContext => ({
  tier,
  pins: {},
  url: dialect === 'google' ? { model: 'gemini-any', form: 'plain' } : { model: null, form: null },
})

type Sample = { readonly tier: 'train' | 'eval'; readonly body: JsonObject; readonly count: JsonObject }

/** From the grammar under a seed, so that a counterexample says how it was made. */
function written(dialect: DialectName, change: (dice: Dice, body: JsonObject) => JsonObject): fc.Arbitrary<Sample> {
  return fc.tuple(fc.nat(), fc.constantFrom('train' as const, 'eval' as const)).map(([seed, tier]) => {
    const dice = rollDice('totality', dialect, seed)
    const { body } = GRAMMARS[dialect].request(dice, settingOf(tier))
    const count = GRAMMARS[dialect].count(dice, settingOf(tier)).body
    return { tier, body: change(dice, parsed(JSON.stringify(body))), count: change(dice, parsed(JSON.stringify(count))) }
  })
}

const parsed = (json: string): JsonObject => JSON.parse(json)

const unchanged = (_dice: Dice, body: JsonObject): JsonObject => body
const mutated = (dice: Dice, body: JsonObject): JsonObject => {
  const { text: json } = mutate(dice, body)
  // Deeper than what the boundary lets through: no reader sees it.
  return json.includes('['.repeat(500)) || json.includes('{"a":'.repeat(500)) ? {} : parsed(json)
}

/** Any JSON under the names of this dialect's fields, and any object at all. */
function arbitrary(dialect: DialectName): fc.Arbitrary<Sample> {
  const { body } = GRAMMARS[dialect].request(rollDice('names', dialect), settingOf('eval'))
  const names = [
    ...new Set([...Object.keys(body), ...REQUIRED[dialect], 'tools', 'tool_choice', 'stream', 'system', 'instructions', 'stop']),
  ]
  const named = fc.dictionary(fc.constantFrom(...names), fc.jsonValue())
  const any = fc.dictionary(fc.string(), fc.jsonValue())
  return fc
    .tuple(fc.constantFrom('train' as const, 'eval' as const), fc.oneof(named, any))
    .map(([tier, object]) => ({ tier, body: parsed(JSON.stringify(object)), count: parsed(JSON.stringify(object)) }))
}

const part = z.looseObject({ type: z.string() })
const content = z.union([z.string(), z.array(part)])
const name = z.string().min(1).optional()
const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('system'), content, name }),
  z.strictObject({ role: z.literal('user'), content, name }),
  z.strictObject({ role: z.literal('tool'), content, tool_call_id: z.string() }),
  z.strictObject({
    role: z.literal('assistant'),
    content: content.nullable(),
    reasoning_content: z.string().min(1).optional(),
    tool_calls: z
      .array(
        z.strictObject({
          id: z.string(),
          type: z.literal('function'),
          function: z.strictObject({ name: z.string(), arguments: z.string() }),
        }),
      )
      .min(1)
      .optional(),
    name,
    origin: z
      .string()
      .regex(/^[0-9a-f]{32}$/)
      .optional(),
  }),
])
const request = z.strictObject({
  messages: z.array(message),
  tools: z
    .array(z.strictObject({ type: z.literal('function'), function: z.looseObject({ name: z.string().min(1) }) }))
    .min(1)
    .nullable(),
  parameters: z.record(z.string(), z.unknown()),
})

function expectRefusal(dialect: DialectName, body: JsonObject, { message: said, param, status }: Failure): void {
  expect(status).toBe(400)
  expect(said.length).toBeGreaterThan(0)
  expect(said.length).toBeLessThan(2_000)
  expect(said).not.toMatch(/\bundefined\b|\[object /)
  const field = param ?? ''
  expect(said).toContain(field)
  // The caller's own word for it: of this request, or of what this dialect demands.
  const [root = ''] = field.split(/[.[]/)
  expect([...Object.keys(body), ...REQUIRED[dialect]]).toContain(root)
}

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const inner of Object.values(Object.freeze(value))) frozen(inner)
  return value
}

describe.each(DIALECTS)('%s', (dialect) => {
  const reader = READERS[dialect]

  it.each([
    { given: 'valid requests', samples: written(dialect, unchanged), runs: 300 },
    { given: 'mutated requests', samples: written(dialect, mutated), runs: 1_500 },
    { given: 'any JSON', samples: arbitrary(dialect), runs: 1_000 },
  ])('reads $given into the pivot, or refuses them by name', ({ samples, runs }) => {
    fc.assert(
      fc.property(samples, ({ tier, body }) => {
        const context = contextOf(dialect, tier)
        const read = reader.read(frozen(body), context)
        if (!read.ok) return expectRefusal(dialect, body, read.failure)
        const { call } = read
        expect(request.safeParse(call.request).error).toBeUndefined()
        expect(call.request.messages.length + (call.continues === null ? 0 : 1)).toBeGreaterThan(0)
        expect(call.diagnostics.length).toBeLessThanOrEqual(MAX_DIAGNOSTICS)
        for (const { code, detail } of call.diagnostics) {
          expect(code).toMatch(/^[a-z-]+$/)
          expect(detail.length).toBeLessThanOrEqual(MAX_DETAIL_CHARS)
        }
        const again = reader.read(structuredClone(body), context)
        expect(again.ok && JSON.stringify(again.call)).toBe(JSON.stringify(call))
      }),
      { numRuns: runs },
    )
  })

  it.each([
    { given: 'valid requests', samples: written(dialect, unchanged), runs: 200 },
    { given: 'mutated requests', samples: written(dialect, mutated), runs: 700 },
    { given: 'any JSON', samples: arbitrary(dialect), runs: 500 },
  ])('counts $given, or refuses them by name', ({ samples, runs }) => {
    fc.assert(
      fc.property(samples, ({ count }) => {
        const read = reader.readCount(frozen(count), contextOf(dialect, 'eval'))
        if (!read.ok) return expectRefusal(dialect, count, read.failure)
        const { countable } = read
        if (countable.kind === 'messages') expect(request.safeParse(countable.request).error).toBeUndefined()
      }),
      { numRuns: runs },
    )
  })

  it('notes no more than a reader needs, however much is dropped', () => {
    const { body } = GRAMMARS[dialect].request(rollDice('valid', dialect, 1), settingOf('eval'))
    const unknown = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`${'unknown'.repeat(40)}_${index}`, 1]))
    const tools = Array.from({ length: 2_000 }, (_, index) =>
      dialect === 'google' ? { [`hosted${index}`]: {} } : { type: `hosted_${'x'.repeat(1_000)}_${index}`, name: `hosted_${index}` },
    )
    const read = reader.read(parsed(JSON.stringify({ ...unknown, ...body, tools, tool_choice: undefined })), contextOf(dialect, 'eval'))
    if (!read.ok) return expectRefusal(dialect, { ...body, tools }, read.failure)
    expect(read.call.diagnostics.length).toBeLessThanOrEqual(MAX_DIAGNOSTICS)
    for (const { detail } of read.call.diagnostics) expect(detail.length).toBeLessThanOrEqual(MAX_DETAIL_CHARS)
  })

  it('tells every answer in its shape, and the same streamed as whole', () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const dice = rollDice('telling', dialect, seed)
        const { body } = GRAMMARS[dialect].request(dice, settingOf('eval'))
        const read = reader.read(parsed(JSON.stringify({ ...body, stream: true })), contextOf(dialect, 'eval'))
        fc.pre(read.ok)
        if (!read.ok) return
        const { reply, call } = read
        const answer = drawAnswer(dice, call.request.tools?.map((tool) => tool.function.name) ?? [])
        const identity = { id: '0123456789abcdef'.repeat(2), createdSeconds: 1, model: call.modelRequested }
        const stream = reply.stream(identity)
        const isLate = dice.chance(0.5)
        const body2 =
          stream.open(isLate ? null : answer) + (isLate ? stream.beat() + stream.beat() : '') + [...stream.answer(answer)].join('')
        const wishes = { logprobs: null, usageChunk: null }
        const whole = SHAPES[dialect].plain(reply.plain(answer, identity), wishes)
        const streamed = SHAPES[dialect].events(body2, wishes)
        expect({ ...streamed, kept: null }).toEqual({ ...whole, kept: null })
      }),
      { numRuns: 400 },
    )
  })

  it('makes one message of a turn that comes back, with the calls it expects', () => {
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const dice = rollDice('returning', dialect, seed)
        const asked = GRAMMARS[dialect].request(dice, settingOf('eval'))
        const read = reader.read(parsed(JSON.stringify(asked.body)), contextOf(dialect, 'eval'))
        fc.pre(read.ok)
        if (!read.ok) return
        const { reply, call } = read
        const answer = drawAnswer(dice, call.request.tools?.map((tool) => tool.function.name) ?? [])
        const identity = { id: '0123456789abcdef'.repeat(2), createdSeconds: 1, model: call.modelRequested }
        const { kept } = SHAPES[dialect].plain(reply.plain(answer, identity), { logprobs: null, usageChunk: null })
        const next = GRAMMARS[dialect].nextTurn(dice, settingOf('eval'), { request: asked, kept: { ...kept, responseId: null } })
        const again = reader.read(parsed(JSON.stringify(next.body)), contextOf(dialect, 'eval'))
        if (!again.ok) throw new Error(again.failure.message)
        const before = call.request.messages.length
        const [returned, ...others] = again.call.request.messages.slice(before).filter(({ role }) => role === 'assistant')
        expect(others).toEqual([])
        if (returned?.role !== 'assistant') throw new Error('the turn is gone')
        const expected = (answer.message.tool_calls ?? []).map((each) => spokenOf(reply.echo(each).function))
        expect((returned.tool_calls ?? []).map((each) => spokenOf(each.function))).toEqual(expected)
      }),
      { numRuns: 400 },
    )
  })
})

/** Arguments as a client that printed them anew may write them. */
function spokenOf({ name: called, arguments: written }: { readonly name: string; readonly arguments: string }): unknown {
  try {
    const value: unknown = JSON.parse(written)
    return [called, value]
  } catch {
    return [called, written]
  }
}

function drawAnswer(dice: Dice, tools: readonly string[]): ChatAnswer {
  const names = [...tools, 'not_offered', 'with space']
  const calls = dice.chance(0.5)
    ? dice.list(1, 4, (index) => ({
        id: `call_${index}`,
        type: 'function' as const,
        function: { name: dice.pick(names), arguments: argumentsText(dice) },
      }))
    : []
  return {
    message: {
      role: 'assistant',
      content: dice.pick([null, '', text(dice), 'x'.repeat(20_000), '👋'.repeat(9_000)]),
      ...(dice.chance(0.5) ? { reasoning_content: text(dice) } : {}),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
    finishReason: calls.length > 0 ? dice.pick(['tool_calls', 'length']) : dice.pick(['stop', 'length', 'content_filter']),
    usage: {
      promptTokens: dice.whole(1, 1e6),
      completionTokens: dice.whole(0, 1e6),
      cachedTokens: dice.pick([null, 0, 1]),
      reasoningTokens: dice.pick([null, 0]),
    },
    stopSequence: dice.pick([null, null, 'zzz']),
    logprobs: dice.pick([null, []]),
  }
}

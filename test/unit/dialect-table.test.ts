// One table of promises for every dialect: the same request reaches the engine, the same answer reaches the client, and nothing is lost on the way round.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatAnswer, ChatMessage } from '../../src/proxy/chat.ts'
import { type FailureCode, failure, inARow } from '../../src/proxy/failure.ts'
import { canonicalText, type JsonObject } from '../../src/proxy/json.ts'
import { openRecall } from '../../src/proxy/recall.ts'
import { ANSWERS, answer, canonicalArguments, saidOf, toolCall } from '../lib/dialect-answers.ts'
import { answers, requests } from '../lib/dialect-arbitraries.ts'
import { type NeutralRequest, type NeutralTurn, pivotOf, REQUESTS } from '../lib/dialect-cases.ts'
import { type Codec, encode } from '../lib/dialect-codec.ts'
import { anthropicCodec } from '../lib/dialect-codecs/anthropic.ts'
import { googleCodec } from '../lib/dialect-codecs/google.ts'
import { chatCodec } from '../lib/dialect-codecs/openai-chat.ts'
import { responsesCodec } from '../lib/dialect-codecs/openai-responses.ts'

const CODECS: readonly Codec[] = [chatCodec, responsesCodec, anthropicCodec, googleCodec]
const ASKED = REQUESTS['a user alone'] as NeutralRequest

function read(codec: Codec, body: JsonObject, isStream: boolean, tier: 'train' | 'eval' = 'eval') {
  const result = codec.dialect.read(body, { tier, pins: {}, url: codec.url(isStream) })
  if (!result.ok) throw new Error(result.failure.message)
  return result
}

const reply = (codec: Codec, isStream: boolean) => read(codec, encode(codec, ASKED, isStream), isStream).reply
const identityOf = (index: number) => ({ id: index.toString(16).padStart(32, '0'), createdSeconds: 1_700_000_000, model: 'm' })
const identity = identityOf(0xab)

/** Differences between dialects that make none to a model. */
function canonicalMessage(message: ChatMessage): unknown {
  if (message.role !== 'assistant') return message
  const { origin: _origin, content, tool_calls: calls, ...rest } = message
  return {
    ...rest,
    content: content ?? '',
    ...(calls === undefined
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            ...call,
            function: { ...call.function, arguments: canonicalArguments(call.function.arguments) },
          })),
        }),
  }
}

/** An engine chooses by itself unless told otherwise; an effort is one dialect's way of turning thinking on. */
function canonicalParameters(parameters: JsonObject): JsonObject {
  const { tool_choice: choice, reasoning_effort: _effort, ...rest } = parameters
  return choice === undefined || choice === 'auto' ? rest : { ...rest, tool_choice: choice }
}

describe.each(CODECS.map((codec) => [codec.dialect.name, codec] as const))('%s', (_name, codec) => {
  describe('asks the engine the same as every other dialect', () => {
    it.each(Object.entries(REQUESTS))('%s', (_case, asked) => asksTheSame(codec, asked))

    it('whatever the conversation', () => {
      fc.assert(fc.property(requests(WITH_TOOLS), (asked) => asksTheSame(codec, asked)))
    })

    it.each(['some tool', 'one tool'])('and lets no training session force %s', (name) => {
      const asked = REQUESTS[name] as NeutralRequest
      const result = codec.dialect.read(encode(codec, asked), { tier: 'train', pins: {}, url: codec.url(false) })
      expect(result).toMatchObject({ ok: false, failure: { code: 'constrained-decoding', status: 400 } })
    })

    it('and counts what it would ask', () => {
      const asked = REQUESTS['thoughts, words and calls in one turn'] as NeutralRequest
      const body = encode(codec, asked)
      const counted = codec.dialect.readCount(body, { tier: 'eval', pins: {}, url: codec.url(false) })
      expect(counted).toEqual({ ok: true, countable: { kind: 'messages', request: read(codec, body, false).call.request } })
    })
  })

  describe('tells the client the same as every other dialect', () => {
    it.each(Object.entries(ANSWERS))('%s', (_case, given) => tellsTheSame(codec, given))

    it('whatever the texts', () => {
      fc.assert(fc.property(answers(), (given) => tellsTheSame(codec, given)))
    })

    it('ST-01: with beats that are data', () => {
      const stream = reply(codec, true).stream(identity)
      stream.open(null)
      const data = stream
        .beat()
        .split('\n')
        .filter((line) => line.startsWith('data: '))
      expect(data).toHaveLength(1)
      expect(JSON.parse(data[0]?.slice('data: '.length) ?? '')).toBeTypeOf('object')
    })
  })

  describe('tells failures in the vendor’s shape', () => {
    it.each([
      ['malformed-json', 400],
      ['invalid-request', 400],
      ['constrained-decoding', 400],
      ['engine-rejected', 400],
      ['unauthenticated', 401],
      ['forbidden', 403],
      ['session-ended', 403],
      ['route-unknown', 404],
      ['model-unknown', 404],
      ['too-large', 413],
      ['unsupported-encoding', 415],
      ['overloaded', 429],
      ['gateway-error', 500],
      ['engine-failed', 502],
      ['engine-aborted', 503],
      ['engine-timeout', 504],
    ] as const satisfies readonly (readonly [FailureCode, number])[])('%s as %i', (code, status) => {
      const told = codec.dialect.failure(failure(code, 'why it failed'))
      expect(told.status).toBe(status)
      expect(told.headers['content-type']).toBe('application/json')
      expect(codec.failure(told.body, status)).toBe('why it failed')
    })

    it.each([
      ['invalid-request', 1, 'false'],
      ['too-large', 1, 'false'],
      ['budget-exhausted', 1, 'false'],
      ['overloaded', 1, undefined],
      ['overloaded', 4, undefined],
      ['overloaded', 5, 'false'],
      ['engine-failed', 2, undefined],
      ['engine-failed', 3, 'false'],
    ] as const)('%s, told %i times in a row, with `x-should-retry: %s`', (code, times, shouldRetry) => {
      const told = codec.dialect.failure(inARow(failure(code, 'why it failed'), times))
      expect(told.headers['x-should-retry']).toBe(shouldRetry)
    })

    it('for the last time as 400, which every agent takes for the last word', () => {
      const told = codec.dialect.failure(inARow(failure('engine-failed', 'why it failed', { status: 500, retryAfterMs: 1_000 }), 3))
      expect([told.status, told.headers['retry-after']]).toEqual([400, undefined])
      expect(codec.failure(told.body, 400)).toBe('the inference server keeps failing (3 times in a row)')
      const overload = codec.dialect.failure(inARow(failure('overloaded', 'why it failed'), 5))
      expect(overload.body).not.toMatch(/rate_limit|overloaded|exhausted|unavailable/i)
    })

    it('TO-06: a prompt that is too long as 400, with the engine’s own numbers', () => {
      const told = codec.dialect.failure(failure('context-overflow', 'maximum context length is 32768 tokens, you requested 45000'))
      expect(told.status).toBe(400)
      expect(codec.failure(told.body, 400)).toMatch(/45000.*32768|32768.*45000/)
    })

    it('with the time to stay away', () => {
      const told = codec.dialect.failure(failure('overloaded', 'later', { retryAfterMs: 1_001 }))
      expect(told.headers['retry-after']).toBe('2')
    })

    it('and inside a stream, or by a cut connection', () => {
      const stream = reply(codec, true).stream(identity)
      stream.open(null)
      const told = stream.failure(failure('engine-aborted', 'why it failed'))
      if (codec.streamFailure === null) expect(told).toBeNull()
      else expect(codec.streamFailure(told ?? '')).toBe('why it failed')
    })
  })

  describe('takes back what it told', () => {
    it.each(Object.entries(ANSWERS))('%s', (_case, given) => comesRound(codec, conversation([given])))

    it('in whole conversations', () => {
      fc.assert(fc.property(fc.array(answers(), { minLength: 1, maxLength: 4 }), (given) => comesRound(codec, conversation(given))))
    })

    it.each(['{"path": "a.txt", "limit": 10}', '{"10": "b", "2": "a"}', '{"x": 1.0, "id": 12345678901234567890}', '{"s": "caf\\u00e9"}'])(
      'TI-03: with the arguments that were sampled, byte for byte: %s',
      (args) => {
        const recall = openRecall(() => 'fresh')
        const message = answer({ reasoning_content: ' R\n', content: '\n\nT', tool_calls: [toolCall('call_a', args)] }).message
        const told = recall.remember(identity.id, message, reply(codec, false).echo)
        const plain = JSON.parse(reply(codec, false).plain({ ...answer({}), message: told }, identity))
        const items = [...codec.items(USER), ...codec.returned(plain), ...codec.items(resultsFor(answer(message)))]
        const { request } = read(codec, codec.request(WITH_TOOLS, items, false), false).call
        expect(recall.restore(request.messages).messages[1]).toEqual(message)
      },
    )
  })
})

const USER: NeutralTurn = { type: 'user', text: 'q', image: null }
const WITH_TOOLS = REQUESTS.tools as NeutralRequest

function asksTheSame(codec: Codec, asked: NeutralRequest): void {
  const given = { ...asked, ...Object.fromEntries(codec.lacks.map((field) => [field, ASKED[field]])) }
  const expected = pivotOf(given)
  for (const isStream of [false, true]) {
    const { call } = read(codec, encode(codec, given, isStream), isStream)
    const facts = { modelRequested: 'm', stream: isStream, maxTokensRequested: given.maxTokens, continues: null, diagnostics: [] }
    expect(call).toMatchObject(facts)
    expect(call.request.messages.map(canonicalMessage)).toEqual(expected.messages.map(canonicalMessage))
    expect(call.request.tools).toEqual(expected.tools)
    expect(canonicalParameters(call.request.parameters)).toEqual(expected.parameters)
    const origins = given.turns.flatMap((turn) =>
      turn.type === 'assistant' ? [codec.signs === 'no turn' ? undefined : (turn.origin ?? undefined)] : [],
    )
    expect(call.request.messages.flatMap((message) => (message.role === 'assistant' ? [message.origin] : []))).toEqual(origins)
  }
}

function tellsTheSame(codec: Codec, given: ChatAnswer): void {
  const expected = saidOf(given)
  const plain: JsonObject = JSON.parse(reply(codec, false).plain(given, identity))
  expect(codec.said(plain)).toEqual(expected)
  for (const known of [given, null]) {
    const stream = reply(codec, true).stream(identity)
    const frames = [stream.open(known)]
    if (known === null) frames.push(stream.beat(), stream.beat())
    frames.push(...stream.answer(given))
    expect(codec.said(codec.fold(frames.join('')))).toEqual(expected)
  }
}

type Told = { readonly answer: ChatAnswer; readonly results: NeutralTurn }

function conversation(given: readonly ChatAnswer[]): readonly Told[] {
  return given.map((each, turn) => {
    const calls = each.message.tool_calls?.map((call) => ({ ...call, id: `${call.id}_${turn}` }))
    const named = calls === undefined ? each : { ...each, message: { ...each.message, tool_calls: calls } }
    return { answer: named, results: resultsFor(named) }
  })
}

/** A client answers every call, and goes on by itself where there is none. */
function resultsFor({ message }: ChatAnswer): NeutralTurn {
  const calls = message.tool_calls ?? []
  if (calls.length === 0) return { type: 'user', text: 'go on', image: null }
  return { type: 'results', results: calls.map(({ id, function: { name } }) => ({ id, name, value: { output: id } })), late: null }
}

/** Every turn is told by the dialect itself, plain or streamed, and comes back as a client that keeps everything returns it. */
function comesRound(codec: Codec, told: readonly Told[]): void {
  for (const isStream of [false, true]) {
    const items = told.flatMap((turn, index) => {
      const form = reply(codec, isStream)
      const stream = form.stream(identityOf(index))
      const wire = isStream
        ? codec.fold([stream.open(turn.answer), ...stream.answer(turn.answer)].join(''))
        : JSON.parse(form.plain(turn.answer, identityOf(index)))
      // Through the client's own JSON.
      return [...JSON.parse(JSON.stringify(codec.returned(wire))), ...codec.items(turn.results)]
    })
    const { request } = read(codec, codec.request(WITH_TOOLS, [...codec.items(USER), ...items], isStream), isStream, 'train').call
    const turns = told.map(({ results }) => results)
    const expected = pivotOf({ ...WITH_TOOLS, turns: [USER, ...turns] }).messages
    const spoken = request.messages.filter((message) => message.role === 'assistant')
    expect(request.messages.filter((message) => message.role !== 'assistant')).toEqual(expected)
    expect(spoken.map(canonicalMessage).map(canonicalText)).toEqual(
      told.map(({ answer: { message } }) => canonicalText(canonicalMessage({ ...message, content: message.content ?? '' }))),
    )
    const order = request.messages.map((message) => message.role === 'assistant')
    expect(order.filter((isSpoken, index) => isSpoken && order[index - 1] === true)).toEqual([])
    const origins = told.map(({ answer: { message } }, index) => (isSigned(codec, message) ? identityOf(index).id : undefined))
    expect(spoken.map((message) => message.origin)).toEqual(origins)
  }
}

function isSigned(codec: Codec, message: ChatAnswer['message']): boolean {
  switch (codec.signs) {
    case 'every turn':
      return true
    case 'turns with reasoning':
      return message.reasoning_content !== undefined
    case 'no turn':
      return false
  }
}

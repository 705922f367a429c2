// Anthropic answers: the plain message, the event stream that says the same, and the envelopes of failures.
import type Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { anthropic, modelInfo } from '../../src/proxy/dialects/anthropic/dialect.ts'
import { messageOf } from '../../src/proxy/dialects/anthropic/response.ts'
import { signedCall } from '../../src/proxy/dialects/signature.ts'
import { failure, inARow } from '../../src/proxy/failure.ts'
import { answer, call, IDENTITY, replyForm, SAMPLES, streamed } from '../lib/anthropic-answers.ts'

type Block = {
  type: string
  text?: string
  thinking?: string
  signature?: string
  input?: unknown
  id?: string
  name?: string
}
type Event = {
  readonly type: string
  readonly index?: number
  readonly message?: { readonly content: readonly Block[]; readonly usage: object }
  readonly content_block?: Block
  readonly delta?: Readonly<Record<string, string | null>>
  readonly usage?: object
}

const plain = (sample: ChatAnswer) => JSON.parse(replyForm().plain(sample, IDENTITY))

/** Each frame is one event line and one data line, and both name the same type. */
function events(body: string): readonly Event[] {
  expect(body.endsWith('\n\n')).toBe(true)
  return body
    .slice(0, -2)
    .split('\n\n')
    .map((frame) => {
      const [, name, data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? []
      const event: Event = JSON.parse(data)
      expect(event.type).toBe(name)
      return event
    })
}

/** Reads a stream as strictly as its grammar is written, and gives the message it amounts to. */
function fold(body: string) {
  const [start, ...rest] = events(body)
  expect(start?.type).toBe('message_start')
  const content: Block[] = []
  let json = ''
  let open = -1
  let end: Event | null = null
  let isStopped = false
  for (const event of rest) {
    expect(isStopped).toBe(false)
    switch (event.type) {
      case 'ping':
        break
      case 'content_block_start':
        expect([open, event.index, end]).toEqual([-1, content.length, null])
        open = content.length
        json = ''
        content.push({ ...event.content_block } as Block)
        break
      case 'content_block_delta': {
        expect(event.index).toBe(open)
        const { type, ...fields } = event.delta ?? {}
        const block = content[open] as Block
        for (const piece of Object.values(fields)) expect(piece).not.toBe('')
        if (type === 'text_delta' && block.type === 'text') block.text += String(fields.text)
        else if (type === 'thinking_delta' && block.type === 'thinking') block.thinking += String(fields.thinking)
        else if (type === 'signature_delta' && block.type === 'thinking') block.signature = String(fields.signature)
        else if (type === 'input_json_delta' && block.type === 'tool_use') json += fields.partial_json
        else throw new Error(`a ${type} in a ${block.type} block`)
        break
      }
      case 'content_block_stop': {
        expect(event.index).toBe(open)
        const block = content[open] as Block
        if (block.type === 'tool_use') block.input = JSON.parse(json)
        if (block.type === 'thinking') expect(block.signature).not.toBe('')
        open = -1
        break
      }
      case 'message_delta':
        expect([open, end]).toEqual([-1, null])
        end = event
        break
      case 'message_stop':
        expect(end).not.toBeNull()
        isStopped = true
        break
      default:
        throw new Error(`an event of type ${event.type}`)
    }
  }
  expect(isStopped).toBe(true)
  return { ...start?.message, content, ...end?.delta, usage: end?.usage }
}

describe('a stream', () => {
  it.each(SAMPLES)('folded, says what the plain answer says: %# (ST-04)', (sample) => {
    expect(fold(streamed(sample))).toEqual(plain(sample))
    expect(fold(streamed(sample, true))).toEqual(plain(sample))
  })

  it('and the plain answer agree for any texts', () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 })
    const args = fc.oneof(
      text,
      fc.json(),
      fc.dictionary(text, fc.jsonValue()).map((value) => JSON.stringify(value)),
    )
    fc.assert(
      fc.property(fc.option(text), text, fc.array(args, { maxLength: 3 }), fc.boolean(), (content, reasoning, given, isLate) => {
        const calls = given.map((each, index) => call(`c${index}`, each))
        const sample = answer({
          content,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0 ? {} : { tool_calls: calls }),
        })
        expect(fold(streamed(sample, isLate))).toEqual(plain(sample))
      }),
    )
  })

  it.each([
    { sample: 0, blocks: ['tool_use'] },
    { sample: 1, blocks: ['thinking', 'text'] },
    { sample: 2, blocks: ['thinking', 'tool_use'] },
    { sample: 3, blocks: ['text'] },
    { sample: 4, blocks: ['text'] },
    { sample: 8, blocks: ['thinking', 'text', 'tool_use', 'tool_use'] },
  ])('has the blocks $blocks for sample $sample and no empty one beside them (ST-04)', ({ sample, blocks }) => {
    const body = streamed(SAMPLES[sample] as ChatAnswer)
    expect(events(body).flatMap((event) => event.content_block?.type ?? [])).toEqual(blocks)
    expect(body.split('event: message_start').length).toBe(2)
    expect(body.split('event: message_stop').length).toBe(2)
  })

  it('starts with what is known of the usage, and ends with all of it', () => {
    const sample = answer({ content: 'x' }, { usage: { promptTokens: 10, completionTokens: 4, cachedTokens: 6, reasoningTokens: 1 } })
    const start = (isLate: boolean) => events(streamed(sample, isLate))[0]?.message?.usage
    expect(start(false)).toMatchObject({ input_tokens: 4, cache_read_input_tokens: 6, cache_creation_input_tokens: 0, output_tokens: 0 })
    expect(start(true)).toMatchObject({ input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 })
    expect(fold(streamed(sample, true)).usage).toMatchObject({ input_tokens: 4, cache_read_input_tokens: 6, output_tokens: 4 })
  })

  it('keeps a waiting client with message_start once, then pings (ST-01)', () => {
    const stream = replyForm().stream(IDENTITY)
    const waiting = [stream.open(null), stream.beat(), stream.beat()].join('')
    expect(events(waiting).map(({ type }) => type)).toEqual(['message_start', 'ping', 'ping'])
    expect(stream.beat()).toBe('event: ping\ndata: {"type":"ping"}\n\n')
  })

  it('has no frame that would hide a slow reader', () => {
    for (const sample of SAMPLES) {
      for (const frame of replyForm().stream(IDENTITY).answer(sample)) expect(frame.length).toBeLessThan(25_000)
    }
  })

  it.each([
    ['engine-failed', 1, 'overloaded_error', 'why'],
    ['engine-failed', 3, 'invalid_request_error', 'the inference server keeps failing (3 times in a row)'],
    ['overloaded', 5, 'invalid_request_error', 'every inference server stays busy (5 times in a row)'],
    ['engine-rejected', 1, 'invalid_request_error', 'why'],
  ] as const)('tells a late %s, %i times in a row, as an error event of type %s', (code, times, type, message) => {
    const told = replyForm()
      .stream(IDENTITY)
      .failure(inARow(failure(code, 'why'), times))
    expect(events(told ?? '')).toEqual([{ type: 'error', error: { type, message }, request_id: `msg_${IDENTITY.id}` }])
  })
})

describe('a plain answer', () => {
  it('is a message of the vendor’s type', () => {
    const sample = answer(
      { reasoning_content: 'R', content: 'T', tool_calls: [call('c1', '{"a": 1}')] },
      { finishReason: 'tool_calls', usage: { promptTokens: 10, completionTokens: 4, cachedTokens: null, reasoningTokens: 3 } },
    )
    // Checked by the compiler: every field that the vendor promises is there, with its type.
    const message: Anthropic.Message = messageOf(sample, IDENTITY, { stopSequences: [] })
    expect(JSON.parse(JSON.stringify(message))).toEqual(plain(sample))
    expect(plain(sample)).toEqual({
      id: `msg_${IDENTITY.id}`,
      type: 'message',
      role: 'assistant',
      model: 'claude-asked',
      container: null,
      diagnostics: null,
      content: [
        { type: 'thinking', thinking: 'R', signature: expect.any(String) },
        { type: 'text', text: 'T', citations: null },
        { type: 'tool_use', id: 'c1', name: 'f', input: { a: 1 }, caller: { type: 'direct' } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      stop_details: null,
      usage: {
        input_tokens: 10,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation: null,
        output_tokens: 4,
        output_tokens_details: { thinking_tokens: 3 },
        server_tool_use: null,
        inference_geo: null,
        service_tier: 'standard',
        speed: null,
      },
    })
  })

  it('signs its reasoning with its call (TI-12)', () => {
    expect(signedCall(plain(answer({ reasoning_content: 'R' })).content[0].signature)).toBe(IDENTITY.id)
  })

  it('whose reasoning swallowed everything has an empty text, and no call is invented (TO-08)', () => {
    const { content, stop_reason: stop } = plain(SAMPLES[5] as ChatAnswer)
    expect(content).toMatchObject([{ type: 'thinking' }, { type: 'text', text: '' }])
    expect([content.length, stop]).toEqual([2, 'end_turn'])
  })

  it.each(['', ' ', '{"broken', '[1]', '7', 'null', '"s"'])('has empty input for arguments %j, as its stream has', (text) => {
    const sample = answer({ tool_calls: [call('c', text)] })
    expect(plain(sample).content).toMatchObject([{ input: {} }])
    expect(fold(streamed(sample)).content).toMatchObject([{ input: {} }])
  })

  it('streams the sampled text of arguments as it is, and tells their numbers with the same digits when it is plain', () => {
    const sample = answer({ tool_calls: [call('c', '{"x":  1.0, "id": 12345678901234567890}')] })
    const deltas = events(streamed(sample)).flatMap(({ delta }) => delta?.partial_json ?? [])
    expect(deltas).toEqual(['{"x":  1.0, "id": 12345678901234567890}'])
    expect(replyForm().plain(sample, IDENTITY)).toContain('"input":{"x":1.0,"id":12345678901234567890}')
  })

  it.each([
    { given: answer({ content: 'x' }), reason: 'end_turn', sequence: null },
    { given: answer({ content: 'x' }, { finishReason: 'length' }), reason: 'max_tokens', sequence: null },
    { given: answer({ content: 'x' }, { finishReason: 'content_filter' }), reason: 'refusal', sequence: null },
    { given: answer({ content: 'x' }, { finishReason: 'tool_calls' }), reason: 'end_turn', sequence: null },
    { given: answer({ tool_calls: [call('c', '{}')] }, { finishReason: 'tool_calls' }), reason: 'tool_use', sequence: null },
    { given: answer({ tool_calls: [call('c', '{}')] }), reason: 'tool_use', sequence: null },
    { given: answer({ tool_calls: [call('c', '{}')] }, { finishReason: 'length' }), reason: 'max_tokens', sequence: null },
    { given: answer({ content: 'x' }, { stopSequence: 'END' }), reason: 'stop_sequence', sequence: 'END' },
    { given: answer({ content: 'x' }, { stopSequence: '<|im_end|>' }), reason: 'end_turn', sequence: null },
  ])('stops with $reason, $sequence', ({ given, reason, sequence }) => {
    expect(plain(given)).toMatchObject({ stop_reason: reason, stop_sequence: sequence })
    expect(fold(streamed(given))).toMatchObject({ stop_reason: reason, stop_sequence: sequence })
  })

  it.each([
    { prompt: 10, cached: null, input: 10, read: 0 },
    { prompt: 10, cached: 0, input: 10, read: 0 },
    { prompt: 10, cached: 8, input: 2, read: 8 },
    { prompt: 10, cached: 12, input: 0, read: 10 },
  ])('adds up to the prompt: $prompt with $cached cached', ({ prompt, cached, input, read }) => {
    const usage = { promptTokens: prompt, completionTokens: 1, cachedTokens: cached, reasoningTokens: null }
    expect(plain(answer({ content: 'x' }, { usage })).usage).toMatchObject({ input_tokens: input, cache_read_input_tokens: read })
  })

  it('keeps logprobs to itself', () => {
    const sample = answer({ content: 'x' }, { logprobs: [{ token: 'x', logprob: -1 }] })
    expect(replyForm().plain(sample, IDENTITY) + streamed(sample)).not.toContain('logprob')
  })
})

describe('a failure', () => {
  it.each([
    { code: 'invalid-request', status: 400, type: 'invalid_request_error', isFinal: true },
    { code: 'constrained-decoding', status: 400, type: 'invalid_request_error', isFinal: true },
    { code: 'unauthenticated', status: 401, type: 'authentication_error', isFinal: true },
    { code: 'session-ended', status: 403, type: 'permission_error', isFinal: true },
    { code: 'route-unknown', status: 404, type: 'not_found_error', isFinal: true },
    { code: 'too-large', status: 413, type: 'request_too_large', isFinal: true },
    { code: 'unsupported-encoding', status: 415, type: 'invalid_request_error', isFinal: true },
    { code: 'overloaded', status: 429, type: 'rate_limit_error', isFinal: false },
    { code: 'budget-exhausted', status: 400, type: 'invalid_request_error', isFinal: true },
    { code: 'gateway-error', status: 500, type: 'api_error', isFinal: false },
    { code: 'engine-failed', status: 502, type: 'api_error', isFinal: false },
    { code: 'engine-aborted', status: 503, type: 'api_error', isFinal: false },
    { code: 'engine-timeout', status: 504, type: 'timeout_error', isFinal: false },
  ] as const)('$code has status $status and type $type, is final: $isFinal', ({ code, status, type, isFinal }) => {
    const reply = anthropic.failure(failure(code, 'why', { param: 'p' }))
    expect([reply.status, JSON.parse(reply.body)]).toEqual([status, { type: 'error', error: { type, message: 'why' }, request_id: null }])
    expect(reply.headers['content-type']).toBe('application/json')
    expect(reply.headers['x-should-retry']).toBe(isFinal ? 'false' : undefined)
  })

  it.each([
    { code: 'overloaded', status: 503, type: 'overloaded_error' },
    { code: 'overloaded', status: 529, type: 'overloaded_error' },
    { code: 'engine-failed', status: 529, type: 'overloaded_error' },
    { code: 'engine-rejected', status: 409, type: 'conflict_error' },
    { code: 'engine-rejected', status: 422, type: 'invalid_request_error' },
  ] as const)('$code of an engine with status $status has type $type', ({ code, status, type }) => {
    expect(JSON.parse(anthropic.failure(failure(code, 'why', { status })).body).error.type).toBe(type)
  })

  it('says when to come back', () => {
    expect(anthropic.failure(failure('overloaded', 'x', { retryAfterMs: 1_001 })).headers['retry-after']).toBe('2')
  })

  it.each([
    {
      told: "This model's maximum context length is 32768 tokens. However, you requested 45000 tokens in the messages. Please reduce the length.",
      sentence: 'prompt is too long: 45000 tokens > 32768 maximum',
    },
    {
      told: "This model's maximum context length is 32768 tokens. However, you requested 77000 tokens (45000 in the messages, 32000 in the completion).",
      sentence: 'prompt is too long: 45000 tokens > 32768 maximum',
    },
    {
      told: "The input (345516 tokens) is longer than the model's context length (262144 tokens).",
      sentence: 'prompt is too long: 345516 tokens > 262144 maximum',
    },
    {
      told: 'The decoder prompt (length 45000) is longer than the maximum model length of 32768.',
      sentence: 'prompt is too long: 45000 tokens > 32768 maximum',
    },
    { told: 'longer than max_model_len', sentence: 'prompt is too long: longer than max_model_len' },
  ])('of a prompt that is too long is told as Claude Code knows it: $sentence (TO-06)', ({ told, sentence }) => {
    const reply = anthropic.failure(failure('context-overflow', told, { param: 'messages' }))
    expect([reply.status, JSON.parse(reply.body).error]).toEqual([400, { type: 'invalid_request_error', message: sentence }])
    expect(reply.headers['x-should-retry']).toBe('false')
  })
})

describe('the models', () => {
  const entry = (id: string, maxModelLen: number | null = 4_096) => ({ id, createdSeconds: 0, maxModelLen })

  it('are told in the vendor’s form', () => {
    // Checked by the compiler, as above.
    const info: Anthropic.ModelInfo = modelInfo(entry('policy'))
    expect(JSON.parse(anthropic.modelItem(entry('policy')))).toEqual(info)
    expect(info).toMatchObject({
      type: 'model',
      id: 'policy',
      display_name: 'policy',
      created_at: '1970-01-01T00:00:00.000Z',
      max_input_tokens: 4_096,
    })
    expect(JSON.parse(anthropic.modelList([entry('a', null), entry('b')]))).toMatchObject({
      data: [{ id: 'a', max_input_tokens: null }, { id: 'b' }],
      has_more: false,
      first_id: 'a',
      last_id: 'b',
    })
    expect(JSON.parse(anthropic.modelList([]))).toEqual({ data: [], has_more: false, first_id: null, last_id: null })
  })
})

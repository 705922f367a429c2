// OpenAI chat answers: the plain object, the stream that says the same, and the envelopes of failures.
import fc from 'fast-check'
import type OpenAI from 'openai'
import { describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import { failure } from '../../src/proxy/failure.ts'

const identity = { id: 'msg_1', createdSeconds: 1_700_000_000, model: 'gpt-asked' }

function forms(wishes: object) {
  const read = openaiChat.read(
    { model: 'gpt-asked', messages: [{ role: 'user', content: 'x' }], stream: true, ...wishes },
    { tier: 'eval', pins: {}, url: { model: null, form: null } },
  )
  if (!read.ok) throw new Error(read.failure.message)
  return read.reply
}

const answer = (message: Partial<ChatAnswer['message']>, rest: Partial<ChatAnswer> = {}): ChatAnswer => ({
  message: { role: 'assistant', content: null, ...message },
  finishReason: 'stop',
  usage: { promptTokens: 10, completionTokens: 4, cachedTokens: 6, reasoningTokens: null },
  stopSequence: null,
  logprobs: null,
  ...rest,
})

const call = (id: string, args: string) => ({ id, type: 'function' as const, function: { name: 'f', arguments: args } })

const SAMPLES: readonly ChatAnswer[] = [
  answer({ content: 'T' }),
  answer({ content: '' }),
  answer({ content: null }),
  answer({ reasoning_content: ' R\n', content: '\n\nT ' }),
  answer({ reasoning_content: 'R', content: null }),
  answer({ tool_calls: [call('a', '{"x": 1.0}'), call('b', '')] }, { finishReason: 'tool_calls' }),
  answer(
    { content: 'both', reasoning_content: 'R', tool_calls: [call('a', `{"s":"${'é😀'.repeat(9_000)}"}`)] },
    { finishReason: 'tool_calls' },
  ),
  answer({ content: '😀'.repeat(20_000) }, { finishReason: 'length' }),
  answer({ content: 'x' }, { logprobs: [{ token: 'x', logprob: -1, bytes: null, top_logprobs: [] }] }),
]

type Chunk = {
  readonly choices: readonly { readonly delta: Delta; readonly finish_reason: string | null; readonly logprobs?: unknown }[]
  readonly usage?: unknown
}
type Delta = {
  readonly role?: string
  readonly content?: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly {
    readonly index: number
    readonly id?: string
    readonly type?: string
    readonly function: { readonly name?: string; readonly arguments: string }
  }[]
}

/** Reads a stream as a client does. */
function fold(frames: readonly string[]) {
  const message: { content: string; reasoning: string; calls: { id: string; name: string; arguments: string }[] } = {
    content: '',
    reasoning: '',
    calls: [],
  }
  let finish: string | null = null
  let usage: unknown = null
  let logprobs: unknown = null
  const lines = frames.join('').split('\n\n').slice(0, -1)
  for (const line of lines.slice(0, -1)) {
    const chunk: Chunk = JSON.parse(line.slice('data: '.length))
    usage = chunk.usage ?? usage
    const [choice] = chunk.choices
    if (choice === undefined) continue
    expect(finish).toBeNull()
    finish = choice.finish_reason
    logprobs = choice.logprobs ?? logprobs
    message.content += choice.delta.content ?? ''
    message.reasoning += choice.delta.reasoning_content ?? ''
    for (const part of choice.delta.tool_calls ?? []) {
      message.calls[part.index] ??= { id: part.id ?? '', name: part.function.name ?? '', arguments: '' }
      const known = message.calls[part.index]
      if (known !== undefined) known.arguments += part.function.arguments
    }
  }
  expect(lines.at(-1)).toBe('data: [DONE]')
  return { message, finish, usage, logprobs }
}

function same(sample: ChatAnswer) {
  const reply = forms({ stream_options: { include_usage: true }, logprobs: true })
  const plain = JSON.parse(reply.plain(sample, identity))
  const stream = reply.stream(identity)
  const folded = fold([stream.open(null), stream.beat(), ...stream.answer(sample)])
  const { message, finish_reason: finish, logprobs } = plain.choices[0]
  expect(folded).toEqual({
    message: {
      content: message.content ?? '',
      reasoning: message.reasoning_content ?? '',
      calls: (message.tool_calls ?? []).map(
        (tool: (typeof SAMPLES)[0]['message']['tool_calls'] extends readonly (infer T)[] | undefined ? T : never) => ({
          id: tool.id,
          name: tool.function.name,
          arguments: tool.function.arguments,
        }),
      ),
    },
    finish,
    usage: plain.usage,
    logprobs,
  })
  expect(message).toMatchObject(sample.message)
}

describe('a stream', () => {
  it.each(SAMPLES)('folded, says what the plain answer says: %#', same)

  it('and the plain answer agree for any texts', () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 })
    fc.assert(
      fc.property(fc.option(text), text, fc.array(text, { maxLength: 3 }), (content, reasoning, args) => {
        const calls = args.map((each, index) => call(`c${index}`, each))
        same(
          answer({
            content,
            ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
            ...(calls.length === 0 ? {} : { tool_calls: calls }),
          }),
        )
      }),
    )
  })

  it('has role first, then deltas, one finish, the usage when asked, and [DONE]', () => {
    const stream = forms({ stream_options: { include_usage: true } }).stream(identity)
    const chunks = [stream.open(null), ...stream.answer(SAMPLES[5] ?? answer({}))].map((frame) => frame.slice(6, -2))
    expect(chunks.at(-1)).toBe('[DONE]')
    const parsed: Chunk[] = chunks.slice(0, -1).map((chunk) => JSON.parse(chunk))
    expect(parsed.map(({ choices: [choice] }) => choice && [Object.keys(choice.delta).join(), choice.finish_reason])).toEqual([
      ['role,content', null],
      ['tool_calls', null],
      ['tool_calls', null],
      ['', 'tool_calls'],
      undefined,
    ])
    expect(
      parsed
        .flatMap(({ choices }) => choices)
        .flatMap(({ delta }) => delta.tool_calls ?? [])
        .map(({ index }) => index),
    ).toEqual([0, 1])
    expect(parsed.at(-1)?.usage).toMatchObject({ prompt_tokens: 10, total_tokens: 14 })
  })

  it('is one of the vendor’s chunks after another', () => {
    const sample = answer(
      { reasoning_content: 'R', content: 'T', tool_calls: [call('a', '{"x": 1.0}')] },
      { finishReason: 'tool_calls', logprobs: [{ token: 'x', logprob: -1, bytes: null, top_logprobs: [] }] },
    )
    const stream = forms({ logprobs: true }).stream(identity)
    const frames = [stream.open(null), stream.beat(), ...stream.answer(sample)]
    const chunks: OpenAI.ChatCompletionChunk[] = frames.slice(0, -1).map((frame) => JSON.parse(frame.slice('data: '.length)))
    const head = { id: 'chatcmpl-msg_1', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'gpt-asked' }
    const delta = (content: object) => ({ ...head, choices: [{ index: 0, delta: content, finish_reason: null }] })
    expect(chunks).toEqual([
      delta({ role: 'assistant', content: '' }),
      delta({}),
      delta({ reasoning_content: 'R' }),
      delta({ content: 'T' }),
      delta({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{"x": 1.0}' } }] }),
      {
        ...head,
        choices: [{ index: 0, delta: {}, logprobs: { content: sample.logprobs, refusal: null }, finish_reason: 'tool_calls' }],
      },
    ])
    expect(frames.at(-1)).toBe('data: [DONE]\n\n')
  })

  it('keeps usage and logprobs to itself unless they were asked for', () => {
    const reply = forms({})
    const stream = reply.stream(identity)
    const frames = [stream.open(null), ...stream.answer(SAMPLES[8] ?? answer({}))].join('')
    expect(frames).not.toContain('usage')
    expect(frames).not.toContain('logprob')
    expect(JSON.parse(reply.plain(SAMPLES[8] ?? answer({}), identity)).choices[0].logprobs).toBeNull()
  })

  it('has no frame that would hide a slow reader', () => {
    const stream = forms({}).stream(identity)
    for (const frame of stream.answer(SAMPLES[6] ?? answer({}))) expect(frame.length).toBeLessThan(20_000)
  })
})

describe('a plain answer', () => {
  it('has logprobs where they were asked for and the engine gave them, and no empty list of calls', () => {
    const logprobs = [{ token: 'x', logprob: -1, bytes: null, top_logprobs: [] }]
    const choice = (given: ChatAnswer) => JSON.parse(forms({ logprobs: true }).plain(given, identity)).choices[0]
    expect(choice(answer({ content: 'x', tool_calls: [] }, { logprobs }))).toEqual({
      index: 0,
      message: { role: 'assistant', content: 'x', refusal: null },
      logprobs: { content: logprobs, refusal: null },
      finish_reason: 'stop',
    })
    expect(choice(answer({ content: 'x' })).logprobs).toBeNull()
  })

  it('has numbers and objects where clients index', () => {
    const plain = JSON.parse(
      forms({}).plain(
        answer({ content: 'x' }, { usage: { promptTokens: 1, completionTokens: 2, cachedTokens: null, reasoningTokens: null } }),
        identity,
      ),
    )
    expect(plain).toEqual({
      id: 'chatcmpl-msg_1',
      object: 'chat.completion',
      created: 1_700_000_000,
      model: 'gpt-asked',
      choices: [{ index: 0, message: { role: 'assistant', content: 'x', refusal: null }, logprobs: null, finish_reason: 'stop' }],
      usage: {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    })
  })
})

describe('a failure', () => {
  it.each([
    { code: 'unauthenticated', status: 401, type: 'authentication_error', told: 'invalid_api_key' },
    { code: 'forbidden', status: 403, type: 'permission_error', told: 'forbidden' },
    { code: 'route-unknown', status: 404, type: 'not_found_error', told: 'route_unknown' },
    { code: 'too-large', status: 413, type: 'invalid_request_error', told: 'too_large' },
    { code: 'overloaded', status: 429, type: 'rate_limit_error', told: 'rate_limit_exceeded' },
    { code: 'gateway-error', status: 500, type: 'server_error', told: 'gateway_error' },
    { code: 'engine-aborted', status: 503, type: 'server_error', told: 'engine_aborted' },
    { code: 'engine-timeout', status: 504, type: 'server_error', told: 'engine_timeout' },
  ] as const)('$code has status $status and type $type', ({ code, status, type, told }) => {
    const reply = openaiChat.failure(failure(code, 'why', { param: 'p' }))
    expect([reply.status, JSON.parse(reply.body)]).toEqual([status, { error: { message: 'why', type, param: 'p', code: told } }])
    expect(reply.headers['content-type']).toBe('application/json')
  })

  it('of a prompt that is too long has OpenAI’s code, and a sentence for those who do not look at codes', () => {
    const reply = openaiChat.failure(failure('context-overflow', 'why', { param: 'messages' }))
    const message = 'Your input exceeds the context window of this model: why'
    const error = { message, type: 'invalid_request_error', param: 'messages', code: 'context_length_exceeded' }
    expect([reply.status, JSON.parse(reply.body)]).toEqual([400, { error }])
  })

  it.each([
    { retryAfterMs: 0, header: '1' },
    { retryAfterMs: 1_001, header: '2' },
    { retryAfterMs: 30_000, header: '30' },
  ])('says retry-after in whole seconds: $retryAfterMs ms', ({ retryAfterMs, header }) => {
    expect(openaiChat.failure(failure('overloaded', 'x', { retryAfterMs })).headers['retry-after']).toBe(header)
    expect(openaiChat.failure(failure('overloaded', 'x')).headers).not.toHaveProperty('retry-after')
  })
})

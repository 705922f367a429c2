// Engines that are sent token ids: how the prompt is made, what the sampler is told, and answers that do not agree with themselves.
import { describe, expect, it } from 'vitest'
import type { AnswerFormat } from '../../src/proxy/answer-text/answer-text.ts'
import type { EngineOutcome, EngineRequest, HttpRequest } from '../../src/proxy/engines/engine.ts'
import { llamacpp } from '../../src/proxy/engines/llamacpp.ts'
import { sglangNative } from '../../src/proxy/engines/sglang-native.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

type Reply = { readonly status: number; readonly body: unknown } | 'reset'
const ok = (body: unknown): Reply => ({ status: 200, body })

/** A server whose routes answer as the test says; what it was asked is kept. */
function server(routes: Readonly<Record<string, Reply>>) {
  const asked: { readonly path: string; readonly body: JsonObject }[] = []
  const send = async ({ path, body }: HttpRequest) => {
    asked.push({ path, body: JSON.parse(body ?? 'null') })
    const reply = routes[path] ?? { status: 404, body: { detail: 'Not Found' } }
    if (reply === 'reset') return { ok: false, error: 'reset', detail: 'ECONNRESET' } as const
    return { ok: true, response: { status: reply.status, headers: {}, body: Buffer.from(JSON.stringify(reply.body)) } } as const
  }
  return { send, asked }
}

const xml: AnswerFormat = { reasoning: 'think-tags', opensThinking: true, calls: 'xml' }
const request = (parameters: JsonObject = {}, changes: Partial<EngineRequest> = {}): EngineRequest => ({
  prompt: {
    kind: 'messages',
    messages: [{ role: 'user', content: 'hi' }],
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: { n: { type: 'integer' } } } } }],
  },
  parameters,
  model: 'm',
  topLogprobs: 0,
  format: xml,
  ...changes,
})
function answered(outcome: EngineOutcome) {
  if (outcome.type !== 'answer') throw new Error(JSON.stringify(outcome))
  return outcome
}

describe('SGLang’s own generation', () => {
  const meta = {
    finish_reason: { type: 'stop', matched: 9 },
    prompt_tokens: 2,
    completion_tokens: 2,
    cached_tokens: 1,
    weight_version: '7',
    output_token_logprobs: [
      [-1, 8, null],
      [-2, 9, null],
    ],
  }
  const generated = (changes: object = {}, body: object = {}) =>
    ok({ text: 'So.\n</think>\n\nHi.', output_ids: [8, 9], meta_info: { ...meta, ...changes }, ...body })
  const routes = (reply: Reply = generated()) => ({ '/v1/tokenize': ok({ tokens: [1, 2] }), '/generate': reply })

  it('reads a thought that the template opened, unless thinking was switched off', async () => {
    const thought = answered(await sglangNative.generate(request(), server(routes()).send))
    expect(thought.answer.message).toEqual({ role: 'assistant', content: 'Hi.', reasoning_content: 'So.' })
    const off = request({ chat_template_kwargs: { enable_thinking: false } })
    expect(answered(await sglangNative.generate(off, server(routes()).send)).answer.message.content).toBe('So.\n</think>\n\nHi.')
  })

  it('makes the prompt by the template, with all that the template reads', async () => {
    const { send, asked } = server(routes())
    const parameters = { chat_template_kwargs: { a: 1 }, reasoning_effort: 'low', continue_final_message: true, temperature: 0.5 }
    await sglangNative.generate(request(parameters), send)
    expect(asked[0]).toEqual({
      path: '/v1/tokenize',
      body: {
        messages: [{ role: 'user', content: 'hi' }],
        tools: expect.any(Array),
        add_generation_prompt: true,
        chat_template_kwargs: { a: 1 },
        reasoning_effort: 'low',
        continue_final_message: true,
        model: 'm',
      },
    })
    expect(asked[1]?.body).toMatchObject({ input_ids: [1, 2], sampling_params: { temperature: 0.5 } })
  })

  it('asks for all that is left of the context where the caller names no budget', async () => {
    const { send, asked } = server(routes())
    await sglangNative.generate(request(), send)
    expect(asked[1]?.body.sampling_params).toEqual({ max_new_tokens: null, skip_special_tokens: false })
  })

  it('takes the tokenizer under its older name', async () => {
    const { send, asked } = server({ '/tokenize': ok({ tokens: [1, 2] }), '/generate': generated() })
    expect(answered(await sglangNative.generate(request(), send)).tokens.promptIds).toEqual([1, 2])
    expect(asked.map(({ path }) => path)).toEqual(['/v1/tokenize', '/tokenize', '/generate'])
  })

  it.each<[string, Readonly<Record<string, Reply>>, object]>([
    ['no tokenizer route', {}, { type: 'unserved' }],
    ['a template that refuses', { '/v1/tokenize': { status: 400, body: { message: 'no user query' } } }, { type: 'rejected', status: 400 }],
    ['a tokenizer that gives no ids', { '/v1/tokenize': ok({ count: 2 }) }, { type: 'garbled' }],
    ['a tokenizer that says nothing', { '/v1/tokenize': ok(null) }, { type: 'garbled' }],
    ['a connection that breaks', { '/v1/tokenize': 'reset' }, { type: 'broken' }],
    ['a generation that breaks', { ...routes(), '/generate': 'reset' }, { type: 'broken' }],
    ['an answer that is none', { ...routes(), '/generate': ok({ text: 'x' }) }, { type: 'garbled' }],
    ['an answer in a list', { ...routes(), '/generate': ok([]) }, { type: 'garbled' }],
  ])('tells %s apart', async (_name, given, outcome) => {
    expect(await sglangNative.generate(request(), server(given).send)).toMatchObject(outcome)
  })

  it.each([
    ['abort', { finish_reason: { type: 'abort', message: 'Aborted' } }, 'abort'],
    ['none', { finish_reason: null }, 'unknown'],
    ['one nobody knows', { finish_reason: { type: 'bored' } }, 'unknown'],
  ])('CP-02 takes the ending %s for no answer', async (_name, changes, finishReason) => {
    const outcome = await sglangNative.generate(request(), server(routes(generated(changes))).send)
    expect(outcome).toMatchObject({ type: 'aborted', finishReason, weightVersion: '7', tokens: { sampledIds: [8, 9] } })
  })

  it.each([
    ['names other tokens than it lists', {}, { output_ids: [8, 7] }, 'ids-missing'],
    ['counts fewer', { completion_tokens: 1 }, {}, 'lengths-differ'],
    ['read another prompt', { prompt_tokens: 3 }, {}, 'lengths-differ'],
    ['gives one logprob', { output_token_logprobs: [[-1, 8, null]] }, {}, 'lengths-differ'],
    ['gives none', { output_token_logprobs: undefined }, {}, 'logprobs-missing'],
    [
      'gives null',
      {
        output_token_logprobs: [
          [null, 8, null],
          [-2, 9, null],
        ],
      },
      {},
      'logprob-not-finite',
    ],
  ])('CP-05 trains nothing of an engine that %s', async (_name, changes, body, code) => {
    const { tokens, answer } = answered(await sglangNative.generate(request(), server(routes(generated(changes, body))).send))
    expect([answer.message.content, tokens.error?.code, tokens.logprobs]).toEqual(['Hi.', code, null])
  })

  it('takes the ids from the logprobs of a server that lists them nowhere else', async () => {
    const { tokens } = answered(await sglangNative.generate(request(), server(routes(generated({}, { output_ids: undefined }))).send))
    expect(tokens).toEqual({ promptIds: [1, 2], sampledIds: [8, 9], logprobs: [-1, -2], error: null })
  })

  it('reports the last weight version that sampled, and what was cached', async () => {
    const spans = [
      { version: '7', start: 0, end: 1 },
      { version: '8', start: 1, end: 2 },
    ]
    const found = answered(await sglangNative.generate(request(), server(routes(generated({ weight_versions: spans }))).send))
    expect([found.weightVersion, found.answer.usage]).toEqual([
      '8',
      { promptTokens: 2, completionTokens: 2, cachedTokens: 1, reasoningTokens: null },
    ])
  })

  it('notes a call that is malformed, and gives it as text', async () => {
    const text = 'So.\n</think>\n\n<tool_call>\n<function=f>\n<parameter=n>\n5'
    const found = answered(
      await sglangNative.generate(request(), server(routes(generated({ finish_reason: { type: 'length' } }, { text }))).send),
    )
    expect(found.answer).toMatchObject({ finishReason: 'length', message: { content: '<tool_call>\n<function=f>\n<parameter=n>\n5' } })
    expect(found.diagnostics).toEqual([{ code: 'tool-call-malformed', detail: 'call 1: no complete function' }])
  })
})

describe('llama.cpp', () => {
  const completed = (changes: object = {}) =>
    ok({
      content: 'So.\n</think>\n\n<tool_call>\n<function=f>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>',
      tokens: [8, 9],
      tokens_predicted: 2,
      tokens_evaluated: 2,
      stop_type: 'eos',
      completion_probabilities: [
        { id: 8, logprob: -1 },
        { id: 9, logprob: -2 },
      ],
      timings: { cache_n: 1 },
      ...changes,
    })
  const routes = (reply: Reply = completed(), prompt = 'P<think>\n') => ({
    '/apply-template': ok({ prompt }),
    '/tokenize': ok({ tokens: [1, 2] }),
    '/completion': reply,
  })

  it('renders, encodes as the server encodes a chat, and samples from ids', async () => {
    const { send, asked } = server(routes())
    const found = answered(await llamacpp.generate(request({ chat_template_kwargs: { enable_thinking: true } }), send))
    expect(asked.map(({ path }) => path)).toEqual(['/apply-template', '/tokenize', '/completion'])
    expect(asked[0]?.body).toMatchObject({ tools: expect.any(Array), chat_template_kwargs: { enable_thinking: true } })
    expect(asked[1]?.body).toEqual({ content: 'P<think>\n', add_special: true, parse_special: true })
    expect(asked[2]?.body).toMatchObject({ prompt: [1, 2], n_probs: 1, return_tokens: true, n_predict: -1 })
    expect(found.answer.message).toEqual({
      role: 'assistant',
      content: null,
      reasoning_content: 'So.',
      tool_calls: [{ id: '', type: 'function', function: { name: 'f', arguments: '{"n": 5}' } }],
    })
    expect([found.answer.finishReason, found.tokens.error]).toEqual(['tool_calls', null])
    expect(found.answer.usage).toEqual({ promptTokens: 2, completionTokens: 2, cachedTokens: 1, reasoningTokens: null })
  })

  it('knows from the rendered prompt whether the answer begins in a thought, whatever is known of the model', async () => {
    const plain = answered(
      await llamacpp.generate(request(), server(routes(completed({ content: 'So.' }), 'P<think>\n\n</think>\n\n')).send),
    )
    expect(plain.answer.message).toEqual({ role: 'assistant', content: 'So.' })
    const opened = answered(
      await llamacpp.generate(
        request({}, { format: { ...xml, opensThinking: false } }),
        server(routes(completed({ content: 'So.' }))).send,
      ),
    )
    expect(opened.answer.message).toEqual({ role: 'assistant', content: null, reasoning_content: 'So.' })
  })

  it.each<[string, Readonly<Record<string, Reply>>, object]>([
    [
      'a template that refuses',
      { '/apply-template': { status: 500, body: { error: { message: 'no user query' } } } },
      { type: 'rejected', status: 500 },
    ],
    ['a template that gives no text', { '/apply-template': ok({}) }, { type: 'garbled' }],
    ['a tokenizer that gives no ids', { ...routes(), '/tokenize': ok({ tokens: ['a'] }) }, { type: 'garbled' }],
    ['a tokenizer that says nothing', { ...routes(), '/tokenize': ok(null) }, { type: 'garbled' }],
    ['a template that says nothing', { ...routes(), '/apply-template': ok(null) }, { type: 'garbled' }],
    ['a connection that breaks', { ...routes(), '/tokenize': 'reset' }, { type: 'broken' }],
    ['no answer', { ...routes(), '/completion': ok({}) }, { type: 'garbled' }],
    ['a slot that gave up', routes(completed({ stop_type: 'none' })), { type: 'aborted', finishReason: 'abort' }],
    ['an end that nobody knows', routes(completed({ stop_type: 'bored' })), { type: 'aborted', finishReason: 'unknown' }],
    [
      'TO-06 a prompt that is too long',
      {
        ...routes(),
        '/completion': { status: 400, body: { error: { code: 400, type: 'exceed_context_size_error', message: 'too big' } } },
      },
      { type: 'rejected', reason: 'context-overflow', message: 'too big' },
    ],
  ])('tells %s apart', async (_name, given, outcome) => {
    expect(await llamacpp.generate(request(), server(given).send)).toMatchObject(outcome)
  })

  it('tells the usage that the server counted', async () => {
    const { answer } = answered(
      await llamacpp.generate(request(), server(routes(completed({ tokens_evaluated: 5, tokens_predicted: 4 }))).send),
    )
    expect(answer.usage).toMatchObject({ promptTokens: 5, completionTokens: 4 })
  })

  it.each([
    ['names other tokens than it lists', { tokens: [8, 7] }, 'ids-missing'],
    ['has no probability inside a character', { completion_probabilities: [{ id: 9, logprob: -2 }] }, 'lengths-differ'],
    ['has none at all', { completion_probabilities: undefined }, 'logprobs-missing'],
    ['counts fewer', { tokens_predicted: 1 }, 'lengths-differ'],
    ['read another prompt', { tokens_evaluated: 3 }, 'lengths-differ'],
  ])('CP-05 trains nothing of an engine that %s', async (_name, changes, code) => {
    expect(answered(await llamacpp.generate(request(), server(routes(completed(changes))).send)).tokens).toMatchObject({
      logprobs: null,
      error: { code },
    })
  })

  it.each([
    [{ stop_token_ids: [5] }, 'stop_token_ids'],
    [{ min_tokens: 3 }, 'min_tokens'],
    [{ include_stop_str_in_output: true }, 'include_stop_str_in_output'],
    [{ skip_special_tokens: false }, 'skip_special_tokens'],
    [{ logit_bias: { 5: 1 } }, 'logit_bias'],
    [{ tool_choice: { type: 'function', function: { name: 'f' } } }, 'tool_choice'],
  ])('refuses %j in the caller’s terms, and sends nothing', async (parameters, named) => {
    const { send, asked } = server(routes())
    expect(await llamacpp.generate(request(parameters), send)).toMatchObject({ status: 400, message: expect.stringContaining(named) })
    expect(asked).toEqual([])
  })

  it('counts a conversation as it would send it, and a text as it stands', async () => {
    const { send, asked } = server(routes())
    const request = { messages: [{ role: 'user', content: 'hi' }], tools: null, parameters: { chat_template_kwargs: { a: 1 } } } as const
    expect(await llamacpp.countTokens({ kind: 'messages', request }, 'm', send)).toBe(2)
    expect(await llamacpp.countTokens({ kind: 'text', text: 'x' }, 'm', send)).toBe(2)
    expect(asked.map(({ body }) => body)).toEqual([
      { messages: request.messages, chat_template_kwargs: { a: 1 }, model: 'm' },
      { content: 'P<think>\n', add_special: true, parse_special: true },
      { content: 'x', add_special: false, parse_special: false },
    ])
    expect(await llamacpp.countTokens({ kind: 'messages', request }, 'm', server({}).send)).toBeNull()
    expect(await llamacpp.countTokens({ kind: 'text', text: 'x' }, 'm', server({}).send)).toBeNull()
  })

  it('takes no notice of what changes nothing', async () => {
    const parameters = {
      cache_salt: 's',
      skip_special_tokens: true,
      min_tokens: 0,
      stop_token_ids: [],
      include_stop_str_in_output: false,
    }
    expect((await llamacpp.generate(request(parameters), server(routes()).send)).type).toBe('answer')
  })
})

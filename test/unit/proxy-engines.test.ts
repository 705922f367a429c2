// Reading engines: tokens that agree, tokens that do not, endings that are no answers, and refusals with a remedy.
import { describe, expect, it } from 'vitest'
import type { EngineReply } from '../../src/proxy/engines/engine.ts'
import { sglang } from '../../src/proxy/engines/sglang.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import { type Completion, completionBody } from '../lib/proxy-fixture.ts'

const FORMAT = { reasoning: 'think-tags', opensThinking: false, calls: 'json' } as const
const encode = (text: string): Uint8Array => new TextEncoder().encode(text)
const respond = (body: unknown, status = 200, headers = {}) => ({
  status,
  headers,
  body: encode(typeof body === 'string' ? body : JSON.stringify(body)),
})

function answered(reply: EngineReply) {
  if (reply.type !== 'answer') throw new Error(JSON.stringify(reply))
  return reply
}

describe('CP-05 vLLM tokens', () => {
  it('that agree are taken by position', () => {
    const { tokens, answer } = answered(vllm.read(respond(completionBody())))
    expect(tokens).toEqual({ promptIds: [11, 12], sampledIds: [21, 22, 23], logprobs: [-0.5, -0.25, -0.125], error: null })
    expect(answer.usage).toEqual({ promptTokens: 2, completionTokens: 3, cachedTokens: null, reasoningTokens: null })
  })

  it('CP-07 count markers and thinking, not the visible text', () => {
    const message = {
      role: 'assistant',
      reasoning: 'R',
      content: 'A',
      tool_calls: [{ id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }],
    }
    const { tokens, answer } = answered(
      vllm.read(respond(completionBody({ message, ids: [1, 2, 3, 4, 5, 6], logprobs: [-1, -1, -1, -1, -1, 0], usage: {} }))),
    )
    expect(tokens.error).toBeNull()
    expect(tokens.sampledIds).toHaveLength(6)
    expect(answer.message).toEqual({ role: 'assistant', content: 'A', reasoning_content: 'R', tool_calls: message.tool_calls })
  })

  it.each<{ given: string; completion: Completion; code: string; sampled: number }>([
    { given: 'no ids', completion: { ids: undefined }, code: 'ids-missing', sampled: 0 },
    { given: 'null prompt ids', completion: { promptIds: null }, code: 'ids-missing', sampled: 0 },
    { given: 'ids that are none', completion: { ids: [1, -2, 3] }, code: 'ids-missing', sampled: 0 },
    { given: 'ids as texts', completion: { ids: ['1', '2', '3'] }, code: 'ids-missing', sampled: 0 },
    { given: 'ids beyond int32', completion: { ids: [1, 2, 2 ** 31] }, code: 'ids-missing', sampled: 0 },
    { given: 'an empty prompt', completion: { promptIds: [], usage: {} }, code: 'prompt-empty', sampled: 3 },
    { given: 'nothing sampled', completion: { ids: [], logprobs: [], usage: {} }, code: 'sampled-empty', sampled: 0 },
    { given: 'fewer logprobs', completion: { logprobs: [-1, -1] }, code: 'lengths-differ', sampled: 3 },
    { given: 'more logprobs', completion: { logprobs: [-1, -1, -1, -1] }, code: 'lengths-differ', sampled: 3 },
    // CP-04: a parser that swallowed tokens of a call.
    { given: 'ids lost on the way', completion: { ids: [1, 2], logprobs: [-1, -1] }, code: 'lengths-differ', sampled: 2 },
    { given: 'a prompt that was cut', completion: { promptIds: [11] }, code: 'lengths-differ', sampled: 3 },
    { given: 'no logprobs', completion: { logprobs: null }, code: 'logprobs-missing', sampled: 3 },
    { given: 'a null logprob', completion: { logprobs: [-1, null, -1] }, code: 'logprob-not-finite', sampled: 3 },
    { given: 'a positive logprob', completion: { logprobs: [-1, -1, 0.5] }, code: 'logprob-not-finite', sampled: 3 },
    { given: 'a logprob in words', completion: { logprobs: [-1, '-1', -1] }, code: 'logprob-not-finite', sampled: 3 },
  ])('with $given are $code; the answer stands, nothing is padded', ({ completion, code, sampled }) => {
    const { tokens, answer } = answered(vllm.read(respond(completionBody(completion))))
    expect(answer.message.content).toBe('Hello.')
    expect(tokens.error?.code).toBe(code)
    expect(tokens.logprobs).toBeNull()
    expect(tokens.sampledIds).toHaveLength(sampled)
  })

  it.each([
    [[-1, null, -1], 'logprobs[1] is null'],
    [[-1, -1, 0.5], 'logprobs[2] is 0.5'],
    [[undefined, -1, -1], 'logprobs[0] is missing'],
  ])('say which logprob is wrong: %j', (logprobs, detail) => {
    expect(answered(vllm.read(respond(completionBody({ logprobs })))).tokens.error).toEqual({ code: 'logprob-not-finite', detail })
  })

  it.each([['3'], [1.5], [-1], [null]])('are not held against a count that is none: %j', (completion_tokens) => {
    const { tokens, answer } = answered(vllm.read(respond(completionBody({ usage: { prompt_tokens: '9', completion_tokens } }))))
    expect([tokens.error, answer.usage.promptTokens, answer.usage.completionTokens]).toEqual([null, 2, 3])
  })

  it('with a bare NaN, as Python writes it, do not cost the agent its answer', () => {
    const body = JSON.stringify(completionBody({ message: { role: 'assistant', content: 'say "NaN"' } })).replace('-0.25', 'NaN')
    const { tokens, answer } = answered(vllm.read(respond(body)))
    expect(answer.message.content).toBe('say "NaN"')
    expect(tokens.error?.code).toBe('logprob-not-finite')
  })
})

describe('CP-02 an ending', () => {
  it.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'tool_calls'],
    ['function_call', 'tool_calls'],
    ['content_filter', 'content_filter'],
  ])('%s is the answer %s', (finish, known) => {
    expect(answered(vllm.read(respond(completionBody({ finish })))).answer.finishReason).toBe(known)
  })

  it.each([
    ['abort', 'abort'],
    [null, 'unknown'],
    [undefined, 'unknown'],
    ['error', 'unknown'],
    ['STOP', 'unknown'],
  ])('%s is no answer: %s', (finish, finishReason) => {
    const body = completionBody(finish === undefined ? { finish: null } : { finish })
    expect(vllm.read(respond(body))).toMatchObject({ type: 'aborted', finishReason, tokens: { sampledIds: [21, 22, 23] } })
  })
})

describe('a refusal', () => {
  it.each([
    { message: "'max_tokens' or 'max_completion_tokens' is too large: 32000. (32000 > 32768 - 17459).", reason: 'other', fits: 15_309 },
    {
      message:
        "This model's maximum context length is 32768 tokens. However, you requested 45000 tokens (13000 in the messages, 32000 in the completion).",
      reason: 'other',
      fits: 19_768,
    },
    {
      message: "This model's maximum context length is 32768 tokens. However, you requested 45000 tokens in the messages.",
      reason: 'context-overflow',
      fits: null,
    },
    {
      message:
        "This model's maximum context length is 32768 tokens. However, you requested 32000 output tokens and your prompt contains 13000 input tokens, for a total of 45000 tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
      reason: 'other',
      fits: 19_768,
    },
    {
      message:
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 45000 tokens: 13000 tokens from the input messages and 32000 tokens for the completion.",
      reason: 'other',
      fits: 19_768,
    },
    {
      message:
        "Requested token count exceeds the model's maximum context length of 100 tokens. You requested a total of 130 tokens: 120 tokens from the input messages and 10 tokens for the completion.",
      reason: 'context-overflow',
      fits: null,
    },
    {
      message: "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
      reason: 'context-overflow',
      fits: null,
    },
    {
      message: 'request (40000 tokens) exceeds the available context size (32768 tokens), try increasing it',
      reason: 'context-overflow',
      fits: null,
    },
    // vLLM reads a prompt only as far as it may reach: none of these says how long it is.
    {
      message:
        "You passed 769 input tokens and requested 32000 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 768 tokens. Please reduce the length of the input prompt.",
      reason: 'context-overflow',
      fits: null,
    },
    {
      message: 'max_tokens=40000 cannot be greater than max_model_len=max_total_tokens=32768. Please request fewer output tokens.',
      reason: 'context-overflow',
      fits: null,
    },
    { message: 'max_tokens=40000 cannot be greater than max_total_tokens=32768', reason: 'context-overflow', fits: null },
    { message: 'Input length (9 tokens) exceeds the maximum allowed length (8 tokens).', reason: 'context-overflow', fits: null },
    { message: '(5 > 100 - 100) context length', reason: 'context-overflow', fits: null },
    { message: '(5 > 100 - 99) context length', reason: 'other', fits: 1 },
    { message: 'unknown field', reason: 'other', fits: null },
  ])('TO-06 $message', ({ message, reason, fits }) => {
    const nested = vllm.read(respond({ error: { message } }, 400))
    expect(nested).toMatchObject({ type: 'rejected', status: 400, reason, fittingMaxTokens: fits, message })
    expect(vllm.read(respond({ object: 'error', message }, 400))).toEqual(nested)
  })

  it.each([
    ['3', 3_000],
    ['', null],
    ['soon', null],
  ])('says when to come back: %s', (header, retryAfterMs) => {
    expect(vllm.read(respond('', 429, { 'retry-after': header }))).toMatchObject({ type: 'rejected', retryAfterMs })
  })

  it.each([
    '',
    'null',
    '[]',
    '{}',
    '{"choices":[]}',
    '{"choices":[{}]}',
    '{"choices":[{"message":{"content":5}}]}',
    '{"choices":[{"message":{"content":"x","tool_calls":{}}}]}',
    '{"choices":[{"message":{"content":"x","tool_calls":[{"function":{}}]}}]}',
    '{"choices":[{"message":{"content":"x"',
  ])('hidden in a status 200 is garbled: %s', (body) => {
    expect(vllm.read(respond(body)).type).toBe('garbled')
  })

  it.each([
    ['<html>secret', 'the body is not JSON'],
    ['["secret"]', 'the body is not an object'],
    ['null', 'the body is not an object'],
    ['{"choices":"secret"}', 'choices[0] is missing'],
  ])('that is no completion is not quoted: %s', (body, detail) => {
    expect(vllm.read(respond(body))).toEqual({ type: 'garbled', detail })
  })

  it.each([
    [200, 'answer'],
    [299, 'answer'],
    [300, 'rejected'],
    [199, 'rejected'],
  ])('is told by the status %i', (status, type) => {
    expect(vllm.read(respond(completionBody(), status)).type).toBe(type)
  })
})

describe('the logprobs for a client that asked', () => {
  it.each([
    { given: 'all numbers', logprobs: [-1, -2, -3], told: 3 },
    { given: 'one of them null', logprobs: [-1, null, -3], told: null },
    { given: 'one of them a text', logprobs: [-1, '-2', -3], told: null },
  ])('are told all or not at all: $given', ({ logprobs, told }) => {
    expect(answered(vllm.read(respond(completionBody({ logprobs })))).answer.logprobs?.length ?? null).toBe(told)
  })

  it('are not told with an infinity, which no JSON has', () => {
    const body = JSON.stringify(completionBody({ logprobs: [-1, -2, -3] })).replace('-2', '-1e999')
    expect(answered(vllm.read(respond(body))).answer.logprobs).toBeNull()
  })
})

describe('SGLang', () => {
  const choice = { message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }
  it.each([
    {
      token_ids: [1, 2],
      prompt_token_ids: [5],
      meta_info: {
        output_token_logprobs: [
          [-1, 1, null],
          [-2, 2, null],
        ],
        weight_version: 'v7',
      },
    },
    {
      prompt_token_ids: [5],
      meta_info: {
        output_token_logprobs: [
          [-1, 1, null],
          [-2, 2, null],
        ],
        weight_version: 'v7',
      },
    },
    {
      response_token_ids: [1, 2],
      prompt_token_ids: [5],
      logprobs: { content: [{ logprob: -1 }, { logprob: -2 }] },
      meta_info: { weight_version: 'v7' },
    },
  ])('gives ids with the choice, under either name or beside its logprobs: %#', (fields) => {
    const reply = answered(sglang.read(respond({ choices: [{ ...choice, ...fields }], usage: {} })))
    expect(reply.tokens).toEqual({ promptIds: [5], sampledIds: [1, 2], logprobs: [-1, -2], error: null })
    expect(reply.weightVersion).toBe('v7')
  })

  it('CP-05 trains nothing when its lists name different tokens', () => {
    const triples = [
      [-1, 1, null],
      [-2, 7, null],
    ]
    const fields = { token_ids: [1, 2], prompt_token_ids: [5], meta_info: { output_token_logprobs: triples } }
    const { tokens, answer } = answered(sglang.read(respond({ choices: [{ ...choice, ...fields }], usage: {} })))
    expect(tokens).toEqual({
      promptIds: [],
      sampledIds: [],
      logprobs: null,
      error: { code: 'ids-missing', detail: 'token_ids and logprobs name different tokens' },
    })
    expect(answer.message.content).toBe('x')
  })

  it.each([
    [{ top_k: 0 }, { top_k: -1 }],
    [{ top_k: 5 }, { top_k: 5 }],
    [{ include_stop_str_in_output: true }, { no_stop_trim: true }],
  ])('is told %j as %j', (parameters, sent) => {
    const prompt = { kind: 'messages', messages: [], tools: null } as const
    const written = sglang.write({ prompt, parameters, model: 'p', topLogprobs: 0, format: FORMAT })
    const body = JSON.parse((written.ok && written.http.body) || '')
    expect(body).toMatchObject(sent)
    expect(body).not.toHaveProperty('include_stop_str_in_output')
  })

  it('is asked for everything, and takes token ids as a prompt', () => {
    const written = sglang.write({
      prompt: { kind: 'token-ids', ids: [1, 2], messages: [], tools: null },
      parameters: { top_k: 3 },
      topLogprobs: 0,
      model: 'p',
      format: FORMAT,
    })
    expect(written.ok && JSON.parse(written.http.body ?? '')).toMatchObject({
      input_ids: [1, 2],
      top_k: 3,
      model: 'p',
      stream: false,
      logprobs: true,
      return_token_ids: true,
      return_prompt_token_ids: true,
      return_meta_info: true,
    })
  })
})

it.each([
  [{ weight_versions: [{ version: '7' }, { version: '8' }] }, {}, '8'],
  [{ weight_versions: [{ version: '7' }] }, { weight_version: '6' }, '7'],
  [{ weight_versions: [] }, { weight_version: '6' }, '6'],
  [{}, {}, null],
])('vLLM’s weights are those of the last token, where it says so: %j, %j', (choice, metadata, version) => {
  const body = { choices: [{ message: { role: 'assistant', content: 'x' }, finish_reason: 'stop', ...choice }], metadata }
  expect(answered(vllm.read(respond(body))).weightVersion).toBe(version)
})

it.each([
  ['bored', 'finish_reason "bored"'],
  [undefined, 'finish_reason missing'],
])('an ending nobody knows is told as it stands: %s', (finish, detail) => {
  const body = { choices: [{ message: { role: 'assistant', content: 'x' }, finish_reason: finish }] }
  expect(vllm.read(respond(body))).toMatchObject({ type: 'aborted', finishReason: 'unknown', detail })
})

it('vLLM’s chat is sent no prompt of token ids, and nothing instead', async () => {
  const prompt = { kind: 'token-ids', ids: [1], messages: [], tools: null } as const
  const sent: unknown[] = []
  const outcome = await vllm.generate({ prompt, parameters: {}, model: 'p', topLogprobs: 0, format: FORMAT }, async (request) => {
    sent.push(request)
    return { ok: true, response: respond(completionBody()) }
  })
  expect([outcome.type, sent]).toEqual(['unserved', []])
})

describe('a count by the engine’s tokenizer', () => {
  const request = {
    messages: [{ role: 'user', content: 'hi' }],
    tools: null,
    parameters: { chat_template_kwargs: { a: 1 }, top_k: 3 },
  } as const
  it.each<[string, unknown, number | null]>([
    ['a count', { count: 7, tokens: [] }, 7],
    ['none', { tokens: [1, 2] }, null],
    ['a negative one', { count: -1 }, null],
    ['half a token', { count: 1.5 }, null],
    ['a list', [7], null],
    ['null', null, null],
    ['no JSON', '<html>', null],
  ])('is what it says, when it says %s', async (_name, body, count) => {
    expect(await vllm.countTokens({ kind: 'messages', request }, 'p', async () => ({ ok: true, response: respond(body) }))).toBe(count)
  })

  it('is none of a server that refuses or breaks', async () => {
    expect(
      await vllm.countTokens({ kind: 'text', text: 'x' }, 'p', async () => ({ ok: true, response: respond({ count: 7 }, 404) })),
    ).toBeNull()
    expect(await vllm.countTokens({ kind: 'text', text: 'x' }, 'p', async () => ({ ok: false, error: 'reset', detail: '' }))).toBeNull()
  })

  it.each([
    ['vLLM', vllm, '/tokenize'],
    ['SGLang', sglang, '/v1/tokenize'],
  ])('is asked of %s with what its template reads', async (_name, engine, path) => {
    const asked: unknown[] = []
    const send = async (sent: { readonly path: string; readonly body: string | null }) => {
      asked.push(sent.path, JSON.parse(sent.body ?? ''))
      return { ok: true, response: respond({ count: 1 }) } as const
    }
    await engine.countTokens({ kind: 'messages', request }, 'p', send)
    await engine.countTokens({ kind: 'text', text: 'x' }, 'p', send)
    const conversation = { messages: request.messages, chat_template_kwargs: { a: 1 }, add_generation_prompt: true, model: 'p' }
    expect(asked).toEqual([path, conversation, path, { prompt: 'x', model: 'p' }])
  })
})

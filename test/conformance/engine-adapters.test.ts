// Every adapter against the scripted engine in its shape, over HTTP: the same answer, the engine's own tokens, and honest probes.
import { afterEach, describe, expect, it } from 'vitest'
import { type AnswersFrom, type EngineSettings, openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import type { AnswerFormat } from '../../src/proxy/answer-text/answer-text.ts'
import type { ChatMessage, Tool } from '../../src/proxy/chat.ts'
import type { Engine, EngineOutcome } from '../../src/proxy/engines/engine.ts'
import { llamacpp } from '../../src/proxy/engines/llamacpp.ts'
import { probe } from '../../src/proxy/engines/probe.ts'
import { sglang } from '../../src/proxy/engines/sglang.ts'
import { sglangNative } from '../../src/proxy/engines/sglang-native.ts'
import { type Connection, undiciTransport } from '../../src/proxy/engines/transport.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { WHOLE_DISTRIBUTION } from '../../src/proxy/parameters.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'

const ADAPTERS = [
  { adapter: vllm, shape: 'vllm' },
  { adapter: sglang, shape: 'sglang' },
  { adapter: sglangNative, shape: 'sglang' },
  { adapter: llamacpp, shape: 'llamacpp' },
] as const satisfies readonly { readonly adapter: Engine; readonly shape: EngineSettings['shape'] }[]
const ANY = { model: '', profileOf: openProfiles([]) }
const EACH = ADAPTERS.map((each) => ({ ...each, kind: each.adapter.kind }))

const call = (command: string) => ({ name: 'bash', arguments: { command, n: [1, 2] } })
const script: ScriptInput = {
  rules: [
    { match: { last_contains: 'act' }, choices: [{ reasoning: 'Hm.', text: 'I look.', tool_calls: [call('ls'), call('pwd')] }] },
    { match: { last_contains: 'think' }, choices: [{ reasoning: 'Hm.\n\nWell.', text: 'Yes.' }] },
    { match: { last_contains: 'draw' }, choices: [{ text: 'a 🤗 b' }] },
    { match: { last_contains: 'give up' }, choices: [{ text: 'I beg', finish_reason: 'abort' }] },
    { choices: [{ text: 'One. Two. Three.' }] },
  ],
}
const tools: readonly Tool[] = [{ type: 'function', function: { name: 'bash', parameters: { type: 'object' } } }]
const format: AnswerFormat = { reasoning: 'think-tags', opensThinking: false, calls: 'json' }

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function open(
  options: EngineSettings,
  from: AnswersFrom = { script },
): Promise<{ readonly engine: ScriptedEngine; readonly connection: Connection }> {
  const engine = await openScriptedEngine({ ...from, ...options })
  const connection = undiciTransport(engine.url, 2 ** 20)
  closing.push(connection.close, engine.close)
  return { engine, connection }
}

type Asked = { readonly content?: ChatMessage['content']; readonly parameters?: JsonObject; readonly tools?: readonly Tool[] | null }
function generate(adapter: Engine, connection: Connection, { content = 'hi', parameters = {}, tools: offered = null }: Asked = {}) {
  const messages: readonly ChatMessage[] = [
    { role: 'system', content: 'S' },
    { role: 'user', content: content ?? '' },
  ]
  return adapter.generate(
    { prompt: { kind: 'messages', messages, tools: offered }, parameters, model: 'qwen3-scripted', topLogprobs: 0, format },
    (request) => connection.send(request, new AbortController().signal),
  )
}
function answered(outcome: EngineOutcome) {
  if (outcome.type !== 'answer') throw new Error(JSON.stringify(outcome))
  return outcome
}

describe.each(EACH)('$kind', ({ adapter, shape }) => {
  it('CP-07 takes exactly the ids and logprobs that were sampled, thinking and markers included', async () => {
    const { engine, connection } = await open({ shape })
    const { tokens, answer } = answered(await generate(adapter, connection, { content: 'act', tools }))
    const request = engine.requests().at(-1)!
    expect(tokens).toEqual({ promptIds: request.promptIds, sampledIds: request.sampledIds, logprobs: request.logprobs, error: null })
    expect([answer.usage.promptTokens, answer.usage.completionTokens]).toEqual([request.promptIds.length, request.sampledIds.length])
  })

  it.each([
    {
      content: 'act',
      message: {
        content: 'I look.',
        reasoning_content: 'Hm.',
        tool_calls: [
          { id: expect.any(String), type: 'function', function: { name: 'bash', arguments: '{"command": "ls", "n": [1, 2]}' } },
          { id: expect.any(String), type: 'function', function: { name: 'bash', arguments: '{"command": "pwd", "n": [1, 2]}' } },
        ],
      },
      finish: 'tool_calls',
    },
    { content: 'think', message: { content: 'Yes.', reasoning_content: 'Hm.\n\nWell.' }, finish: 'stop' },
    { content: 'hi', message: { content: 'One. Two. Three.' }, finish: 'stop' },
    { content: 'hi', parameters: { max_tokens: 3 }, message: { content: 'One. Two' }, finish: 'length' },
    { content: 'hi', parameters: { max_tokens: 500 }, message: { content: 'One. Two. Three.' }, finish: 'stop' },
    { content: 'act', parameters: { tool_choice: 'none' }, message: null, finish: 'stop' },
  ])('gives the same message as every other engine: $content $parameters', async ({ content, parameters = {}, message, finish }) => {
    const { connection } = await open({ shape })
    const { answer, diagnostics } = answered(await generate(adapter, connection, { content, parameters, tools }))
    if (message === null) expect(answer.message.tool_calls).toBeUndefined()
    else expect(answer.message).toEqual({ role: 'assistant', ...message })
    expect([answer.finishReason, diagnostics]).toEqual([finish, []])
  })

  it('names the stop string that ended an answer, without its text', async () => {
    const { engine, connection } = await open({ shape })
    const { answer, tokens } = answered(await generate(adapter, connection, { parameters: { stop: ['Two'] } }))
    expect([answer.message.content, answer.finishReason, answer.stopSequence]).toEqual(['One. ', 'stop', 'Two'])
    expect(tokens.sampledIds).toEqual(engine.requests().at(-1)!.sampledIds)
  })

  it('CP-02 takes an abort for no answer', async () => {
    const { engine, connection } = await open({ shape })
    const outcome = await generate(adapter, connection, { content: 'give up' })
    expect(outcome).toMatchObject({ type: 'aborted', tokens: { sampledIds: engine.requests().at(-1)!.sampledIds } })
  })

  it('CP-04 sees that ids are left out, and answers all the same', async () => {
    const { connection } = await open({ shape, faults: [{ fault: 'missing-token-ids' }] })
    const { answer, tokens } = answered(await generate(adapter, connection))
    expect(answer.message.content).toBe('One. Two. Three.')
    expect(tokens.error).not.toBeNull()
    expect(tokens.logprobs).toBeNull()
  })

  it.each(['unequal-lengths', 'nan-logprob', 'null-logprob', 'positive-logprob'] as const)(
    'CP-05 pads and cuts nothing when the engine gives %s',
    async (fault) => {
      const { engine, connection } = await open({ shape, faults: [{ fault }] })
      const { answer, tokens } = answered(await generate(adapter, connection))
      expect(answer.message.content).toBe('One. Two. Three.')
      expect([tokens.error?.code, tokens.logprobs]).toEqual([fault === 'unequal-lengths' ? 'lengths-differ' : 'logprob-not-finite', null])
      expect(tokens.sampledIds).toEqual(engine.requests().at(-1)!.sampledIds)
    },
  )

  it('TO-06 tells that the prompt does not fit', async () => {
    const { connection } = await open({ shape, maxModelLen: 8 })
    expect(await generate(adapter, connection)).toMatchObject({ type: 'rejected', status: 400, reason: 'context-overflow' })
  })

  it('passes on that the model is still loading', async () => {
    const { engine, connection } = await open({ shape })
    engine.setLoading(true)
    expect(await generate(adapter, connection)).toMatchObject({ type: 'rejected', status: 503 })
    expect(await probe(adapter, connection, ANY, new AbortController().signal)).toEqual({
      type: 'unusable',
      detail: '/health answered 503',
    })
  })

  it('reports a connection that broke', async () => {
    const { connection } = await open({ shape, faults: [{ fault: 'reset' }] })
    expect(await generate(adapter, connection)).toMatchObject({ type: 'broken', reply: { error: 'reset' } })
  })

  it.each(['garbage-json', 'truncated-json'] as const)('takes %s for no completion', async (fault) => {
    const { connection } = await open({ shape, faults: [{ fault }] })
    expect((await generate(adapter, connection)).type).toBe('garbled')
  })

  it('counts a prompt as it will be sent', async () => {
    const { engine, connection } = await open({ shape })
    const send = (request: Parameters<Connection['send']>[0]) => connection.send(request, new AbortController().signal)
    const messages: readonly ChatMessage[] = [
      { role: 'system', content: 'S' },
      { role: 'user', content: 'act' },
    ]
    const parameters = { chat_template_kwargs: { enable_thinking: false } }
    const counted = await adapter.countTokens({ kind: 'messages', request: { messages, tools, parameters } }, 'qwen3-scripted', send)
    await generate(adapter, connection, { content: 'act', tools, parameters })
    expect(counted).toBe(engine.requests().at(-1)!.promptTokens)
    expect(await adapter.countTokens({ kind: 'text', text: 'One. Two.' }, 'qwen3-scripted', send)).toBe(4)
  })

  it.each(['raw', 'processed'] as const)(
    'CP-03 finds by a probe that logprobs are %s, whatever its engine usually gives',
    async (logprobMode) => {
      const { engine, connection } = await open({ shape, logprobMode, maxModelLen: 4_096, weightVersion: '3' })
      expect(await probe(adapter, connection, ANY, new AbortController().signal)).toEqual({
        type: 'serving',
        tier: 'train',
        model: 'qwen3-scripted',
        maxModelLen: 4_096,
        weightVersion: shape === 'sglang' ? '3' : null,
        logprobMode,
        streams: false,
        detail: null,
      })
      expect(engine.requests().reduce((sum, { sampledIds }) => sum + sampledIds.length, 0)).toBeLessThanOrEqual(8)
    },
  )

  it.each(['raw', 'processed'] as const)('CP-03 finds that logprobs are %s although every answer is another', async (logprobMode) => {
    const { connection } = await open({ shape, logprobMode }, { generator: {} })
    expect(await probe(adapter, connection, ANY, new AbortController().signal)).toMatchObject({ logprobMode })
  })

  it.each(['missing-prompt-ids', 'missing-token-ids', 'unequal-lengths'] as const)('is found unfit for training with %s', async (fault) => {
    const { connection } = await open({ shape, faults: [{ fault }] })
    const found = await probe(adapter, connection, ANY, new AbortController().signal)
    // Who sends the ids himself needs none back.
    const isOwnPrompt = adapter.kind === 'sglang-native' || adapter.kind === 'llamacpp'
    expect(found).toMatchObject({ type: 'serving', tier: fault === 'missing-prompt-ids' && isOwnPrompt ? 'train' : 'eval' })
  })
})

describe.each(EACH)('$kind, asked whether its streams lose nothing', ({ adapter, shape }) => {
  const isLossless = adapter.stream !== null
  const findStreams = async (streamMode: 'live' | 'auto', faults: EngineSettings['faults'] = []) => {
    const { connection } = await open({ shape, faults })
    return probe(adapter, connection, { ...ANY, streamMode }, new AbortController().signal)
  }
  const whole = expect.stringContaining('answers are told when they are whole')

  it('is used by what it can', async () => {
    expect(await findStreams('auto')).toMatchObject({ tier: 'train', streams: isLossless, detail: isLossless ? null : whole })
  })

  it('trains no session that wants more than it can', async () => {
    const tier = isLossless ? 'train' : 'eval'
    const detail = isLossless ? null : expect.stringMatching(/^answers are told when they are whole: .*polar_node\.stream\.mode 'auto'/)
    expect(await findStreams('live')).toMatchObject({ tier, streams: isLossless, detail })
  })

  it.each(['missing-token-ids', 'unequal-lengths', 'http-500', 'truncated-json'] as const)(
    'is not trusted with %s in them',
    async (fault) => {
      // The plain answer before it is sound.
      const faults = [{ fault, after: 1, times: 1 }]
      expect(await findStreams('auto', faults)).toMatchObject({ tier: 'train', streams: false, detail: whole })
    },
  )
})

describe.each(EACH.filter(({ kind }) => kind === 'sglang-native' || kind === 'llamacpp'))(
  '$kind, which sends ids',
  ({ adapter, shape }) => {
    it('refuses what only the engine’s chat could serve, in the caller’s terms', async () => {
      const { engine, connection } = await open({ shape })
      const content = [{ type: 'image_url', image_url: { url: 'data:,x' } }]
      expect(await generate(adapter, connection, { content })).toMatchObject({
        type: 'rejected',
        status: 400,
        message: expect.stringContaining('images'),
      })
      for (const [name, value] of [
        ['response_format', { type: 'json_object' }],
        ['made_up', { a: 1 }],
        ['tool_choice', 'required'],
      ] as const) {
        const outcome = await generate(adapter, connection, { parameters: { [name]: value }, tools })
        expect(outcome).toMatchObject({ type: 'rejected', status: 400, message: expect.stringContaining(name) })
      }
      expect(engine.requests()).toEqual([])
    })

    it('takes ids that were rendered elsewhere', async () => {
      const { engine, connection } = await open({ shape })
      const { tokens } = answered(
        await adapter.generate(
          { prompt: { kind: 'token-ids', ids: [1, 2, 3], messages: [], tools: null }, parameters: {}, model: 'm', topLogprobs: 0, format },
          (request) => connection.send(request, new AbortController().signal),
        ),
      )
      expect([tokens.promptIds, engine.requests().at(-1)!.promptIds]).toEqual([
        [1, 2, 3],
        [1, 2, 3],
      ])
    })
  },
)

it('llama.cpp gives no probability inside a character: the answer stands, untrained', async () => {
  const { engine, connection } = await open({ shape: 'llamacpp' })
  const { answer, tokens } = answered(await generate(llamacpp, connection, { content: 'draw' }))
  expect(answer.message.content).toBe('a 🤗 b')
  expect([tokens.sampledIds, tokens.logprobs, tokens.error?.code]).toEqual([engine.requests().at(-1)!.sampledIds, null, 'lengths-differ'])
})

it('SGLang is asked for logprobs of every token, whatever the vocabulary calls special', async () => {
  const { engine, connection } = await open({ shape: 'sglang' })
  await generate(sglangNative, connection, {
    content: 'act',
    tools,
    parameters: { max_tokens: 9, seed: 1, top_k: 0, stop: 'x', min_tokens: 1 },
  })
  expect(engine.requests().at(-1)!.body).toEqual({
    input_ids: engine.requests().at(-1)!.promptIds,
    sampling_params: { max_new_tokens: 9, skip_special_tokens: false, sampling_seed: 1, top_k: -1, stop: 'x', min_new_tokens: 1 },
    return_logprob: true,
    top_logprobs_num: 0,
    return_text_in_logprobs: false,
    stream: false,
  })
})

it('llama.cpp is told the sampling under its own names, and nothing that nobody said', async () => {
  const { engine, connection } = await open({ shape: 'llamacpp' })
  const parameters = { ...WHOLE_DISTRIBUTION, max_tokens: 9, top_p: 0.5, stop: 'x', cache_salt: 's' }
  await generate(llamacpp, connection, { content: 'act', tools, parameters })
  expect(engine.requests().at(-1)!.body).toEqual({
    prompt: engine.requests().at(-1)!.promptIds,
    temperature: 1,
    top_k: -1,
    top_p: 0.5,
    min_p: 0,
    repeat_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    n_predict: 9,
    stop: ['x'],
    preserved_tokens: ['<think>', '</think>', '<tool_call>', '</tool_call>'],
    n_probs: 1,
    return_tokens: true,
    cache_prompt: true,
    stream: false,
  })
  await generate(llamacpp, connection)
  const { promptIds: prompt, body } = engine.requests().at(-1)!
  const always = { n_probs: 1, return_tokens: true, cache_prompt: true, stream: false }
  expect(body).toEqual({ prompt, n_predict: -1, preserved_tokens: ['<think>', '</think>'], ...always })
})

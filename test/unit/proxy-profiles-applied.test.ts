// Profiles at work in the boundary: what the engine is sent, what the record says, and a budget that is cut before anything is sent.
import { afterEach, describe, expect, it } from 'vitest'
import { HELLO, openProxy, type ProxyFixture, type ProxyOptions } from '../lib/proxy-fixture.ts'

let proxy: ProxyFixture
afterEach(() => proxy.close())

async function ask(options: ProxyOptions, body: object, tier: 'train' | 'eval' = 'train') {
  proxy = openProxy(options)
  await proxy.settle()
  const door = proxy.openDoor({ tier })
  const sink = await proxy.chat(door, { ...HELLO, ...body })
  return { door, sink }
}
const sent = () => proxy.generations[0]!.body
const told = () => proxy.records[0]!.diagnostics

describe('a call to a model of the Qwen3.5 family', () => {
  it('does not think unless the client says so, and keeps later system messages in place', async () => {
    await ask(
      { model: '/models/Qwen3.5-4B' },
      {
        messages: [
          { role: 'user', content: 'u' },
          { role: 'system', content: 's' },
        ],
      },
    )
    expect(sent()).toMatchObject({
      chat_template_kwargs: { enable_thinking: false },
      messages: [{ role: 'user', content: 'u\n\n<system-reminder>\ns\n</system-reminder>' }],
    })
    proxy.generations[0]!.answer()
    await proxy.settle()
    expect(told()).toEqual([{ code: 'system-folded', detail: '1 system messages after the first' }])
  })

  it('thinks when the client says so', async () => {
    await ask({ model: 'qwen3.5' }, { chat_template_kwargs: { enable_thinking: true } })
    expect(sent().chat_template_kwargs).toEqual({ enable_thinking: true })
  })
})

describe('the operator’s word', () => {
  it('is sent, and what it changed stands on the record', async () => {
    const models = [{ pattern: 'policy', profile: { max_output_tokens: { limit: 100 }, stop: ['<e>'], cut: ['<e>'] } }]
    const { sink } = await ask({ models }, { max_tokens: 1_000 })
    expect(sent()).toMatchObject({ max_tokens: 100, stop: ['<e>'] })
    proxy.generations[0]!.answer({ message: { role: 'assistant', content: 'Hi.<e>' } })
    await proxy.settle()
    expect(sink.json()).toMatchObject({ choices: [{ message: { content: 'Hi.' } }] })
    expect(told()).toEqual([
      { code: 'max-tokens-clamped', detail: '1000 to 100' },
      { code: 'stop-cut', detail: '"<e>"' },
    ])
    expect(proxy.records[0]).toMatchObject({ maxTokensRequested: 1_000, sampling: { maxTokens: 100 } })
  })

  it('says when an id of ours will be shown to the model', async () => {
    const models = [{ pattern: 'policy', profile: { prints_call_ids: true } }]
    await ask({ models }, {})
    const call = { type: 'function', function: { name: 'f', arguments: '{}' } }
    proxy.generations[0]!.answer({ message: { role: 'assistant', content: null, tool_calls: [call, { ...call, id: 'functions.f:1' }] } })
    await proxy.settle()
    expect(told().map(({ code }) => code)).toEqual(['call-id-invented'])
  })
})

describe('TO-06 a budget', () => {
  it.each([
    { asked: 4_096, promptTokens: 96, budget: 4_000 },
    { asked: 32_000, promptTokens: 4_095, budget: 1 },
  ])(
    'of $asked tokens for a context of 4096 is cut to what the counted prompt leaves, before it is sent',
    async ({ asked, promptTokens, budget }) => {
      const { sink } = await ask({ promptTokens }, { max_tokens: asked })
      expect(sent().max_tokens).toBe(budget)
      proxy.generations[0]!.answer()
      await proxy.settle()
      expect(sink.status()).toBe(200)
      expect(told()).toEqual([{ code: 'max-tokens-clamped', detail: `${asked} to ${budget}` }])
      expect(proxy.records[0]).toMatchObject({ maxTokensRequested: asked, sampling: { maxTokens: budget } })
    },
  )

  it.each([
    ['that may fit', { promptTokens: 96 }, 4_095],
    ['whose prompt nobody counts', { promptTokens: null }, 32_000],
    ['that nothing would fit: the engine says so itself', { promptTokens: 5_000 }, 32_000],
  ])('%s is sent as it is', async (_name, options, asked) => {
    await ask(options, { max_tokens: asked })
    expect(sent().max_tokens).toBe(asked)
  })

  const tooMuch = (asked: number) =>
    `You passed ${4_097 - asked} input tokens and requested ${asked} output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of ${4_096 - asked} tokens.`
  it.each([
    ['in the words of current vLLM', tooMuch(4_000)],
    [
      'in those of vLLM before it',
      'maximum context length is 4096 tokens. You requested 4000 output tokens and your prompt contains 97 input tokens',
    ],
    ['in those for a budget beyond the context', 'max_tokens=4000 cannot be greater than max_model_len=max_total_tokens=3000.'],
  ])(
    'that the engine refuses without having read the whole prompt is cut to what the counted prompt leaves: %s',
    async (_name, message) => {
      const { sink } = await ask({ promptTokens: 500 }, { max_tokens: 4_000 })
      proxy.generations[0]!.respond(400, { error: { message } })
      await proxy.settle()
      expect(proxy.generations[1]!.body.max_tokens).toBe(3_596)
      proxy.generations[1]!.answer()
      await proxy.settle()
      expect(sink.status()).toBe(200)
      expect(told()).toEqual([{ code: 'max-tokens-clamped', detail: '4000 to 3596' }])
      expect(proxy.records[0]).toMatchObject({ maxTokensRequested: 4_000, sampling: { maxTokens: 3_596 } })
    },
  )

  it.each([
    ['the prompt leaves nothing', 4_096],
    ['nobody counts the prompt', null],
  ])('is not sent again when %s: the context is used up', async (_name, promptTokens) => {
    const { sink } = await ask({ promptTokens }, { max_tokens: 4_000 })
    proxy.generations[0]!.respond(400, { error: { message: tooMuch(4_000) } })
    await proxy.settle()
    expect([proxy.generations.length, sink.status(), proxy.facts.at(-1)]).toEqual([
      1,
      400,
      expect.objectContaining({ contextExhausted: true }),
    ])
  })

  it('is cut by what the engine says when that is all there is', async () => {
    await ask({ promptTokens: null }, { max_tokens: 4_000 })
    proxy.generations[0]!.respond(400, { error: { message: '(4000 > 4096 - 97)' } })
    await proxy.settle()
    expect(proxy.generations[1]!.body.max_tokens).toBe(3_999)
  })

  it('is refused for good when the cut one is refused too', async () => {
    const { sink } = await ask({ promptTokens: 500 }, { max_tokens: 4_000 })
    for (const sent of [0, 1]) {
      proxy.generations[sent]!.respond(400, { error: { message: tooMuch(4_000) } })
      await proxy.settle()
    }
    expect([proxy.generations.length, sink.status()]).toEqual([2, 400])
  })

  it('is cut once, also when the engine had not been asked to count', async () => {
    await ask({ promptTokens: 96 }, { max_tokens: 32_000 })
    proxy.generations[0]!.respond(400, { error: { message: '(4000 > 4096 - 196)' } })
    await proxy.settle()
    expect(proxy.generations).toHaveLength(1)
    expect(proxy.records[0]).toMatchObject({ status: 'failed', httpStatus: 400 })
  })
})

it.each([
  ['train', { temperature: 1, topP: 1, topK: -1 }],
  ['eval', { temperature: null, topP: null, topK: null }],
] as const)('CP-03 the record of a silent caller says what was sampled from, as it was sent (%s)', async (tier, sampling) => {
  await ask({}, {}, tier)
  const { temperature = null, top_p: topP = null, top_k: topK = null } = sent()
  expect({ temperature, topP, topK }).toEqual(sampling)
  proxy.generations[0]!.answer()
  await proxy.settle()
  expect(proxy.records[0]!.sampling).toEqual({ ...sampling, seed: null, maxTokens: null })
})

it.each(['raw', 'processed'] as const)('CP-03 the record says what the probe found of logprobs: %s', async (logprobMode) => {
  await ask({ logprobMode }, {})
  proxy.generations[0]!.answer()
  await proxy.settle()
  expect(proxy.records[0]!.logprobMode).toBe(logprobMode)
})

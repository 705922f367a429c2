// The end of a session's budget as its agent meets it: one last message in its own dialect, no engine, no record, no storm.
import { describe, expect, it } from 'vitest'
import { type BudgetLimits, UNLIMITED } from '../../src/contract/session-budget.ts'
import { openProxy, type ProxyFixture, type ProxyOptions } from '../lib/proxy-fixture.ts'

const limits = (some: Partial<BudgetLimits>): BudgetLimits => ({ ...UNLIMITED, ...some })
const saying = (content: string, more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content }], ...more })

function open(some: Partial<BudgetLimits>, options: ProxyOptions = {}) {
  const proxy = openProxy(options)
  const door = proxy.openDoor({ limits: limits(some) })
  door.beginRun()
  return { proxy, door, spent: () => proxy.facts.filter(({ type }) => type === 'budget-spent') }
}

async function answered({ proxy, door }: ReturnType<typeof open>, body: object, sampled = [21, 22, 23]): Promise<void> {
  const sink = await proxy.chat(door, body)
  proxy.generations.at(-1)?.answer({ ids: sampled, logprobs: sampled.map(() => -1), usage: { prompt_tokens: 2, completion_tokens: 1 } })
  await proxy.settle()
  expect(sink.status()).toBe(200)
}

const DIALECTS: readonly {
  name: string
  path: string
  body: (stream: boolean) => object
  plain: (told: never) => unknown
  last: RegExp
}[] = [
  {
    name: 'openai-chat',
    path: '/v1/chat/completions',
    body: (stream) => saying('hi', { stream }),
    plain: ({ choices: [{ message, finish_reason }], usage }: Chat) => [message.content, finish_reason, usage.total_tokens],
    last: /"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/,
  },
  {
    name: 'openai-responses',
    path: '/v1/responses',
    body: (stream) => ({ model: 'm', input: 'hi', stream }),
    plain: ({ output: [item], status, usage }: Responses) => [item.content[0].text, status, usage.total_tokens],
    last: /"type":"response.completed".*\n\n$/,
  },
  {
    name: 'anthropic',
    path: '/v1/messages',
    body: (stream) => saying('hi', { stream, max_tokens: 100 }),
    plain: ({ content: [block], stop_reason, usage }: Anthropic) => [block.text, stop_reason, usage.output_tokens],
    last: /"stop_reason":"end_turn".*\n\nevent: message_stop\n.*\n\n$/,
  },
  {
    name: 'google',
    path: '/v1beta/models/m:generateContent',
    body: () => ({ contents: [{ role: 'user', parts: [{ text: 'hi' }] }] }),
    plain: ({ candidates: [{ content, finishReason }], usageMetadata }: Google) => [
      content.parts[0].text,
      finishReason,
      usageMetadata.totalTokenCount,
    ],
    last: /"finishReason":"STOP".*\n\n$/,
  },
]
type Chat = { choices: [{ message: { content: string }; finish_reason: string }]; usage: { total_tokens: number } }
type Responses = { output: [{ content: [{ text: string }] }]; status: string; usage: { total_tokens: number } }
type Anthropic = { content: [{ text: string }]; stop_reason: string; usage: { output_tokens: number } }
type Google = {
  candidates: [{ content: { parts: [{ text: string }] }; finishReason: string }]
  usageMetadata: { totalTokenCount: number }
}

const FAREWELL = "I have to stop here: the session's budget of 1 model call is used up."

describe.each(DIALECTS)('the end of a budget in $name', ({ path, body, plain, last }) => {
  const ask = (proxy: ProxyFixture, door: ReturnType<ProxyFixture['openDoor']>, stream: boolean) =>
    proxy.send({
      url: `${door.basePath}${stream ? path.replace(':generateContent', ':streamGenerateContent?alt=sse') : path}`,
      headers: { authorization: `Bearer ${door.key}` },
      bytes: JSON.stringify(body(stream)),
    })

  it('is the last message of its model, plain and streamed, which nobody has generated', async () => {
    const opened = open({ calls: 1 })
    const { proxy, door, spent } = opened
    await answered(opened, saying('first'))
    const told = await ask(proxy, door, false)
    const [text, finish, tokens] = plain(told.json() as never) as [string, string, number]
    expect([told.status(), text, tokens]).toEqual([200, FAREWELL, 0])
    expect(finish.toLowerCase()).toMatch(/^(stop|completed|end_turn)$/)
    const streamed = await ask(proxy, door, true)
    expect([streamed.status(), streamed.isEnded()]).toEqual([200, true])
    expect(streamed.text()).toMatch(last)
    expect(streamed.text()).toContain('is used up')
    expect([proxy.generations.length, proxy.records.length, spent().length]).toEqual([1, 1, 1])
    expect((await door.seal()).calls).toHaveLength(1)
    expect(proxy.faults.filter((fault) => JSON.stringify(fault).includes('boundary-fault'))).toEqual([])
  })

  it('is told a bounded number of times, and then refused for good', async () => {
    const opened = open({ calls: 1 })
    await answered(opened, saying('first'))
    const statuses: (number | null)[] = []
    for (let times = 0; times < 20; times += 1) statuses.push((await ask(opened.proxy, opened.door, true)).status())
    expect(statuses).toEqual([...Array(16).fill(200), ...Array(4).fill(statuses.at(-1))])
    expect([400, 403]).toContain(statuses.at(-1))
    expect((await ask(opened.proxy, opened.door, true)).headers()['retry-after']).toBeUndefined()
  })
})

describe('what a budget counts', () => {
  it('is no retry that finds the answer of its call', async () => {
    const opened = open({ calls: 1 })
    const { proxy, door, spent } = opened
    const left = await proxy.chat(door, saying('same'))
    left.leave()
    const again = await proxy.chat(door, saying('same'))
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect([again.status(), again.text().includes('is used up'), proxy.generations.length]).toEqual([200, false, 1])
    expect([spent(), door.budget()]).toEqual([[], { calls: { limit: 1, used: 1 }, used_up: null }])
  })

  it('is the time of the run, without what of it was paused', async () => {
    const { proxy, door, spent } = open({ seconds: 10 })
    await proxy.world.advance(9_000)
    void proxy.boundary.pause(1_000)
    await proxy.world.advance(60_000)
    proxy.boundary.resume()
    await proxy.chat(door, saying('in time'))
    expect([proxy.generations.length, spent()]).toEqual([1, []])
    await proxy.world.advance(1_000)
    expect((await proxy.chat(door, saying('too late'))).text()).toContain('budget of 10 seconds is used up')
    await proxy.world.advance(5_000)
    void door.seal()
    await proxy.world.advance(5_000)
    expect(door.budget()).toEqual({ seconds: { limit: 10, used: 15 }, used_up: 'seconds' })
  })

  it('is no time before the run', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor({ limits: limits({ seconds: 10 }) })
    await proxy.world.advance(60_000)
    door.beginRun()
    await proxy.chat(door, saying('first'))
    expect(proxy.generations).toHaveLength(1)
  })
})

describe('a budget of sampled tokens', () => {
  it.each([
    ['what is left', saying('b', { max_tokens: 100 }), 7, 'max-tokens-clamped'],
    ['what is left, when the client names nothing', saying('b'), 7, 'max-tokens-clamped'],
    ['what the client wants, when that is less', saying('b', { max_tokens: 5 }), 5, null],
  ])('lets a call sample %s', async (_, body, maxTokens, code) => {
    const opened = open({ sampled_tokens: 10 })
    await answered(opened, saying('a'), [21, 22, 23])
    await answered(opened, body, [24])
    expect(opened.proxy.generations[1]?.body.max_tokens).toBe(maxTokens)
    const { calls } = await opened.door.seal()
    const noted = calls[1]?.diagnostics.map((diagnostic) => diagnostic.code) ?? []
    expect(noted.filter((each) => each === 'max-tokens-clamped')).toEqual(code === null ? [] : [code])
  })

  it('ends the session when it is sampled, and counts what engines do not show by their usage', async () => {
    const opened = open({ sampled_tokens: 10 }, { untrainable: new Set([0]) })
    const { proxy } = opened
    const door = proxy.openDoor({ tier: 'eval', limits: limits({ sampled_tokens: 10 }) })
    await proxy.chat(door, saying('a'))
    proxy.generations[0]?.answer({
      ids: undefined,
      promptIds: undefined,
      logprobs: null,
      usage: { prompt_tokens: 5, completion_tokens: 10 },
    })
    await proxy.settle()
    expect((await proxy.chat(door, saying('b'))).text()).toContain('budget of 10 sampled tokens is used up')
    expect(door.budget()).toEqual({ sampled_tokens: { limit: 10, used: 10 }, used_up: 'sampled_tokens' })
  })

  it('lets calls at one time wait for each other rather than cut them short, and ends the one that nothing is left for', async () => {
    const opened = open({ sampled_tokens: 10 })
    const { proxy, door } = opened
    await proxy.chat(door, saying('a'))
    const second = await proxy.chat(door, saying('b'))
    expect(proxy.generations).toHaveLength(1)
    proxy.generations[0]?.answer({ ids: [1, 2, 3, 4], logprobs: [-1, -1, -1, -1], usage: { prompt_tokens: 2, completion_tokens: 4 } })
    await proxy.settle()
    expect(proxy.generations[1]?.body.max_tokens).toBe(6)
    const third = await proxy.chat(door, saying('c'))
    proxy.generations[1]?.answer({
      ids: [1, 2, 3, 4, 5, 6],
      logprobs: Array(6).fill(-1),
      usage: { prompt_tokens: 2, completion_tokens: 6 },
    })
    await proxy.settle()
    expect([second.status(), second.text().includes('is used up')]).toEqual([200, false])
    expect([third.status(), third.text().includes('is used up'), proxy.generations.length]).toEqual([200, true, 2])
    const { calls } = await door.seal()
    expect(calls.map(({ status }) => status)).toEqual(['ok', 'ok', 'failed'])
  })

  it.each([
    ['cut it off', 'length', 1],
    ['was just enough for it', 'stop', 0],
  ])('ends the session with an answer when it %s', async (_, finish, times) => {
    const { proxy, door, spent } = open({ sampled_tokens: 3 })
    await proxy.chat(door, saying('a'))
    proxy.generations[0]?.answer({ finish })
    await proxy.settle()
    expect(spent()).toHaveLength(times)
  })

  it('keeps no call waiting whose client has gone', async () => {
    const { proxy, door } = open({ sampled_tokens: 10 }, { settings: { lingerMs: 100 } })
    await proxy.chat(door, saying('a'))
    const second = await proxy.chat(door, saying('b'))
    second.leave()
    await proxy.world.advance(100)
    expect(proxy.records.map(({ status }) => status)).toEqual(['cancelled'])
  })
})

describe('a context of the session', () => {
  it.each([
    ['cuts an answer to what the prompt leaves', 90, 10],
    ['leaves an answer alone that fits', 20, 50],
  ])('%s', async (_, promptTokens, maxTokens) => {
    const { proxy, door } = open({ context_tokens: 100 }, { promptTokens })
    await proxy.chat(door, saying('a', { max_tokens: 50 }))
    expect(proxy.generations[0]?.body.max_tokens).toBe(maxTokens)
  })

  it('ends the session with an answer that it cut off', async () => {
    const { proxy, door, spent } = open({ context_tokens: 5 }, { promptTokens: 2 })
    await proxy.chat(door, saying('a'))
    proxy.generations[0]?.answer({ finish: 'length' })
    await proxy.settle()
    expect(spent()).toEqual([{ type: 'budget-spent', sentence: "the session's budget of 5 tokens of context is used up" }])
  })

  it('ends the session with the first prompt that fills it, and nothing is sent', async () => {
    const opened = open({ context_tokens: 100 }, { promptTokens: 100 })
    const { proxy, door, spent } = opened
    const told = await proxy.chat(door, saying('a', { stream: true }))
    expect([told.status(), told.text().includes('budget of 100 tokens of context is used up')]).toEqual([200, true])
    expect([proxy.generations.length, spent().length]).toEqual([0, 1])
    expect((await proxy.chat(door, saying('b'))).text()).toContain('is used up')
    const { calls, upstreamFailures } = await door.seal()
    expect([calls.map(({ status, responseMessage }) => [status, responseMessage]), upstreamFailures]).toEqual([[['failed', null]], 0])
  })

  it('holds for answers where nobody counts prompts', async () => {
    const { proxy, door } = open({ context_tokens: 100 }, { promptTokens: null })
    await proxy.chat(door, saying('a', { max_tokens: 5_000 }))
    expect(proxy.generations[0]?.body.max_tokens).toBe(100)
  })

  it('is no error of context: the model’s own, when it is the smaller one, is', async () => {
    const { proxy, door, spent } = open({ context_tokens: 8_192 }, { promptTokens: 5_000 })
    const told = await proxy.chat(door, saying('a'))
    proxy.generations[0]?.respond(400, { message: "This model's maximum context length is 4096 tokens." })
    await proxy.settle()
    expect([told.status(), spent()]).toEqual([400, []])
  })
})

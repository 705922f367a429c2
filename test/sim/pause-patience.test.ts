// Ten minutes of pause in virtual time: clients that time events as each agent CLI does are kept to the end, each with its one call.
import { afterEach, expect, it } from 'vitest'
import { type FakeSink, openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'

const PAUSE_MS = 600_000
const STEP_MS = 500

type Client = {
  /** Until the head of the answer, and from one event with data to the next; infinite where no limit is known. */
  readonly headMs: number
  readonly idleMs: number
  readonly path: string
  readonly body: object
}

const CHAT = { path: '/v1/chat/completions', body: { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true } }

/** What was measured of each CLI as it is installed. */
const CLIENTS: Readonly<Record<string, Client>> = {
  codex: { headMs: Infinity, idleMs: 300_000, path: '/v1/responses', body: { model: 'm', input: 'hi', stream: true } },
  claude_code: {
    headMs: 360_000,
    idleMs: 300_000,
    path: '/v1/messages',
    body: { model: 'm', max_tokens: 64, messages: [{ role: 'user', content: 'hi' }], stream: true },
  },
  gemini_cli: {
    headMs: 60_500,
    idleMs: 300_000,
    path: '/v1beta/models/m:streamGenerateContent?alt=sse',
    body: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
  },
  qwen_code: { headMs: 120_000, idleMs: 240_000, ...CHAT },
  opencode: { headMs: 300_000, idleMs: 300_000, ...CHAT },
  pi: { headMs: 600_000, idleMs: Infinity, ...CHAT },
}

let proxy: ProxyFixture
afterEach(() => proxy.close())

/** Hangs up as its CLI would; comments are no events. */
function watch(sink: FakeSink, { headMs, idleMs }: Client, nowMs: () => number) {
  const startedMs = nowMs()
  let events = 0
  let lastMs = startedMs
  let longestMs = 0
  let hasLeft = false
  return {
    hasLeft: () => hasLeft,
    events: () => events,
    longestMs: () => longestMs,
    look(): void {
      const heard = sink.text().match(/^data: /gm)?.length ?? 0
      if (heard > events) lastMs = nowMs()
      events = heard
      longestMs = Math.max(longestMs, nowMs() - lastMs)
      const isLate = sink.status() === null ? nowMs() - startedMs > headMs : nowMs() - lastMs > idleMs
      if (!isLate || hasLeft) return
      hasLeft = true
      sink.leave()
    },
  }
}

it('keeps every client through ten minutes, with no wait that comes near to its limit', async () => {
  proxy = openProxy()
  await proxy.settle()
  const { clock } = proxy.world
  expect(await proxy.boundary.pause(PAUSE_MS)).toBe('paused')
  const calls = []
  for (const [name, client] of Object.entries(CLIENTS)) {
    const { basePath, key } = proxy.openDoor()
    const headers = { authorization: `Bearer ${key}`, 'anthropic-version': '2023-06-01' }
    const sink = await proxy.send({ url: basePath + client.path, headers, bytes: JSON.stringify(client.body) })
    calls.push({ name, client, sink, watched: watch(sink, client, clock.nowMs) })
  }
  for (let passedMs = 0; passedMs < PAUSE_MS; passedMs += STEP_MS) {
    await proxy.world.advance(STEP_MS)
    for (const { watched } of calls) watched.look()
  }
  expect(proxy.generations).toEqual([])
  proxy.boundary.resume()
  await proxy.settle()
  expect(proxy.generations).toHaveLength(calls.length)
  for (const generation of proxy.generations) generation.answer()
  await proxy.settle()
  for (const { name, client, sink, watched } of calls) {
    expect([name, watched.hasLeft(), sink.isEnded(), sink.status()]).toEqual([name, false, true, 200])
    expect(sink.text()).toContain('Hello.')
    // One beat each ten seconds.
    expect(watched.events()).toBeGreaterThanOrEqual(PAUSE_MS / 10_000 - 1)
    expect(watched.longestMs()).toBeLessThan(Math.min(client.headMs, client.idleMs) / 4)
  }
  expect(proxy.records.map(({ status, delivery, retryOf }) => [status, delivery, retryOf])).toEqual(calls.map(() => ['ok', 'yes', null]))
})

it('would lose them if it said nothing', async () => {
  proxy = openProxy({ settings: { beatEveryMs: PAUSE_MS } })
  await proxy.settle()
  await proxy.boundary.pause(PAUSE_MS)
  const { basePath, key } = proxy.openDoor()
  const sink = await proxy.send({
    url: basePath + CHAT.path,
    headers: { authorization: `Bearer ${key}` },
    bytes: JSON.stringify(CHAT.body),
  })
  const watched = watch(sink, { headMs: 120_000, idleMs: 240_000, ...CHAT }, proxy.world.clock.nowMs)
  for (let passedMs = 0; passedMs < PAUSE_MS; passedMs += STEP_MS) {
    await proxy.world.advance(STEP_MS)
    watched.look()
  }
  expect(watched.hasLeft()).toBe(true)
})

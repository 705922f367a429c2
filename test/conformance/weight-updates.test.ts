// A trainer updates the weights of an engine under a running session: pauses, cuts, sleep and new versions over real sockets.
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { CallRecord, EngineKind } from '../../src/contract/call.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import { openEngineSession } from '../lib/engine-session.ts'

const WAIT = { timeout: 30_000, interval: 5 }
const LONG_MS = 60_000
const WORDS = 'one two three four five six seven eight nine ten eleven twelve'
const script = { rules: [{ match: {}, choices: [{ text: WORDS }] }] }
const ask = { messages: [{ role: 'user', content: 'count' }] }
/** A token in a second of the engine's time, which the test lets pass; a probe's are there at once. */
const slowly = {
  rules: [
    { match: { last_contains: 'count' }, choices: [{ text: WORDS, latency: { ttft_ms: 1_000, ms_per_token: 1_000 } }] },
    ...script.rules,
  ],
}
const DRAWN = 3

type Session = Awaited<ReturnType<typeof openEngineSession>>

let session: Session
afterEach(() => session.close())

const post = (path: string, body: object = {}): Promise<Response> =>
  fetch(session.engine.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })

const isVllm = (kind: EngineKind): boolean => kind === 'vllm'
const cutAll = (kind: EngineKind) => (isVllm(kind) ? post('/pause?mode=abort') : post('/pause_generation', { mode: 'abort' }))
const goOnEngine = (kind: EngineKind) => post(isVllm(kind) ? '/resume' : '/continue_generation')

/** Until the engine has drawn some tokens of the call. */
async function whenDrawing(time: World): Promise<void> {
  await vi.waitUntil(
    async () => /running_?re\w*\S* [1-9]|requests_running\S* [1-9]/.test(await (await fetch(`${session.engine.url}/metrics`)).text()),
    WAIT,
  )
  await time.advance(DRAWN * 1_000)
}

/** The engine's time passes until the answer is there. */
async function answered<T>(time: World, answer: Promise<T>): Promise<T> {
  let isThere = false
  const told = answer.finally(() => {
    isThere = true
  })
  await vi.waitUntil(async () => {
    await time.advance(60_000)
    return isThere
  }, WAIT)
  return told
}

const spansOf = (record: CallRecord | undefined) => record?.weightSpans.map(({ version }) => version)

describe.each<EngineKind>(['vllm', 'sglang', 'sglang-native'])('an update of the weights of %s', (kind) => {
  it('that cuts an answer off is a boundary in it: it goes on under the new weights, and each token is told by its own', async () => {
    const time = openWorld({ seed: 1 })
    session = await openEngineSession(kind, slowly, { weightVersion: 'step-1', scheduler: time })
    const answer = session.chat(ask)
    await whenDrawing(time)
    const paused = session.boundary.pause(LONG_MS)
    await cutAll(kind)
    expect(await paused).toBe('paused')
    session.engine.setWeightVersion('step-2')
    await goOnEngine(kind)
    session.boundary.resume()
    expect((await answered(time, answer)).json.choices[0]).toMatchObject({ message: { content: WORDS }, finish_reason: 'stop' })
    const [record] = session.records
    const [cut, rest] = session.generated()
    expect(cut?.sampledIds).toHaveLength(DRAWN)
    expect(record).toMatchObject({
      status: 'ok',
      captureError: null,
      weightVersion: null,
      weightSpans: [
        { start: 0, end: DRAWN, version: 'step-1' },
        { start: DRAWN, version: 'step-2' },
      ],
    })
    expect(record?.weightSpans.at(-1)?.end).toBe(DRAWN + (rest?.sampledIds.length ?? 0))
  })

  it('that cuts a stream off is not noticed by whoever reads it: what was told goes on', async () => {
    const time = openWorld({ seed: 1 })
    session = await openEngineSession(kind, slowly, { scheduler: time, boundary: { streamMode: 'auto' } })
    const answer = session.chat({ ...ask, stream: true })
    await whenDrawing(time)
    const paused = session.boundary.pause(LONG_MS)
    await cutAll(kind)
    expect(await paused).toBe('paused')
    await goOnEngine(kind)
    session.boundary.resume()
    const events = (await answered(time, answer)).text.split('\n\n').filter((event) => event !== '')
    const told = events.slice(0, -1).map((event) => JSON.parse(event.slice('data: '.length)).choices[0]?.delta.content ?? '')
    expect([told.join(''), events.at(-1)]).toEqual([WORDS, 'data: [DONE]'])
    expect(session.records).toMatchObject([{ status: 'ok', captureError: null, diagnostics: [{ code: 'generation-aborted' }] }])
  })

  it('between two calls is in the stamp of the second', async () => {
    session = await openEngineSession(kind, script, { weightVersion: 'step-1' })
    await session.chat(ask)
    expect(await session.boundary.pause(LONG_MS)).toBe('paused')
    session.engine.setWeightVersion('step-2')
    session.boundary.resume()
    await session.chat(ask)
    expect(session.records.map(({ weightVersion }) => weightVersion)).toEqual(['step-1', 'step-2'])
  })
})

describe('an engine that sleeps in a pause', () => {
  it('is not unhealthy, is sent nothing until it is awake, and then serves those who waited', async () => {
    session = await openEngineSession('vllm', script, {
      boundary: { replica: { inFlight: 2, line: 8, downAfter: 1, probeBackoffMs: { first: 20, longest: 20 } } },
    })
    const stateOf = async () => (await session.boundary.replicas())[0]
    expect(await session.boundary.pause(LONG_MS)).toBe('paused')
    await post('/sleep?level=1')
    const before = session.engine.requests().length
    const answers = [session.chat(ask), session.chat({ messages: [{ role: 'user', content: 'again' }] })]
    await vi.waitUntil(async () => (await session.boundary.inference()).waiting === 2, WAIT)
    expect(await stateOf()).toMatchObject({ state: 'paused' })
    session.boundary.resume()
    // Resumed too early.
    await vi.waitUntil(async () => (await stateOf())?.detail === 'the engine sleeps', WAIT)
    expect([session.engine.requests().length, await stateOf()]).toMatchObject([before, { state: 'up', inFlight: 0 }])
    session.engine.setWeightVersion('step-2')
    await post('/wake_up')
    for (const { status } of await Promise.all(answers)) expect(status).toBe(200)
    expect(session.records.map((record) => [record.diagnostics, spansOf(record)])).toEqual(Array(2).fill([[], ['step-2']]))
    expect(await stateOf()).toMatchObject({ state: 'up', detail: null, weightVersion: 'step-2' })
  })
})

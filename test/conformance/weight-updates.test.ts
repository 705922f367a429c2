// A trainer updates the weights of an engine under a running session: pauses, cuts, sleep and new versions over real sockets.
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { CallRecord, EngineKind } from '../../src/contract/call.ts'
import { openEngineSession } from '../lib/engine-session.ts'

const WAIT = { timeout: 30_000, interval: 5 }
const LONG_MS = 60_000
const WORDS = 'one two three four five six seven eight nine ten eleven twelve'
const script = { rules: [{ match: {}, choices: [{ text: WORDS }] }] }
const ask = { messages: [{ role: 'user', content: 'count' }] }

type Session = Awaited<ReturnType<typeof openEngineSession>>

let session: Session
afterEach(() => session.close())

const post = (path: string, body: object = {}): Promise<Response> =>
  fetch(session.engine.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })

const isVllm = (kind: EngineKind): boolean => kind === 'vllm'
const cutAll = (kind: EngineKind) => (isVllm(kind) ? post('/pause?mode=abort') : post('/pause_generation', { mode: 'abort' }))
const goOnEngine = (kind: EngineKind) => post(isVllm(kind) ? '/resume' : '/continue_generation')

/** Until the engine has drawn a token or more of the call. */
async function whenDrawing(): Promise<void> {
  await vi.waitUntil(
    async () => /running_?re\w*\S* [1-9]|requests_running\S* [1-9]/.test(await (await fetch(`${session.engine.url}/metrics`)).text()),
    WAIT,
  )
  const since = performance.now()
  await vi.waitUntil(() => performance.now() - since > 60, WAIT)
}

const spansOf = (record: CallRecord | undefined) => record?.weightSpans.map(({ version }) => version)

describe.each<EngineKind>(['vllm', 'sglang', 'sglang-native'])('an update of the weights of %s', (kind) => {
  it('that cuts an answer off is a boundary in it: it goes on under the new weights, and each token is told by its own', async () => {
    session = await openEngineSession(kind, script, { weightVersion: 'step-1', latency: { msPerToken: 20 } })
    const answer = session.chat(ask)
    await whenDrawing()
    const paused = session.boundary.pause(LONG_MS)
    await cutAll(kind)
    expect(await paused).toBe('paused')
    session.engine.setWeightVersion('step-2')
    await goOnEngine(kind)
    session.boundary.resume()
    expect((await answer).json.choices[0]).toMatchObject({ message: { content: WORDS }, finish_reason: 'stop' })
    const [record] = session.records
    const [cut, rest] = session.generated()
    expect(cut?.sampledIds.length).toBeGreaterThan(0)
    expect(record).toMatchObject({
      status: 'ok',
      captureError: null,
      weightVersion: null,
      weightSpans: [
        { start: 0, end: cut?.sampledIds.length, version: 'step-1' },
        { start: cut?.sampledIds.length, version: 'step-2' },
      ],
    })
    expect(record?.weightSpans.at(-1)?.end).toBe((cut?.sampledIds.length ?? 0) + (rest?.sampledIds.length ?? 0))
  })

  it('that cuts a stream off is not noticed by whoever reads it: what was told goes on', async () => {
    session = await openEngineSession(kind, script, { latency: { msPerToken: 20 }, boundary: { streamMode: 'auto' } })
    const answer = session.chat({ ...ask, stream: true })
    await whenDrawing()
    const paused = session.boundary.pause(LONG_MS)
    await cutAll(kind)
    expect(await paused).toBe('paused')
    await goOnEngine(kind)
    session.boundary.resume()
    const events = (await answer).text.split('\n\n').filter((event) => event !== '')
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

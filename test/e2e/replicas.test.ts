// Inference servers as the shapes come: eight replicas, one endpoint, ranks, a router's workers; one dies, one starts late, all are full.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { openScriptedRouter } from '../../src/engine/scripted/router.ts'
import { freePort } from '../lib/free-port.ts'
import { openStand, type ReplicaNode, type Row, requestsOf, type Stand, sessionsOf } from '../lib/replica-node.ts'

let stand: Stand
beforeEach(() => {
  stand = openStand()
})
afterEach(() => stand.close())

/** No session may be through before the last one has begun: a place that became free is taken again. */
const SLOW = { ttftMs: 1_000 }

async function openNode(
  replicas: number,
  inFlight: number,
  shape: 'vllm' | 'sglang' = 'vllm',
  latency = { ttftMs: 20 },
): Promise<{ readonly engines: readonly ScriptedEngine[]; readonly node: ReplicaNode }> {
  const engines: ScriptedEngine[] = []
  for (let index = 0; index < replicas; index += 1) engines.push(await stand.openEngine({ shape, latency }))
  const listed = engines.map(({ url }, index) => ({ id: `gpu${index}`, url, engine: shape, max_in_flight: inFlight }))
  return { engines, node: await stand.serve(listed) }
}

/** Every token that is trained is one that an engine sampled for that session, in order. */
async function expectTrained(node: ReplicaNode, engines: readonly ScriptedEngine[]): Promise<void> {
  for (const { session_id, trajectory } of await node.results()) {
    const sampled = engines.flatMap((engine) => requestsOf(engine, session_id)).toSorted((a, b) => a.at - b.at)
    const trained = trajectory.traces.flatMap(({ response_ids, loss_mask }) => response_ids.filter((_, at) => loss_mask[at] === 1))
    expect(trained.length).toBeGreaterThan(0)
    expect(trained).toEqual(sampled.flatMap(({ sampledIds }) => sampledIds))
  }
}

const endings = (rows: readonly Row[]): unknown => rows.map(({ outcome, error, attempt }) => [outcome, error, attempt])
const wellEnded = (sessions: number): unknown => Array(sessions).fill(['completed', null, 1])

describe('inference servers behind the proxy pool', () => {
  it('serves eight sessions from eight replicas, each session from one', async () => {
    const { engines, node } = await openNode(8, 2, 'vllm', SLOW)
    await node.submit(8, 4)
    const rows = await node.finished()
    expect(endings(rows)).toEqual(wellEnded(8))
    const holders = engines.map((engine) => sessionsOf(engine, rows))
    // Affinity: no session was seen by two engines; balance: none of the engines was left out.
    expect(holders.flat().toSorted()).toEqual(rows.map(({ session_id }) => session_id).toSorted())
    expect(holders.map((sessions) => sessions.length)).toEqual(Array(8).fill(1))
  }, 120_000)

  it('goes on with seven of eight when one dies, and with eight when it is back', async () => {
    const { engines, node } = await openNode(8, 4)
    await node.submit(8, 60)
    const [dying] = engines
    if (dying === undefined) throw new Error('eight were opened')
    await vi.waitUntil(async () => sessionsOf(dying, await node.rows()).length > 0, { timeout: 60_000, interval: 5 })
    await dying.close()
    await node.until((rows) => rows[0]?.state === 'down')
    const back = await stand.openEngine({ port: dying.port })
    await node.until((rows) => rows.every(({ state }) => state === 'up'))
    expect(endings(await node.finished())).toEqual(wellEnded(8))
    await node.submit(8, 2, 'after')
    const after = await node.finished('after')
    expect(endings(after)).toEqual(wellEnded(8))
    expect(sessionsOf(back, after)).toHaveLength(1)
  }, 120_000)

  it('serves as many sessions from one endpoint that takes two calls at a time', async () => {
    const { engines, node } = await openNode(1, 2)
    await node.submit(8, 4)
    const rows = await node.finished()
    expect(endings(rows)).toEqual(wellEnded(8))
    expect(rows.map(({ session_id }) => engines.flatMap((engine) => requestsOf(engine, session_id)).length)).toEqual(Array(8).fill(4))
  }, 120_000)

  it('keeps each session on one rank of an endpoint that has several, and uses all of them', async () => {
    const engine = await stand.openEngine({ dataParallelRanks: 4, latency: SLOW })
    const node = await stand.serve([{ id: 'gpu', url: engine.url, max_in_flight: 16, data_parallel_ranks: 4 }])
    await node.until((rows) => rows.every(({ state }) => state === 'up'))
    expect((await node.replicas()).map(({ id, data_parallel_rank, tier }) => [id, data_parallel_rank, tier])).toEqual([
      ['gpu@0', 0, 'train'],
      ['gpu@1', 1, 'train'],
      ['gpu@2', 2, 'train'],
      ['gpu@3', 3, 'train'],
    ])
    await node.submit(8, 4)
    const rows = await node.finished()
    expect(endings(rows)).toEqual(wellEnded(8))
    const ranks = rows.map(({ session_id }) => [...new Set(requestsOf(engine, session_id).map(({ rank }) => rank))])
    expect(ranks.map(({ length }) => length)).toEqual(Array(8).fill(1))
    expect(ranks.flat().toSorted()).toEqual([0, 0, 1, 1, 2, 2, 3, 3])
  }, 120_000)

  it('calls the workers of a router past it, follows those that join and leave, and needs it no more once it knows them', async () => {
    const workers = [await stand.openEngine({ shape: 'sglang' }), await stand.openEngine({ shape: 'sglang' })]
    const third = await stand.openEngine({ shape: 'sglang' })
    const router = await openScriptedRouter({ workers: workers.map(({ url }) => url) })
    stand.keep(() => router.close())
    const node = await stand.serve([{ id: 'fleet', url: router.url, engine: 'sglang', router: true, max_in_flight: 4 }])
    await node.until((rows) => rows.length === 3 && rows.every(({ state }) => state === 'up'))
    await node.submit(4, 3)
    expect(endings(await node.finished())).toEqual(wellEnded(4))
    await expectTrained(node, workers)

    // One is replaced while sessions run.
    await node.submit(4, 400, 'during')
    await vi.waitUntil(async () => (await node.rows('during')).every(({ status }) => status === 'RUNNING'), {
      timeout: 60_000,
      interval: 50,
    })
    const [first, second] = workers
    if (first === undefined || second === undefined) throw new Error('two were opened')
    router.setWorkers([second.url, third.url])
    const urls = (rows: readonly { readonly role: string; readonly url: string }[]) =>
      rows.filter(({ role }) => role === 'engine').map(({ url }) => url)
    await node.until((rows) => urls(rows).join() === [second.url, third.url].join())
    await first.close()
    await router.close()
    await node.until((rows) => rows.some(({ role, state }) => role === 'router' && state === 'down'))
    expect(endings(await node.finished('during'))).toEqual(wellEnded(4))
    await node.submit(4, 2, 'without')
    const rows = await node.finished('without')
    expect(endings(rows)).toEqual(wellEnded(4))
    expect(sessionsOf(third, rows).length).toBeGreaterThan(0)
    expect(router.served().size).toBe(0)
  }, 120_000)

  it('trains what an engine in SGLang’s shape sampled', async () => {
    const { engines, node } = await openNode(1, 4, 'sglang')
    await node.submit(2, 3)
    expect(endings(await node.finished())).toEqual(wellEnded(2))
    await expectTrained(node, engines)
  }, 120_000)

  it('takes sessions elsewhere when their replica dies under them', async () => {
    const { engines, node } = await openNode(2, 8)
    await node.submit(4, 40)
    const [dying, living] = engines
    await vi.waitUntil(() => (dying?.requests().length ?? 0) > 20, { timeout: 60_000, interval: 5 })
    await dying?.close()
    const rows = await node.finished()
    expect(endings(rows)).toEqual(wellEnded(4))
    expect(living === undefined ? [] : sessionsOf(living, rows)).toHaveLength(4)
  }, 120_000)

  it('keeps sessions in READY while its engine is not up yet, and loses none of them to that', async () => {
    const port = await freePort()
    const node = await stand.serve([{ id: 'gpu0', url: `http://127.0.0.1:${port}`, max_in_flight: 2 }])
    await node.submit(2, 2)
    await vi.waitUntil(async () => (await node.rows()).every(({ status }) => status === 'READY'), { timeout: 60_000, interval: 50 })
    await stand.openEngine({ port })
    expect(endings(await node.finished())).toEqual(wellEnded(2))
  }, 120_000)
})

// Polar's promises about nodes: the list, registration, heartbeats, draining, results that a gateway sends, and a gateway's own routes.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { PolarGateway } from './client.ts'
import { type ContractNode, openContractNode, WAIT } from './contract-node.ts'

let node: ContractNode
let gateway: PolarGateway

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g-0' }, { id: 'g-1', max_init_workers: 3, max_run_workers: 5, max_postrun_workers: 6 }] })
  gateway = await node.gateway('g-0')
})
afterAll(() => node?.close())

const refusal = (status: number) => expect.objectContaining({ status })
const METRICS = { init_queue_depth: 0, init_inflight: 0, ready_depth: 0, run_inflight: 0, postrun_queue_depth: 0, postrun_inflight: 0 }
const NOW_SECONDS = Date.now() / 1_000

describe('the node list', () => {
  it('names every gateway with its limits and its load', async () => {
    const nodes = (await node.client.nodes()).toSorted((one, other) => one.node_id.localeCompare(other.node_id))
    expect(nodes.map(({ node_id }) => node_id)).toEqual(['g-0', 'g-1'])
    for (const each of nodes) expect(each).toMatchObject({ healthy: true, draining: false, metrics: METRICS })
    expect(nodes[1]).toMatchObject({ max_init_workers: 3, max_run_workers: 5, max_postrun_workers: 6 })
    expect(nodes.every(({ last_heartbeat: at }) => at !== null && at >= NOW_SECONDS - 60)).toBe(true)
    expect(await node.client.node('g-1')).toMatchObject({ node_id: 'g-1', gateway_url: nodes[1]?.gateway_url })
    expect(await node.client.health()).toMatchObject({ status: 'ok', nodes: 2 })
  })

  it('answers 404 for an unknown one', async () => {
    await expect(node.client.node('g-9')).rejects.toEqual(refusal(404))
  })
})

describe('registration', () => {
  const registration = (id: string) => ({
    ...{ node_id: id, gateway_url: 'http://10.0.0.1:8100', max_init_workers: 1, max_run_workers: 1, max_postrun_workers: 1 },
    heartbeat_interval_seconds: 30,
  })

  it('of a gateway of this node answers its node info', async () => {
    expect(await node.client.register(registration('g-0'))).toMatchObject({ node_id: 'g-0', healthy: true, draining: false })
  })

  it('of a gateway elsewhere is refused, and says why', async () => {
    const error = await node.client.register(registration('stranger')).catch((refused) => refused)
    expect(error.status).toBeGreaterThanOrEqual(400)
    expect(error.status).toBeLessThan(500)
    expect((await node.client.nodes()).map(({ node_id }) => node_id)).not.toContain('stranger')
  })

  it.each<readonly [string, Readonly<Record<string, unknown>>]>([
    ['no node_id', { node_id: undefined }],
    ['no gateway_url', { gateway_url: undefined }],
    ['0 workers', { max_run_workers: 0 }],
  ])('answers 422 to %s', async (_what, keys) => {
    await expect(node.client.register({ ...registration('g-0'), ...keys })).rejects.toEqual(refusal(422))
  })
})

describe('a heartbeat', () => {
  it('of a gateway of this node answers its node info', async () => {
    expect(await node.client.heartbeat('g-0', { metrics: METRICS })).toMatchObject({ node_id: 'g-0', healthy: true })
  })
  it('of an unknown node is 404, so that a gateway registers again', async () => {
    await expect(node.client.heartbeat('stranger', { metrics: METRICS })).rejects.toEqual(refusal(404))
  })
  it('answers 422 to metrics that are none', async () => {
    await expect(node.client.heartbeat('g-0', { metrics: { init_inflight: 'many' } })).rejects.toEqual(refusal(422))
  })
})

describe('draining', () => {
  it('marks the node, sends it no more sessions, removes it with its last one, and a registration brings it back', async () => {
    await node.client.submit(node.task('before', { gate: 'before', keys: { num_samples: 4 } }))
    const running = await vi.waitUntil(async () => {
      const rows = await node.client.sessions('before')
      return rows.some(({ node_id, status }) => node_id === 'g-1' && status === 'RUNNING') ? rows : null
    }, WAIT)
    expect(running.length).toBe(4)
    await node.client.drain('g-1')
    expect(await node.client.node('g-1')).toMatchObject({ draining: true })
    await node.client.submit(node.task('during', { keys: { num_samples: 6 } }))
    node.openGate('before')
    await node.finished('before')
    const { results } = await node.finished('during')
    expect(new Set(results.map(({ node_id }) => node_id))).toEqual(new Set(['g-0']))
    await vi.waitUntil(async () => (await node.client.nodes()).every(({ node_id }) => node_id !== 'g-1'), WAIT)
    await expect(node.client.node('g-1')).rejects.toEqual(refusal(404))
    await expect(node.client.heartbeat('g-1', { metrics: METRICS })).rejects.toEqual(refusal(404))
    const again = {
      ...{ node_id: 'g-1', gateway_url: 'http://10.0.0.1:8100', max_init_workers: 1, max_run_workers: 1, max_postrun_workers: 1 },
    }
    expect(await node.client.register(again)).toMatchObject({ node_id: 'g-1', draining: false })
    await node.client.submit(node.task('after', { keys: { num_samples: 12 } }))
    expect(new Set((await node.finished('after')).results.map(({ node_id }) => node_id))).toEqual(new Set(['g-0', 'g-1']))
  })

  it('answers 404 for an unknown node', async () => {
    await expect(node.client.drain('stranger')).rejects.toEqual(refusal(404))
  })
})

describe('a session result that a gateway sends', () => {
  it('is accepted, also for an unknown session, and changes nothing that is known', async () => {
    await node.client.submit(node.task('kept'))
    const before = await node.finished('kept')
    const [result] = before.results
    const forged = { ...result, status: 'ERROR', error: 'forged', trajectory: { ...result?.trajectory, status: 'ERROR', traces: [] } }
    expect(await node.client.sessionResult(forged)).toEqual({ status: 'accepted' })
    expect(await node.client.sessionResult({ ...forged, session_id: 'unknown', task_id: 'unknown' })).toEqual({ status: 'accepted' })
    expect(await node.client.task('kept')).toEqual(before)
    await expect(node.client.task('unknown')).rejects.toEqual(refusal(404))
  })

  it('is accepted with a timing key that no reader knows', async () => {
    const [result] = (await node.client.task('kept')).results
    expect(await node.client.sessionResult({ ...result, timing: { a_stage_of_tomorrow_ms: 3 } })).toEqual({ status: 'accepted' })
  })

  it('that is none is 422', async () => {
    await expect(node.client.sessionResult({ hello: 'world' })).rejects.toEqual(refusal(422))
  })
})

describe('a gateway', () => {
  it('is reached at the URL that its node info names, under the server’s own address', () => {
    expect(gateway.url).toBe(`${node.client.base}/gateways/g-0`)
  })

  it.each(['/', ''])('says what it is at %j, to GET and to HEAD', async (where) => {
    expect(await gateway.root()).toEqual({ status: 'ok', service: 'polar-gateway' })
    const response = await gateway.send('HEAD', where)
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
  })

  it('tells its health: upstream, metrics, active sessions and free workers', async () => {
    await node.client.submit(node.task('healthy', { gate: 'healthy', keys: { num_samples: 2 } }))
    await vi.waitUntil(async () => (await node.client.sessions('healthy')).every(({ status }) => status === 'RUNNING'), WAIT)
    const healths = await Promise.all(['g-0', 'g-1'].map(async (id) => (await node.gateway(id)).health()))
    expect(healths.map(({ node_id }) => node_id)).toEqual(['g-0', 'g-1'])
    const active = healths.flatMap(({ active_sessions: sessions }) => sessions)
    expect(active.length).toBe(2)
    for (const session of active) expect(session).toMatchObject({ task_id: 'healthy', status: 'RUNNING' })
    expect(healths.reduce((sum, health) => sum + (health.active_status_counts.RUNNING ?? 0), 0)).toBe(2)
    expect(healths.map(({ metrics, available_run: free }) => metrics.run_inflight + free)).toEqual([2, 5])
    expect(healths[0]?.gateway_url).toBe(gateway.url)
    node.openGate('healthy')
    await node.finished('healthy')
    expect(await gateway.health()).toMatchObject({
      metrics: METRICS,
      active_sessions: [],
      available_init: 4,
      available_run: 2,
      available_postrun: 4,
    })
  })

  it('lists the models that its upstream serves', async () => {
    expect((await gateway.models()).data.map(({ id }) => id)).toEqual(['policy'])
  })

  it('counts the tokens of a prompt without recording it', async () => {
    const before = node.engine.requests().length
    const counted = await gateway.tokenize({ model: 'any', messages: [{ role: 'user', content: 'hello there' }] })
    expect(counted.count).toBeGreaterThan(0)
    expect(counted.max_model_len).toBeGreaterThan(counted.count)
    expect(node.engine.requests().length).toBe(before)
  })

  it('that is unknown is 404 on every one of its routes', async () => {
    const stranger = node.client.gateway(`${node.client.base}/gateways/stranger`)
    const asked = [stranger.root, stranger.health, stranger.models, stranger.inference, stranger.pause, stranger.resume, stranger.sessions]
    for (const ask of asked) await expect(ask()).rejects.toEqual(refusal(404))
    await expect(stranger.capture({})).rejects.toEqual(refusal(404))
  })

  it('does not take an unknown POST for a generation', async () => {
    const before = node.engine.requests().length
    for (const where of ['/anything/else', '/v1/embeddings', '/v1/completions']) {
      expect((await gateway.send('POST', where, { body: { model: 'm', prompt: 'x' } })).status).toBe(404)
    }
    expect(node.engine.requests().length).toBe(before)
  })
})

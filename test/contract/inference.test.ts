// Polar's promises about inference around a weight update: status, pause that drains, resume, and a pause that did not drain in time.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { PolarGateway } from './client.ts'
import { type ContractNode, openContractNode, WAIT } from './contract-node.ts'
import { errorBody } from './schemas.ts'
import { parse } from './shape.ts'

let node: ContractNode
let gateways: readonly [PolarGateway, PolarGateway]

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g-0' }, { id: 'g-1' }] })
  gateways = [await node.gateway('g-0'), await node.gateway('g-1')]
})
afterAll(() => node?.close())

/** A session that has one call to make, on the first gateway. */
const startCall = async (session: string): Promise<void> => {
  await gateways[0].dispatch({ ...node.task(session), session_id: session, remaining_timeout_seconds: 120 })
}
const ended = (session: string) =>
  vi.waitUntil(async () => {
    const { result } = await gateways[0].session(session)
    return result ?? null
  }, WAIT)

describe('a gateway', () => {
  it('says whether it is paused, what is in flight, and who serves', async () => {
    expect(await gateways[0].inference()).toMatchObject({ paused: false, inflight: 0, base_url: node.engine.url, engine: 'vllm' })
  })

  it('holds new calls while it is paused, and lets them go when it is resumed', async () => {
    const asked = node.engine.requests().length
    expect(await gateways[0].pause()).toMatchObject({ paused: true, inflight: 0 })
    expect(await gateways[0].inference()).toMatchObject({ paused: true })
    expect(await gateways[1].inference()).toMatchObject({ paused: false })
    await startCall('held')
    await vi.waitUntil(async () => (await gateways[0].session('held')).status === 'RUNNING', WAIT)
    // A whole session of the other gateway passes by, so that time itself is no witness.
    await gateways[1].dispatch({ ...node.task('passing'), session_id: 'passing', remaining_timeout_seconds: 120 })
    await vi.waitUntil(async () => (await gateways[1].session('passing')).result !== undefined, WAIT)
    expect(node.engine.requests().length).toBe(asked + 1)
    expect((await gateways[0].session('held')).status).toBe('RUNNING')
    expect(await gateways[0].resume()).toMatchObject({ paused: false })
    expect(await ended('held')).toMatchObject({ status: 'COMPLETED' })
    expect(node.engine.requests().length).toBe(asked + 2)
  })

  it('is paused when what is in flight has ended, and not before', async () => {
    node.engine.setFault({ fault: 'slow-bytes', times: 1 })
    const asked = node.engine.requests().length
    await startCall('drained')
    await vi.waitUntil(() => node.engine.requests().length === asked + 1, WAIT)
    expect(await gateways[0].pause({ timeout_seconds: 60 })).toMatchObject({ paused: true, inflight: 0 })
    await gateways[0].resume()
    expect(await ended('drained')).toMatchObject({ status: 'COMPLETED' })
  })

  it('answers 504 to a pause that does not drain in time, and serves on', async () => {
    node.engine.setFault({ fault: 'hang', times: 1 })
    const asked = node.engine.requests().length
    await startCall('hanging')
    await vi.waitUntil(() => node.engine.requests().length === asked + 1, WAIT)
    const refused = await gateways[0].send('POST', '/admin/inference/pause', { query: { timeout_seconds: 0.2 } })
    expect(refused.status).toBe(504)
    parse(errorBody, await refused.json(), 'error')
    expect(await gateways[0].inference()).toMatchObject({ paused: false, inflight: 1 })
    await startCall('after-504')
    expect(await ended('after-504')).toMatchObject({ status: 'COMPLETED' })
    await gateways[0].remove('hanging')
    await vi.waitUntil(async () => (await gateways[0].inference()).inflight === 0, WAIT)
  })

  it('may be paused and resumed twice', async () => {
    for (const _ of [1, 2]) expect(await gateways[0].pause()).toMatchObject({ paused: true })
    for (const _ of [1, 2]) expect(await gateways[0].resume()).toMatchObject({ paused: false })
  })

  it.each(['soon', -1])('answers 422 to timeout_seconds=%s', async (seconds) => {
    await expect(gateways[0].pause({ timeout_seconds: seconds })).rejects.toMatchObject({ status: 422 })
    expect(await gateways[0].inference()).toMatchObject({ paused: false })
  })
})

describe('the whole node', () => {
  it('is paused and resumed at once: every gateway, by one call', async () => {
    expect((await node.client.send('POST', '/admin/inference/pause')).status).toBe(200)
    for (const gateway of gateways) expect(await gateway.inference()).toMatchObject({ paused: true })
    expect((await node.client.send('GET', '/admin/inference/status')).status).toBe(200)
    expect((await node.client.send('POST', '/admin/inference/resume')).status).toBe(200)
    for (const gateway of gateways) expect(await gateway.inference()).toMatchObject({ paused: false })
  })

  it('serves on everywhere when one gateway does not drain in time', async () => {
    node.engine.setFault({ fault: 'hang', times: 1 })
    const asked = node.engine.requests().length
    await startCall('hanging-too')
    await vi.waitUntil(() => node.engine.requests().length === asked + 1, WAIT)
    expect((await node.client.send('POST', '/admin/inference/pause', { query: { timeout_seconds: 0.2 } })).status).toBe(504)
    for (const gateway of gateways) expect(await gateway.inference()).toMatchObject({ paused: false })
    await gateways[0].remove('hanging-too')
  })
})

describe('without its engine', () => {
  it('a gateway is well and says what is wrong behind it, and its list of models is 502', async () => {
    await node.engine.close()
    expect(await gateways[0].health()).toMatchObject({ status: 'ok', inference: { status: 'error', error: expect.any(String) } })
    await expect(gateways[0].models()).rejects.toMatchObject({ status: 502, body: { error: expect.any(String) } })
    expect(await gateways[0].inference()).toMatchObject({ paused: false, inflight: 0 })
  })
})

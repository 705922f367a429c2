// The replicas of a gateway on a thread of its own: changed from the control thread, and kept when that thread is lost.
import { afterEach, expect, it } from 'vitest'
import { replicaId } from '../../src/contract/ids.ts'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null

afterEach(async () => {
  await bench?.close()
  bench = null
})

it('a gateway thread that is lost comes back with the servers it had last, and its sessions are served by them', async () => {
  bench = await openTestNode({ gateways: 1, maxAttempts: 2 })
  const running = bench
  const { node, log, events } = running
  const [gateway] = node.modelPorts.keys()
  if (gateway === undefined) throw new Error('one gateway was asked for')
  const young = await openScriptedEngine({ generator: { words: [3, 8] }, model: 'policy' })
  const replicas = async (): Promise<unknown> => (await node.readGateway(gateway))?.replicas.map(({ id, state }) => `${id} ${state}`)
  try {
    const spec = { url: young.url, engine: 'vllm', maxInFlight: 4, maxWaiting: 8, dataParallelRanks: null, isRouter: false } as const
    expect(await node.replicas.add([gateway], { ...spec, id: replicaId('young') })).toBeNull()
    expect(await node.replicas.add([gateway], { ...spec, id: replicaId('young') })).toMatchObject({ change: { error: 'taken' } })
    expect(await node.replicas.remove([gateway], replicaId('r0'))).toEqual([{ gateway, change: { ok: true } }])
    await expect.poll(replicas, { timeout: 60_000 }).toEqual(['young up'])

    await running.submit('task', { num_samples: 2, agent: chatAgent(20, 50), callback_url: null })
    await running.until(() => events.some((event) => event.type === 'session.state_changed' && event.status === 'RUNNING'))
    void node.inject(gateway, 'exit')
    await running.until(() => log.includes('gateway-lost'))
    await expect.poll(replicas, { timeout: 60_000 }).toEqual(['young up'])
    await running.until(() => events.some((event) => event.type === 'task.completed'))
    const { sessions } = await running.readTask('task')
    expect(sessions.map(({ attempt, summary }) => [attempt, summary?.outcome])).toEqual(Array(2).fill([2, 'completed']))
    expect(running.engine.requests().filter(({ body }) => JSON.stringify(body).includes('agent of'))).toEqual([])
    expect(young.requests().length).toBeGreaterThan(40)
  } finally {
    await young.close()
  }
}, 120_000)

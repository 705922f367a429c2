// A pause of inference and a gateway's thread that is lost in it: the one that comes back holds its calls as well.
import { afterEach, expect, it } from 'vitest'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null

afterEach(async () => {
  await bench?.close()
  bench = null
})

it('a gateway thread that is lost in a pause comes back paused, probes nothing, and serves after the resume', async () => {
  bench = await openTestNode({ gateways: 1, maxAttempts: 2 })
  const running = bench
  const { node, log, events, engine } = running
  const { gateways } = node.inference
  const [gateway] = gateways
  if (gateway === undefined) throw new Error('one gateway was asked for')
  const state = async (): Promise<unknown> => (await node.readGateway(gateway))?.replicas.map((replica) => replica.state)

  await running.submit('task', { num_samples: 2, agent: chatAgent(20, 50), callback_url: null })
  await running.until(() => events.some((event) => event.type === 'session.state_changed' && event.status === 'RUNNING'))
  expect(await node.inference.pause(gateways, 60_000)).toMatchObject({ ok: true, statuses: [{ paused: true, inFlight: 0 }] })
  const asked = engine.requests().length
  void node.inject(gateway, 'exit')
  await running.until(() => log.includes('gateway-lost'))
  await expect.poll(() => node.inference.read(gateway), { timeout: 60_000 }).toMatchObject({ paused: true })
  // Both agents of the second attempt have asked, and wait.
  await expect.poll(async () => (await node.inference.read(gateway))?.waiting, { timeout: 60_000 }).toBe(2)
  expect([await state(), engine.requests().length]).toEqual([['paused'], asked])

  expect(await node.inference.resume(gateways)).toMatchObject([{ paused: false }])
  await running.until(() => events.some((event) => event.type === 'task.completed'))
  const { sessions } = await running.readTask('task')
  expect(sessions.map(({ attempt, summary }) => [attempt, summary?.outcome])).toEqual(Array(2).fill([2, 'completed']))
}, 120_000)

// A pause of inference and a gateway's thread that is lost in it: the one that comes back holds its calls, and the time of their agents, as well.
import { afterEach, expect, it, vi } from 'vitest'
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

it('an agent that is held for longer than its budget has lost nothing of it, in a thread that came back as in one that was there', async () => {
  const [budgetSeconds, heldMs] = [5, 6_000]
  bench = await openTestNode({ gateways: 1, maxAttempts: 2 })
  const running = bench
  const { node, log, events } = running
  const { gateways } = node.inference
  const [gateway] = gateways
  if (gateway === undefined) throw new Error('one gateway was asked for')
  // Budgets run on the node's own clock, so they are held against as much real time.
  const hold = async (): Promise<void> => {
    await expect.poll(async () => (await node.inference.read(gateway))?.waiting, { timeout: 60_000 }).toBe(1)
    const from = performance.now()
    await vi.waitUntil(() => performance.now() - from > heldMs, { timeout: 60_000, interval: 50 })
    expect(events.filter(({ type }) => type === 'task.completed')).toEqual([])
  }

  await running.submit('task', { agent: chatAgent(3, 500), timeout_seconds: budgetSeconds, callback_url: null })
  await running.until(() => events.some((event) => event.type === 'session.state_changed' && event.status === 'RUNNING'))
  expect(await node.inference.pause(gateways, 60_000)).toMatchObject({ ok: true })
  await hold()
  void node.inject(gateway, 'exit')
  await running.until(() => log.includes('gateway-lost'))
  await hold()
  await node.inference.resume(gateways)
  await running.until(() => events.some((event) => event.type === 'task.completed'))
  const { sessions } = await running.readTask('task')
  expect(sessions.map(({ attempt, summary }) => [attempt, summary?.outcome])).toEqual([[2, 'completed']])
}, 120_000)

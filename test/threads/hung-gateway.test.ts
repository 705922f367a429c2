// A gateway thread that never yields again, and a node that is told to stop.
import { afterEach, expect, it } from 'vitest'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null
afterEach(async () => {
  await bench?.close()
  bench = null
})

it('a node closes although a gateway thread hangs and its session has no end, and leaves no sandbox', async () => {
  bench = await openTestNode()
  const { node, engine, until } = bench
  await bench.submit('task', { num_samples: 1, agent: chatAgent(0, 20) })
  await until(() => engine.requests().some(({ body }) => !JSON.stringify(body).includes('Say hi.')))
  const [gateway] = node.modelPorts.keys()
  if (gateway === undefined) throw new Error('a node has a gateway')
  void node.inject(gateway, 'spin')
  // Its sessions run without end, so a close that waited for them would not come back before this test's own deadline.
  await node.close()
  expect([bench.processes(), await bench.sandboxes()]).toEqual([[], []])
}, 120_000)

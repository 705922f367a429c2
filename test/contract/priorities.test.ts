// Polar's promise of `dispatch_priority`: it orders what waits, and never takes a place from what runs.
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { authentication } from './client.ts'
import { type ContractNode, openContractNode, WAIT } from './contract-node.ts'
import { type EventStream, openEventStream } from './event-stream.ts'
import { sessionEvent } from './schemas.ts'
import { parse } from './shape.ts'

let node: ContractNode
let events: EventStream

beforeAll(async () => {
  node = await openContractNode({ nodes: [{ id: 'g', max_init_workers: 1, max_run_workers: 1 }] })
  events = await openEventStream(`${node.client.base}/events`, authentication(node.serving.token, 'header'))
})
afterAll(async () => {
  await events?.close()
  await node?.close()
})

/** The tasks of sessions that began to run, in that order. */
const runs = (): readonly string[] =>
  events.events
    .filter(({ type }) => type === 'session.state_changed')
    .map(({ data }) => parse(sessionEvent, data, 'event'))
    .filter(({ status }) => status === 'RUNNING')
    .map(({ task_id }) => task_id)

it('runs a task of priority 100 before what has waited longer, and after what runs', async () => {
  await node.client.submit(node.task('running', { gate: 'gate', keys: { dispatch_priority: 0 } }))
  await events.until(() => runs().includes('running'))
  await node.client.submit(node.task('waiting', { keys: { num_samples: 8, dispatch_priority: 0 } }))
  await node.client.submit(node.task('urgent', { keys: { dispatch_priority: 100 } }))
  expect(runs()).toEqual(['running'])
  node.openGate('gate')
  for (const task of ['running', 'waiting', 'urgent']) expect((await node.finished(task)).status).toBe('completed')
  const order = await vi.waitUntil(() => (runs().length === 10 ? runs() : null), WAIT)
  // Those that had a READY place before it came may keep it.
  expect(order.slice(0, 5)).toContain('urgent')
  expect(order[0]).toBe('running')
})

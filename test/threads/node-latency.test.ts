// Whatever hangs or burns in one stage, agents in another go on calling their model, and whoever asks the node is answered.
import { afterEach, describe, expect, it } from 'vitest'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null

afterEach(async () => {
  await bench?.close()
  bench = null
})

const CALLS = 12
/** How much longer the median call may take beside a burner that has a core to itself; a blocked loop would take all of its time. */
const SLOWER = 20

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

describe('a stage that hangs', () => {
  it.each([
    { burner: 'an endless builder', status: 'BUILDING', task: { agent: chatAgent(1), builder: { strategy: 'endless' } } },
    { burner: 'an endless evaluator', status: 'EVALUATING', task: { agent: chatAgent(1), evaluator: { strategy: 'endless' } } },
    {
      burner: 'a prepare action that sleeps',
      status: 'INITIALIZING',
      task: { agent: chatAgent(1), runtime: { backend: 'local', prepare: [{ type: 'exec', command: 'sleep 600' }] } },
    },
    // The only run slot is taken by the agent that is looked at.
    { burner: 'a READY backlog', status: 'READY', runSlots: 1, task: { agent: chatAgent(1), num_samples: 6 } },
  ])(
    '$burner leaves model calls and control reads alone',
    async ({ status, task, runSlots = 2 }) => {
      bench = await openTestNode({ limits: { maxRunWorkers: runSlots }, budgets: { buildMs: 8_000, evaluateMs: 60_000 } })
      const running = bench
      const { node, until, events } = running
      const [gateway] = node.modelPorts.keys()
      if (gateway === undefined) throw new Error('one gateway was asked for')
      await running.submit('calls', { agent: chatAgent(0, 10) })
      const session = (await running.readTask('calls')).sessions[0]?.session ?? ''
      const latencies = (): readonly number[] => running.callsOf(session).map(({ lastMs }) => lastMs)
      await until(() => latencies().length > CALLS + 2)
      // The first calls find cold code and cold connections.
      const before = latencies().slice(3)

      await running.submit('burner', task)
      const isBurning = (): boolean =>
        events.some((event) => event.type === 'session.state_changed' && event.task === 'burner' && event.status === status)
      const hasEnded = (): boolean => events.some((event) => event.type === 'task.completed' && event.task === 'burner')
      await until(isBurning)
      const begun = latencies().length
      const snapshot = await node.readGateway(gateway)
      const view = await running.readTask('burner')
      await until(() => hasEnded() || latencies().length > begun + CALLS)

      // All of this while the stage still hangs.
      expect(hasEnded()).toBe(false)
      expect(snapshot?.sessions.map((each) => each.task)).toContain('burner')
      expect(view.sessions.some((each) => each.status === status)).toBe(true)
      expect(median(latencies().slice(begun + 1)) / median(before)).toBeLessThan(SLOWER)

      await running.cancel('burner')
      await running.cancel('calls')
      await until(() => events.filter(({ type }) => type === 'task.completed').length === 2)
      expect(running.processes()).toEqual([])
      expect(await running.sandboxes()).toEqual([])
    },
    120_000,
  )
})

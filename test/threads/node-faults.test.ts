// A gateway thread that dies or hangs under running sessions: whoever waited on it is told, and nobody else notices.
import { afterEach, describe, expect, it } from 'vitest'
import type { NodeEvent } from '../../src/actors/rollout-server/protocol.ts'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null

afterEach(async () => {
  await bench?.close()
  bench = null
})

type Change = Extract<NodeEvent, { type: 'session.state_changed' }>

const changesOf = ({ events }: TestNode, session: string): readonly Change[] =>
  events.flatMap((event) => (event.type === 'session.state_changed' && event.session === session ? [event] : []))

const hasEnded = ({ events }: TestNode, task: string): boolean =>
  events.some((event) => event.type === 'task.completed' && event.task === task)

describe('a gateway thread that is lost', () => {
  it.each([
    { fault: 'exit', maxAttempts: 2, outcome: 'completed', attempt: 2 },
    { fault: 'exit', maxAttempts: 1, outcome: 'interrupted', attempt: 1 },
    { fault: 'spin', maxAttempts: 2, outcome: 'completed', attempt: 2 },
  ])(
    'ends its sessions as interrupted ($fault, $maxAttempts attempts: $outcome) and leaves the other gateway’s alone',
    async (given) => {
      const calls = 8
      bench = await openTestNode({ gateways: 2, maxAttempts: given.maxAttempts })
      const { node, until, log } = bench
      const running = bench
      await running.submit('task', { num_samples: 2, agent: chatAgent(calls, 300) })
      const { sessions } = await running.readTask('task')
      await until(() => sessions.every(({ session }) => running.callsOf(session).length >= 2))
      const holders = await running.holders()
      const [first, second] = sessions
      if (first === undefined || second === undefined) throw new Error('two sessions were asked for')
      const victim = holders.get(first.session)
      const other = holders.get(second.session)
      if (victim === undefined || other === undefined) throw new Error('a running session is held by a gateway')
      expect(victim).not.toBe(other)

      void node.inject(victim, given.fault)
      await until(() => log.includes('gateway-lost'))
      await until(() => hasEnded(running, 'task'))

      const view = await running.readTask('task')
      const [lost, untouched] = view.sessions
      expect(lost).toMatchObject({ attempt: given.attempt, summary: { outcome: given.outcome } })
      expect(untouched).toMatchObject({ attempt: 1, gateway: other, summary: { outcome: 'completed', calls } })
      expect(changesOf(running, second.session).map(({ attempt }) => attempt)).not.toContain(2)
      expect(changesOf(running, first.session).filter(({ summary }) => summary !== null)).toHaveLength(1)
      if (given.attempt === 2) expect(lost?.summary).toMatchObject({ calls })
      await until(() => running.deliveries.length === 1)

      // The thread is there again, under the same port, and takes sessions.
      await expect.poll(() => health(node.modelPorts.get(victim)), { timeout: 60_000 }).toBe(200)
      await running.open()
      await running.submit('after', { num_samples: 2, agent: chatAgent(1) })
      await until(() => hasEnded(running, 'after'))
      const after = await running.readTask('after')
      expect(after.sessions.map(({ summary }) => summary?.outcome)).toEqual(['completed', 'completed'])
      expect(new Set(after.sessions.map(({ gateway }) => gateway))).toEqual(new Set([victim, other]))
      expect(running.processes()).toEqual([])
      expect(await running.sandboxes()).toEqual([])
    },
    120_000,
  )
})

async function health(port: number | undefined): Promise<number> {
  return fetch(`http://127.0.0.1:${port}/health`).then(
    ({ status }) => status,
    () => 0,
  )
}

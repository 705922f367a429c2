// A node on real threads from its start to a clean end: sessions spread, results arrive, nothing is left.
import { afterEach, describe, expect, it } from 'vitest'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | null = null

afterEach(async () => {
  await bench?.close()
  bench = null
})

/** What would keep this process alive; a turn's own leftovers are none of it. */
function handles(): readonly string[] {
  return process
    .getActiveResourcesInfo()
    .filter((name) => name !== 'Immediate' && name !== 'TickObject')
    .sort()
}

describe('a node on real threads', () => {
  it('spreads sessions over its gateways, delivers results with the tokens that the engine sampled, and gives its memory back', async () => {
    bench = await openTestNode({ gateways: 2 })
    const { node, engine, until, deliveries } = bench
    await bench.submit('task', { num_samples: 4, agent: chatAgent(3) })
    await until(() => deliveries.length === 1)

    const { sessions } = await bench.readTask('task')
    expect(sessions.map(({ summary }) => summary?.outcome)).toEqual(['completed', 'completed', 'completed', 'completed'])
    expect(new Set(sessions.map(({ gateway }) => gateway))).toEqual(new Set(node.modelPorts.keys()))
    const { results } = JSON.parse(deliveries[0] ?? '')
    expect(results.map((result: { session_id: string }) => result.session_id)).toEqual(sessions.map(({ session }) => session))
    for (const { session_id, trajectory } of results) {
      const sampled = engine.requests().filter(({ body }) => JSON.stringify(body).includes(session_id))
      expect(trajectory.traces.flatMap(trainedIds)).toEqual(sampled.flatMap(({ sampledIds }) => sampledIds))
    }

    for (const gateway of node.modelPorts.keys()) {
      const { arena } = (await node.readGateway(gateway))?.metrics ?? {}
      expect(arena?.leasedBlocks).toBe(0)
      expect(arena?.allocatedBlocks).toBe(arena?.freeBlocks)
    }
  }, 120_000)

  it('attempts once what every other attempt would repeat, and again what it would not', async () => {
    bench = await openTestNode({ maxAttempts: 2 })
    const running = bench
    const prepared = (action: unknown) => ({ agent: chatAgent(1), runtime: { backend: 'local', prepare: [action] } })
    const tasks: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
      'a refused upload': prepared({ type: 'upload_dir', source: '/nowhere', target: '.' }),
      'an agent that is not installed': { agent: { harness: 'pi' } },
      'a command that failed': prepared({ type: 'exec', command: 'exit 1' }),
    }
    const ends: string[] = []
    for (const [index, [name, changes]] of Object.entries(tasks).entries()) {
      const task = `task-${index}`
      await running.submit(task, { ...changes, callback_url: null })
      await running.until(() => running.events.some((event) => event.type === 'task.completed' && event.task === task))
      const { sessions } = await running.readTask(task)
      ends.push(...sessions.map(({ attempt, summary }) => `${name}: ${summary?.outcome} at attempt ${attempt}`))
    }
    expect(ends).toEqual([
      'a refused upload: init_error at attempt 1',
      'an agent that is not installed: harness_error at attempt 1',
      'a command that failed: init_error at attempt 2',
    ])
  }, 120_000)

  it.each([
    { how: 'after a drain', isDrained: true },
    { how: 'in the middle of everything', isDrained: false },
  ])(
    'leaves no process, sandbox or handle when it is closed $how',
    async ({ isDrained }) => {
      const handlesBefore = handles()
      const running = await openTestNode({ gateways: 2 })
      bench = running
      await running.submit('task', { num_samples: 3, agent: chatAgent(isDrained ? 3 : 0, 20), callback_url: null })
      const { sessions } = await running.readTask('task')
      await running.until(() => sessions.some(({ session }) => running.callsOf(session).length > 0))
      expect(running.processes()).not.toEqual([])

      if (isDrained) expect(await running.node.drain()).toMatchObject({ isDrained })
      await running.node.close()
      expect(running.processes()).toEqual([])
      expect(await running.sandboxes()).toEqual([])
      await running.close()
      // Sockets and ports report their end in a later turn.
      await expect.poll(handles, { timeout: 60_000 }).toEqual(handlesBefore)
    },
    120_000,
  )

  it('says so when an actor that all need has ended, and still closes', async () => {
    bench = await openTestNode()
    const { node } = bench
    // The type checker would rightly refuse this message; the actor throws at it, and stands for one with a bug.
    node.kernel.tell(node.rolloutServer, { type: 'nonsense' } as never)
    expect(await node.failed).toContain('rollout-server has failed')
    await node.close()
    expect(bench.processes()).toEqual([])
  }, 120_000)
})

type Row = { readonly response_ids: readonly number[]; readonly loss_mask: readonly number[] }

function trainedIds({ response_ids, loss_mask }: Row): readonly number[] {
  return response_ids.filter((_, at) => loss_mask[at] === 1)
}

// A whole node in virtual time that is told to stop in the middle of its work.
import { describe, expect, it } from 'vitest'
import type { LedgerCommand, StoredResult } from '../../src/actors/ledger/protocol.ts'
import type {
  GatewayView,
  RolloutServerCommand,
  SubmitReply,
  SubmitSessionReply,
  TaskView,
} from '../../src/actors/rollout-server/protocol.ts'
import { knownSessionId, type SessionId, taskId } from '../../src/contract/ids.ts'
import { type TaskRequest, taskRequestSchema } from '../../src/contract/task.ts'
import type { DrainReport } from '../../src/kernel/drain.ts'
import { openWorld, seededRandom } from '../../src/kernel/world.ts'
import { openInlineCpu } from '../../src/tasks/pool.ts'
import { openInlineNode } from '../../src/topology.ts'
import { unpackSession } from '../../src/trajectory/pack.ts'
import { openEngine } from '../sim/lib/engine.ts'
import { openModel } from '../sim/lib/model.ts'
import { openSimulatedRuntime } from '../sim/lib/runtime.ts'
import { drawSchedule } from '../sim/lib/schedule.ts'
import { sleep } from '../sim/lib/time.ts'

const CALLBACK_URL = 'http://trainer:9000/result'

type Options = {
  readonly agentMs: number
  readonly drainMs: number
  /** What the trainer answers to a callback. */
  readonly status?: number
}

/** One gateway with one run slot and two places in READY; agents that work for a given time and call no model. */
async function openNode({ agentMs, drainMs, status = 200 }: Options) {
  const world = openWorld({ seed: 1 })
  const drawn = drawSchedule(1).setup
  const [gateway] = drawn.gateways
  if (gateway === undefined) throw new Error('a schedule has a gateway')
  const runtime = openSimulatedRuntime({
    scheduler: world,
    random: seededRandom(2),
    faults: { rate: 0, maxLatencyMs: 10, slowStartMs: 0 },
    async runAgent(_command, _attempt, killed) {
      await sleep(world, agentMs, killed)
      return killed.aborted ? { type: 'signalled', signal: 'SIGTERM' } : { type: 'exited', code: 0 }
    },
  })
  const engine = openEngine({
    scheduler: world,
    random: seededRandom(3),
    model: openModel(seededRandom(4)),
    faults: { rate: 0, kinds: [], outages: [], maxLatencyMs: 0 },
  })
  const posted: string[] = []
  const faults: string[] = []
  const node = await openInlineNode(
    {
      ...drawn,
      control: {
        ...drawn.control,
        server: { ...drawn.control.server, maxAttempts: 3 },
        callback: { ...drawn.control.callback, maxAttempts: 100 },
      },
      gateways: [{ ...gateway, limits: { ...gateway.limits, maxReadySessions: 2, maxInitWorkers: 2, maxRunWorkers: 1 } }],
      drainMs,
    },
    {
      scheduler: world,
      random: world.random,
      runtimes: new Map([[runtime.backend, runtime]]),
      readTail: async () => ({ text: '', truncated: false }),
      cpu: openInlineCpu(),
      transport: {
        async post(_url, _headers, body) {
          await sleep(world, 20)
          posted.push(JSON.parse(Buffer.from(body).toString()).task_id)
          return { status, retryAfter: null }
        },
        close: async () => {},
      },
      publish: () => {},
      log: (event, detail) => event !== 'engine-available' && faults.push(`${event} ${JSON.stringify(detail)}`),
      gateway: () => ({
        cpu: openInlineCpu(),
        listens: false,
        transport: engine.transport,
      }),
    },
  )

  async function until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false
    const watched = promise.finally(() => {
      isSettled = true
    })
    watched.catch(() => {})
    await world.run(() => isSettled)
    return watched
  }
  async function ask<R>(make: Parameters<typeof node.kernel.ask<RolloutServerCommand, R>>[1]): Promise<R> {
    const answer = await until(node.kernel.ask<RolloutServerCommand, R>(node.rolloutServer, make, 10_000))
    if (!answer.ok) throw new Error(answer.error)
    return answer.value
  }
  return {
    world,
    node,
    runtime,
    posted,
    faults,
    until,
    submit: (request: TaskRequest) => ask<SubmitReply>((reply) => ({ type: 'submit', request, ask: reply })),
    open: (session: SessionId) =>
      ask<SubmitSessionReply>((reply) => ({
        type: 'submit-session',
        kind: 'capture',
        gateway: null,
        session,
        request: task('captured', 1),
        resultUrl: null,
        ask: reply,
      })),
    gateways: () => ask<readonly GatewayView[]>((reply) => ({ type: 'list-gateways', ask: reply })),
    async sessionsOf(task: string) {
      const view = await ask<TaskView | null>((reply) => ({ type: 'read-task', task: taskId(task), ask: reply }))
      return view?.sessions ?? []
    },
    async errorOf(session: SessionId): Promise<unknown> {
      const read = node.kernel.ask<LedgerCommand, StoredResult>(
        node.ledger,
        (reply) => ({ type: 'read-result', session, ask: reply }),
        10_000,
      )
      const stored = await until(read)
      if (!stored.ok || stored.value.type !== 'result') throw new Error(`no result of ${session}`)
      return unpackSession(stored.value.payload).trajectory.error
    },
  }
}

function task(id: string, samples: number): TaskRequest {
  return taskRequestSchema.parse({
    task_id: id,
    instruction: 'wait',
    num_samples: samples,
    timeout_seconds: 60,
    agent: { harness: 'shell', custom_shell: { command: 'wait' } },
    runtime: { backend: 'simulated' },
    callback_url: CALLBACK_URL,
  })
}

const outline = ({ steps }: DrainReport): readonly string[] => steps.map(({ step, name, error }) => `${step} ${name}: ${error ?? 'done'}`)

describe('a node that is told to stop', () => {
  it('starts nothing new, lets what runs end, delivers every task, and says so step by step', async () => {
    const { world, node, runtime, posted, faults, until, submit, gateways, sessionsOf, errorOf } = await openNode({
      agentMs: 5_000,
      drainMs: 60_000,
    })
    await submit(task('a', 2))
    await submit(task('b', 4))
    await world.advance(1_000)
    expect((await sessionsOf('a')).map(({ status }) => status).toSorted()).toEqual(['READY', 'RUNNING'])
    expect((await gateways()).map(({ draining }) => draining)).toEqual([false])

    const begun: string[] = []
    const waited: string[] = []
    const draining = node.drain((step, name, waitsFor) =>
      waitsFor === null ? begun.push(`${step} ${name}`) : waited.push(`${step}: ${waitsFor}`),
    )
    await world.advance(1_000)
    expect((await gateways()).map(({ draining }) => draining)).toEqual([true])
    expect(await submit(task('c', 1))).toMatchObject({ type: 'not-recorded' })
    expect(begun).toEqual(['1 admission', '2 gateway gateway-0'])
    const report = await until(draining)

    expect(outline(report)).toEqual([
      '1 admission: done',
      '2 gateway gateway-0: done',
      '3 sessions: done',
      '4 callback: done',
      '5 sandboxes: done',
    ])
    expect(begun).toHaveLength(5)
    expect(waited).toEqual(['2: 3 sessions; cancelled after 60 s'])
    expect(report.isDrained).toBe(true)
    const ended = [...(await sessionsOf('a')), ...(await sessionsOf('b'))].map((session) => session.summary?.outcome)
    // One ran and two waited in READY: those came to their own end, and none that failed was attempted again.
    expect(ended.filter((outcome) => outcome === 'cancelled')).toHaveLength(3)
    expect(ended.filter((outcome) => outcome === 'harness_error')).toHaveLength(3)
    const cancelled = (await sessionsOf('b')).find((session) => session.summary?.outcome === 'cancelled')
    expect(cancelled && (await errorOf(cancelled.session))).toBe('session cancelled: node is stopping')
    expect(posted.toSorted()).toEqual(['a', 'b'])
    expect([runtime.liveSandboxes(), runtime.liveProcesses(), faults]).toEqual([0, 0, []])
    await until(node.close())
  })

  it('cancels what does not end in time, names that, and still delivers', async () => {
    const { world, node, runtime, posted, until, submit, sessionsOf, errorOf } = await openNode({ agentMs: 50_000, drainMs: 3_000 })
    await submit(task('a', 1))
    await world.advance(1_000)
    const report = await until(node.drain())
    expect(report.isDrained).toBe(false)
    expect(outline(report)).toEqual([
      '1 admission: done',
      expect.stringContaining('2 gateway gateway-0: '),
      '3 sessions: sessions that had not ended and were cancelled: 1',
      '4 callback: done',
      '5 sandboxes: done',
    ])
    expect(report.steps[1]?.ok).toBe(false)
    const [session] = await sessionsOf('a')
    expect(session && (await errorOf(session.session))).toBe('session cancelled: node is stopping')
    expect([posted, runtime.liveSandboxes(), runtime.liveProcesses()]).toEqual([['a'], 0, 0])
    await until(node.close())
  })

  it('names the captures that it waits for, which only their owner ends', async () => {
    const { world, node, until, submit, open } = await openNode({ agentMs: 50_000, drainMs: 3_000 })
    await submit(task('a', 1))
    await open(knownSessionId('elsewhere'))
    await world.advance(1_000)
    const waited: string[] = []
    await until(node.drain((step, _, waitsFor) => waitsFor !== null && waited.push(`${step}: ${waitsFor}`)))
    expect(waited).toEqual(['2: 1 session and open captures elsewhere; cancelled after 3 s'])
    await until(node.close())
  })

  it('names the results that no trainer took', async () => {
    const { world, node, runtime, until, submit } = await openNode({ agentMs: 100, drainMs: 5_000, status: 503 })
    await submit(task('a', 1))
    await world.advance(1_000)
    const waited: string[] = []
    const report = await until(node.drain((step, _, waitsFor) => waitsFor !== null && waited.push(`${step}: ${waitsFor}`)))
    expect(waited).toEqual(['4: 1 result for http://trainer:9000 (answered 503); given up after 5 s'])
    expect(outline(report)[3]).toMatch(/^4 callback: not delivered: a to http:\/\/trainer:9000 \(\d tries; answered 503\)$/)
    expect([report.isDrained, runtime.liveSandboxes()]).toEqual([false, 0])
    await until(node.close())
  })
})

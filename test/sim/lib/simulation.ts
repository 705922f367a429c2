// One whole node through one seeded day: tasks come, agents run, things fail, and at the end everything is looked at.
import type { GatewaySnapshot } from '../../../src/actors/gateway/protocol.ts'
import type { FeedEntry, LedgerCommand, StoredResult } from '../../../src/actors/ledger/protocol.ts'
import type { NodeEvent, RolloutServerCommand, SessionView, SubmitReply, TaskView } from '../../../src/actors/rollout-server/protocol.ts'
import type { CallRecord } from '../../../src/contract/call.ts'
import { type SessionId, type TaskId, taskId } from '../../../src/contract/ids.ts'
import type { SessionResult } from '../../../src/contract/result.ts'
import type { Delivery, Kernel, KernelStats } from '../../../src/kernel/kernel.ts'
import { openWorld, seededRandom, type World } from '../../../src/kernel/world.ts'
import type { Boundary } from '../../../src/proxy/boundary.ts'
import { openInlineCpu } from '../../../src/tasks/pool.ts'
import { type InlineNode, openInlineNode } from '../../../src/topology.ts'
import { unpackSession } from '../../../src/trajectory/pack.ts'
import { openFakeSink } from '../../lib/proxy-fixture.ts'
import { type Agents, openAgents } from './agent.ts'
import { captureElsewhere } from './captures.ts'
import { type Engine, openEngine } from './engine.ts'
import { openFeedReader } from './feed-reader.ts'
import { type Model, openModel } from './model.ts'
import { type Arrival, openReceiver } from './receiver.ts'
import { openSimulatedRuntime, type Peaks } from './runtime.ts'
import type { Schedule, TaskPlan } from './schedule.ts'
import { countTimers, sleep } from './time.ts'
import { updateWeights } from './weight-updates.ts'

/** Engines and trainers come and go on these days, and the node says so; anything else it has to say is a fault. */
const FORESEEN = new Set([
  'engine-available',
  'no-engine-available',
  'dead-letter',
  'inference-paused',
  'inference-not-paused',
  'inference-resumed',
])

export type StoredSession = { readonly attempt: number; readonly result: SessionResult }

/** What a day left behind. */
export type Day = {
  readonly schedule: Schedule
  /** By the trainer's own account: tasks whose submit was answered `submitted`. */
  readonly accepted: readonly TaskId[]
  readonly views: ReadonlyMap<TaskId, TaskView>
  /** As they were seen last. */
  readonly captures: ReadonlyMap<SessionId, SessionView>
  readonly results: ReadonlyMap<SessionId, StoredSession>
  readonly events: readonly NodeEvent[]
  /** Every record that the ledger was given, in order. */
  readonly records: readonly CallRecord[]
  readonly arrivals: readonly Arrival[]
  /** As a reader saw it who followed it from the beginning. */
  readonly feed: readonly FeedEntry[]
  readonly model: Model
  readonly engine: Engine
  /** How each pause of inference ended. */
  readonly pauses: readonly string[]
  readonly agents: Agents
  readonly snapshots: readonly GatewaySnapshot[]
  readonly peaks: ReadonlyMap<string, Readonly<Peaks>>
  /** After the drain, when nothing was left to do. */
  readonly rest: {
    readonly gateways: readonly (GatewaySnapshot | null)[]
    readonly kernels: readonly KernelStats[]
    readonly timers: number
    readonly sandboxes: number
    readonly processes: number
    readonly isDrained: boolean
    /** Places in generation that are held, by each gateway's own account. */
    readonly calls: readonly number[]
  }
  readonly actorsAfterClose: number
  /** Faults in the node itself, which no fault outside may cause. */
  readonly faults: readonly string[]
  /** One line per delivered message. */
  readonly trace: readonly string[]
}

const ASK_MS = 30_000
const LOOK_EVERY_MS = 4_000
const LONGEST_DAY_MS = 3_600_000
/** Long enough that most of a day is in seeded order, and finite, so that a livelock shows itself. */
const CHOICES = 20_000

export async function liveThrough(schedule: Schedule): Promise<Day> {
  return (await openDay(schedule)).toItsEnd()
}

/** What is there after a node was closed while its day went on. */
export type Ruins = Pick<Day['rest'], 'sandboxes' | 'processes' | 'timers'> & {
  readonly actors: number
  readonly faults: readonly string[]
}

export async function closeAt(schedule: Schedule, atMs: number): Promise<Ruins> {
  return (await openDay(schedule)).upTo(atMs)
}

async function openDay(schedule: Schedule) {
  const { seed, setup } = schedule
  const world = openWorld({ seed, choices: CHOICES, impatience: schedule.impatience })
  const scheduler = countTimers(world)
  const random = (stream: number) => seededRandom(seed * 16 + stream)
  const model = openModel(random(1))
  const engine = openEngine({ scheduler: world, random: random(2), model, faults: schedule.engine })
  const receiver = openReceiver({ scheduler: world, random: random(3), faultRate: schedule.receiverFaultRate })
  const events: NodeEvent[] = []
  const records: CallRecord[] = []
  const faults: string[] = []
  const trace: string[] = []
  const snapshots: GatewaySnapshot[] = []
  let node: InlineNode | null = null

  const agents = openAgents({
    scheduler: world,
    random: random(4),
    boundaryAt(port) {
      const gateway = setup.gateways.find((own) => own.port === port)?.gateway
      return gateway === undefined ? undefined : node?.gateways.get(gateway)?.boundary
    },
    ...schedule.agents,
  })
  const runtime = openSimulatedRuntime({ scheduler: world, random: random(5), faults: schedule.runtime, runAgent: agents.run })

  node = await openInlineNode(setup, {
    scheduler,
    random: world.random,
    runtimes: new Map([[runtime.backend, runtime]]),
    readTail: async () => ({ text: '', truncated: false }),
    cpu: openInlineCpu(),
    transport: receiver.transport,
    publish: (event) => events.push(event),
    log(event, detail) {
      if (!FORESEEN.has(event)) faults.push(`${event} ${JSON.stringify(detail)}`)
    },
    gateway: () => ({ cpu: openInlineCpu(), transport: engine.transport, listens: false }),
  })
  const opened = node
  const feed = openFeedReader(opened.kernel, opened.ledger)
  const watched = new Set<Kernel>()
  function watchKernels(): void {
    for (const kernel of opened.kernels) {
      if (watched.has(kernel)) continue
      watched.add(kernel)
      kernel.onExit((exit) => {
        if (exit.reason === 'crashed') faults.push(`${exit.name} crashed: ${exit.error?.stack}`)
      })
      kernel.inspect((delivery) => observe(delivery))
    }
  }
  watchKernels()

  function observe({ thread, actor, lane, message }: Delivery): void {
    const known = message as LedgerCommand
    trace.push(`${world.clock.nowMs()} ${thread} ${actor} ${lane} ${known.type}`)
    if (known.type === 'record-call') records.push(known.call)
  }

  /** A trainer that hears nothing asks again. */
  const ask = async <R>(make: Parameters<typeof opened.kernel.ask<RolloutServerCommand, R>>[1]): Promise<R> => {
    for (;;) {
      const answer = await opened.kernel.ask<RolloutServerCommand, R>(opened.rolloutServer, make, ASK_MS)
      if (answer.ok) return answer.value
      if (answer.error !== 'deadline') throw new Error(`the rollout server gave ${answer.error}`)
    }
  }
  const readTask = (task: TaskId): Promise<TaskView | null> => ask((reply) => ({ type: 'read-task', task, ask: reply }))

  async function train({ request, submitAtMs, isRepeated, cancelAtMs }: TaskPlan): Promise<TaskId | null> {
    const task = taskId(request.task_id)
    const submit = async (): Promise<SubmitReply> => {
      for (;;) {
        const reply = await ask<SubmitReply>((reply) => ({ type: 'submit', request, ask: reply }))
        if (reply.type !== 'not-recorded') return reply
        await sleep(world, 1_000)
      }
    }
    const cancel = async (): Promise<void> => {
      if (cancelAtMs === null) return
      await sleep(world, cancelAtMs)
      await ask((reply) => ({ type: 'cancel', task, registerIfMissing: false, ask: reply }))
    }
    const submitAll = async (): Promise<TaskId | null> => {
      await sleep(world, submitAtMs)
      const replies = await Promise.all(isRepeated ? [submit(), submit()] : [submit()])
      return replies.every(({ type }) => type === 'submitted' || type === 'known') ? task : null
    }
    const [accepted] = await Promise.all([submitAll(), cancel()])
    return accepted
  }

  async function die(): Promise<void> {
    for (const { gateway, atMs } of schedule.deaths.toSorted((a, b) => a.atMs - b.atMs)) {
      await sleep(world, atMs - world.clock.nowMs())
      const victim = setup.gateways[gateway]
      if (victim === undefined) continue
      await opened.inject(victim.gateway, 'exit')
      watchKernels()
    }
  }

  async function look(): Promise<void> {
    const seen = await Promise.all(setup.gateways.map(({ gateway }) => opened.readGateway(gateway)))
    snapshots.push(...seen.filter((snapshot) => snapshot !== null))
    await feed.read()
  }

  async function day(): Promise<Omit<Day, 'actorsAfterClose'>> {
    const dying = die()
    const updating = updateWeights(schedule.pauses, { world, inference: opened.inference, engine, fault: (detail) => faults.push(detail) })
    const [trained] = await Promise.all([
      Promise.all(schedule.tasks.map(train)),
      ...schedule.captures.map((plan) => captureElsewhere(plan, { world, agents, ask, askGateway: opened.askGateway })),
    ])
    const accepted = trained.filter((task) => task !== null)
    const views = new Map<TaskId, TaskView>()
    const captures = new Map<SessionId, SessionView>()
    const readAll = async (): Promise<void> => {
      for (const task of accepted) {
        const view = await readTask(task)
        if (view !== null) views.set(task, view)
      }
      for (const { session } of schedule.captures) {
        const view = await ask<SessionView | null>((reply) => ({ type: 'read-session', session, ask: reply }))
        if (view !== null) captures.set(session, view)
      }
    }
    while (world.clock.nowMs() < LONGEST_DAY_MS) {
      await look()
      await readAll()
      if ([...views.values()].every(isSettled) && [...captures.values()].every(({ summary }) => summary !== null)) break
      await sleep(world, LOOK_EVERY_MS)
    }
    await dying
    const pauses = await updating
    // What is read from here on is to be read, not searched for.
    world.calm()
    await look()
    await readAll()
    const results = new Map<SessionId, StoredSession>()
    for (const { session } of [...[...views.values()].flatMap((view) => view.sessions), ...captures.values()]) {
      const stored = await opened.kernel.ask<LedgerCommand, StoredResult>(
        opened.ledger,
        (reply) => ({ type: 'read-result', session, ask: reply }),
        ASK_MS,
      )
      if (stored.ok && stored.value.type === 'result') {
        results.set(session, { attempt: stored.value.attempt, result: unpackSession(stored.value.payload) })
      }
    }
    const { isDrained } = await opened.drain()
    // Whatever still waits for a client that may come back, or for a replica that was out.
    await sleep(world, 120_000)
    const gateways = await Promise.all(setup.gateways.map(({ gateway }) => opened.readGateway(gateway)))
    return {
      schedule,
      accepted,
      views,
      captures,
      results,
      events,
      records,
      arrivals: receiver.arrivals,
      feed: feed.entries,
      model,
      engine,
      pauses,
      agents,
      snapshots,
      peaks: new Map(setup.gateways.map(({ gateway }) => [gateway, runtime.peaks(gateway)])),
      rest: {
        gateways,
        kernels: opened.kernels.map((kernel) => kernel.stats()),
        timers: scheduler.pendingTimers(),
        sandboxes: runtime.liveSandboxes(),
        processes: runtime.liveProcesses(),
        isDrained,
        calls: await Promise.all([...opened.gateways.values()].map(({ boundary }) => heldPlaces(boundary))),
      },
      faults,
      trace,
    }
  }

  const actors = (): number => opened.kernels.reduce((sum, kernel) => sum + kernel.stats().actors, 0)
  return {
    async toItsEnd(): Promise<Day> {
      const lived = await within(world, day)
      await within(world, () => opened.close())
      return { ...lived, actorsAfterClose: actors() }
    },
    async upTo(atMs: number): Promise<Ruins> {
      // The trainer goes with the node: what it still asks is answered `stopped`.
      void day().catch(() => {})
      await within(world, async () => {
        await sleep(world, atMs)
        await opened.close()
      })
      // Time for everything that might have been left to show itself.
      await world.run()
      return {
        sandboxes: runtime.liveSandboxes(),
        processes: runtime.liveProcesses(),
        timers: scheduler.pendingTimers(),
        actors: actors(),
        faults,
      }
    },
  }
}

async function heldPlaces(boundary: Boundary): Promise<number> {
  const sink = openFakeSink()
  await boundary.handle({ method: 'GET', url: '/health', headers: {}, body: async () => ({ ok: true, bytes: new Uint8Array() }) }, sink)
  return JSON.parse(sink.text()).calls
}

function isSettled({ status, delivery }: TaskView): boolean {
  return status !== 'running' && status !== 'cancelling' && delivery !== 'pending'
}

/** Turns the world until `work` is done. */
async function within<T>(world: World, work: () => Promise<T>): Promise<T> {
  let isSettled = false
  const result = work().finally(() => {
    isSettled = true
  })
  // Its rejection is handed on below; until then it is no unhandled one.
  result.catch(() => {})
  await world.run(() => isSettled)
  if (!isSettled) throw new Error('nothing is left to happen and the day has not ended')
  return result
}

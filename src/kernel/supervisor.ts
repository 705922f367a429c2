// Keeps one thread or child process alive: sees its exit, says who was lost, starts the next incarnation within a budget.
import type { ThreadId } from './address.ts'
import type { Scheduler, Timer } from './clock.ts'
import type { DrainReport } from './drain.ts'
import type { Lifecycle } from './lifecycle.ts'
import { openRestartBudget, type RestartLimit } from './restart-budget.ts'
import { openThread, type Thread, type ThreadExit, type ThreadSpec } from './thread.ts'
import type { AdminAnswer } from './thread-admin.ts'

/** One incarnation of what is kept alive. */
type Member = {
  readonly exited: Promise<ThreadExit>
  stats(): Promise<AdminAnswer<unknown>>
  drain(): Promise<AdminAnswer<DrainReport>>
  stop(): Promise<AdminAnswer<void>>
  terminate(): Promise<void>
}

type SupervisorOptions<M extends Member> = {
  readonly id: ThreadId
  readonly scheduler: Scheduler
  open(incarnation: number): M
  /** Joins a new incarnation to its peers and boots it. A throw ends that incarnation; in the first one it is final, later it costs a restart. */
  start(member: M): Promise<void>
  onLost?(exit: ThreadExit): void
  onPhase?(phase: Lifecycle): void
  readonly restarts?: RestartLimit
  /** One that leaves `stats` unanswered is hung and is killed. Absent: nobody looks. */
  readonly watch?: { readonly everyMs: number }
}

export type Supervisor<M extends Member> = {
  readonly id: ThreadId
  readonly phase: Lifecycle
  /** The incarnation that lives or is being started. */
  readonly member: M
  /** Settles when it first runs, or will not: true for `running`. */
  readonly started: Promise<boolean>
  /** Drains, closes the ports, terminates, in this order. Idempotent; tells what the drain said, or why there was none. */
  close(): Promise<AdminAnswer<DrainReport>>
  /** As `close`, without waiting for what it has begun. */
  abandon(): Promise<void>
}

const RESTARTS: RestartLimit = { max: 5, withinMs: 60_000 }

export function superviseThread<Boot, Ready>({
  spec,
  ...options
}: Omit<SupervisorOptions<Thread<Boot, Ready>>, 'id' | 'open'> & { readonly spec: ThreadSpec }): Supervisor<Thread<Boot, Ready>> {
  return supervise({ ...options, id: spec.id, open: (incarnation) => openThread(spec, incarnation, options.scheduler) })
}

export function supervise<M extends Member>(options: SupervisorOptions<M>): Supervisor<M> {
  const { scheduler } = options
  const budget = openRestartBudget(options.restarts ?? RESTARTS)
  let phase: Lifecycle = 'starting'
  let watchTimer: Timer | null = null
  let closed: Promise<AdminAnswer<DrainReport>> | null = null
  /** What never ran is not tried again: what keeps it from starting is its owner's to mend. */
  let hasRun = false
  let settleStarted: (isRunning: boolean) => void = () => {}
  const started = new Promise<boolean>((resolve) => {
    settleStarted = resolve
  })
  let member = begin(1)

  function enter(next: Lifecycle): void {
    phase = next
    options.onPhase?.(next)
    if (next === 'running' || next === 'failed' || next === 'stopped') settleStarted(next === 'running')
  }

  function begin(incarnation: number): M {
    const begun = options.open(incarnation)
    void begun.exited.then(onExit)
    startOf(begun).then(
      () => {
        if (begun !== member || phase !== 'starting') return
        hasRun = true
        enter('running')
        watch(begun)
      },
      () => void begun.terminate(),
    )
    return begun
  }

  async function startOf(begun: M): Promise<void> {
    return options.start(begun)
  }

  function onExit(exit: ThreadExit): void {
    watchTimer?.cancel()
    if (closed !== null) return
    options.onLost?.(exit)
    if (!hasRun || !budget.spend(scheduler.clock.nowMs())) {
      enter('failed')
      return
    }
    enter('starting')
    member = begin(exit.incarnation + 1)
  }

  function watch(watched: M): void {
    if (options.watch === undefined) return
    watchTimer = scheduler.after(options.watch.everyMs, () => {
      void watched.stats().then((answer) => {
        if (closed !== null || watched !== member) return
        if (answer.ok) watch(watched)
        else void watched.terminate()
      })
    })
  }

  async function shutDown(drain: () => Promise<AdminAnswer<DrainReport>>): Promise<AdminAnswer<DrainReport>> {
    watchTimer?.cancel()
    const hasFailed = phase === 'failed'
    if (!hasFailed) enter('draining')
    const drained = await drain()
    if (drained.ok && drained.value.isDrained) enter('drained')
    await member.stop()
    await member.terminate()
    if (!hasFailed) enter('stopped')
    return drained
  }

  return {
    id: options.id,
    get phase() {
      return phase
    },
    get member() {
      return member
    },
    started,
    close() {
      closed ??= shutDown(() => member.drain())
      return closed
    },
    async abandon() {
      closed ??= shutDown(async () => ({ ok: false, error: 'failed', message: 'abandoned: nothing was drained' }))
      await closed
    },
  }
}

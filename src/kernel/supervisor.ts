// Keeps one thread alive: sees its exit, says who was lost, starts the next incarnation within a budget.
import type { ThreadId } from './address.ts'
import type { Scheduler, Timer } from './clock.ts'
import type { DrainReport } from './drain.ts'
import type { Lifecycle } from './lifecycle.ts'
import { openRestartBudget, type RestartLimit } from './restart-budget.ts'
import { openThread, type Thread, type ThreadExit, type ThreadSpec } from './thread.ts'
import type { AdminAnswer } from './thread-admin.ts'

export type SupervisorOptions<Boot, Ready> = {
  readonly spec: ThreadSpec
  readonly scheduler: Scheduler
  /** Joins a new incarnation to its peers and boots it. A throw ends that incarnation; in the first one it is final, later it costs a restart. */
  start(thread: Thread<Boot, Ready>): Promise<void>
  /** Called before the next incarnation is started, and also when there will be none. */
  onLost?(exit: ThreadExit): void
  onPhase?(phase: Lifecycle): void
  readonly restarts?: RestartLimit
  /** A thread that leaves `stats` unanswered is hung and is killed. Absent: nobody looks. */
  readonly watch?: { readonly everyMs: number }
}

export type Supervisor<Boot, Ready> = {
  readonly id: ThreadId
  readonly phase: Lifecycle
  /** The incarnation that lives or is being started. */
  readonly thread: Thread<Boot, Ready>
  /** Settles when the thread first runs, or will not: true for `running`. */
  readonly started: Promise<boolean>
  /** Drains, closes the ports, terminates, in this order. Idempotent; tells what the drain said, or why there was none. */
  close(): Promise<AdminAnswer<DrainReport>>
  /** As `close`, without waiting for what the thread has begun. */
  abandon(): Promise<void>
}

const RESTARTS: RestartLimit = { max: 5, withinMs: 60_000 }

export function superviseThread<Boot, Ready>(options: SupervisorOptions<Boot, Ready>): Supervisor<Boot, Ready> {
  const { spec, scheduler } = options
  const budget = openRestartBudget(options.restarts ?? RESTARTS)
  let phase: Lifecycle = 'starting'
  let watchTimer: Timer | null = null
  let closed: Promise<AdminAnswer<DrainReport>> | null = null
  /** A thread that never ran is not tried again: what keeps it from starting is its owner's to mend. */
  let hasRun = false
  let settleStarted: (isRunning: boolean) => void = () => {}
  const started = new Promise<boolean>((resolve) => {
    settleStarted = resolve
  })
  let thread = begin(1)

  function enter(next: Lifecycle): void {
    phase = next
    options.onPhase?.(next)
    if (next === 'running' || next === 'failed' || next === 'stopped') settleStarted(next === 'running')
  }

  function begin(incarnation: number): Thread<Boot, Ready> {
    const begun = openThread<Boot, Ready>(spec, incarnation, scheduler)
    void begun.exited.then(onExit)
    startOf(begun).then(
      () => {
        if (begun !== thread || phase !== 'starting') return
        hasRun = true
        enter('running')
        watch(begun)
      },
      () => void begun.terminate(),
    )
    return begun
  }

  async function startOf(begun: Thread<Boot, Ready>): Promise<void> {
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
    thread = begin(exit.incarnation + 1)
  }

  function watch(watched: Thread<Boot, Ready>): void {
    if (options.watch === undefined) return
    watchTimer = scheduler.after(options.watch.everyMs, () => {
      void watched.stats().then((answer) => {
        if (closed !== null || watched !== thread) return
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
    await thread.stop()
    await thread.terminate()
    if (!hasFailed) enter('stopped')
    return drained
  }

  return {
    id: spec.id,
    get phase() {
      return phase
    },
    get thread() {
      return thread
    },
    started,
    close() {
      closed ??= shutDown(() => thread.drain())
      return closed
    },
    async abandon() {
      closed ??= shutDown(async () => ({ ok: false, error: 'failed', message: 'abandoned: nothing was drained' }))
      await closed
    },
  }
}

// The embedded engine as the node holds it: a process that, when it dies, is started again on the same port, within a budget.
import { threadId } from '../kernel/address.ts'
import { type Child, openChild } from '../kernel/child.ts'
import type { Scheduler } from '../kernel/clock.ts'
import type { RestartLimit } from '../kernel/restart-budget.ts'
import { supervise } from '../kernel/supervisor.ts'
import { moduleBeside } from '../kernel/thread.ts'

/** Plain data: it crosses to the engine's process when that boots. */
export type EngineSetup = {
  readonly modelPath: string
  /** Null: the name of the file. */
  readonly servedAs: string | null
  readonly sequences: number
  readonly threads: number
  /** Null: as long as the model was trained for. */
  readonly maxModelLen: number | null
}

/** `port` 0 takes a free one. `seed`: another for each incarnation, whose ids and draws would else be those of the one before again. */
export type EngineBoot = { readonly setup: EngineSetup; readonly port: number; readonly seed: number }

export type EngineReady = { readonly url: string; readonly port: number; readonly model: string; readonly parameters: number }

export type EngineProcess = {
  readonly url: string
  /** The name it is served under. */
  readonly model: string
  readonly parameters: number
  /** Resolves with the reason when it died more often than it is started again. */
  readonly failed: Promise<string>
  /** Ends what it still generates. Rejects when that does not end; one that is dead generates nothing. */
  drain(): Promise<void>
  /** Idempotent. */
  close(): Promise<void>
  /** Brings about a fault in its process; for tests. */
  inject(fault: string): Promise<void>
}

export type EngineOptions = {
  readonly scheduler: Scheduler
  readonly log: (event: string, detail: Readonly<Record<string, unknown>>) => void
  readonly restarts?: RestartLimit
}

export type EngineResult = { readonly ok: true; readonly engine: EngineProcess } | { readonly ok: false; readonly error: string }

const ENGINE = threadId('engine')
/** Weights of a few gigabytes are read from a disk. */
const BOOT_DEADLINE_MS = 600_000
const DRAIN_DEADLINE_MS = 35_000
const WATCH_EVERY_MS = 5_000
/** Generations run beside its event loop, which has little else to do than to answer. */
const HUNG_AFTER_MS = 15_000

export async function openEngine(setup: EngineSetup, { scheduler, log, restarts }: EngineOptions): Promise<EngineResult> {
  const failure = Promise.withResolvers<string>()
  let ready: EngineReady | null = null
  let isBooted = false
  let problem = 'its process did not start'
  const supervisor = supervise<Child<EngineBoot, EngineReady>>({
    id: ENGINE,
    scheduler,
    open: (incarnation) =>
      openChild(
        {
          id: ENGINE,
          url: moduleBeside('./engine-child', import.meta.url),
          deadlinesMs: { boot: BOOT_DEADLINE_MS, drain: DRAIN_DEADLINE_MS, stats: HUNG_AFTER_MS },
        },
        incarnation,
        scheduler,
      ),
    async start(child) {
      const booted = await child.boot({ setup, port: ready?.port ?? 0, seed: child.incarnation - 1 })
      if (!booted.ok) {
        problem = booted.message
        throw new Error(problem)
      }
      if (ready !== null) log('engine-back', { url: ready.url })
      ready = booted.value
      isBooted = true
    },
    onLost({ code, error }) {
      // One that did not boot was ended for what it said then.
      if (isBooted) problem = error?.message ?? `exit code ${code}`
      isBooted = false
      if (ready !== null) log('engine-lost', { error: problem })
    },
    onPhase(phase) {
      if (phase === 'failed') failure.resolve(`the embedded engine is lost: it died too often, at last with: ${problem}`)
    },
    watch: { everyMs: WATCH_EVERY_MS },
    ...(restarts === undefined ? {} : { restarts }),
  })
  const isRunning = await supervisor.started
  const first = isRunning ? ready : null
  if (first === null) {
    await supervisor.abandon()
    return { ok: false, error: problem }
  }
  const { url, model, parameters }: EngineReady = first
  return {
    ok: true,
    engine: {
      url,
      model,
      parameters,
      failed: failure.promise,
      async drain() {
        const answer = await supervisor.member.drain()
        if (!answer.ok && answer.error !== 'exited') throw new Error(answer.message)
        const behind = answer.ok ? answer.value.steps.find((step) => !step.ok) : undefined
        if (behind !== undefined) throw new Error(behind.error ?? 'not drained')
      },
      close: () => supervisor.abandon(),
      async inject(fault) {
        await supervisor.member.inject(fault)
      },
    },
  }
}

// A drain as numbered steps, so that "drained" can be proved and "stuck" can be named.
import type { Scheduler } from './clock.ts'

export type DrainStep = {
  readonly name: string
  readonly deadlineMs: number
  run(): Promise<void>
}

type DrainStepReport = {
  readonly step: number
  readonly name: string
  readonly ok: boolean
  readonly ms: number
  /** Why it is not ok. */
  readonly error: string | null
}

export type DrainReport = {
  /** Every step ended in time and without an error. */
  readonly isDrained: boolean
  readonly steps: readonly DrainStepReport[]
}

export type Drain = {
  readonly phase: 'running' | 'draining' | 'drained' | 'failed'
  /** Runs the steps in order, each to its end or its deadline; a failed step does not keep the later ones from running. Idempotent. */
  run(): Promise<DrainReport>
}

export function openDrain(scheduler: Scheduler, steps: readonly DrainStep[]): Drain {
  let phase: Drain['phase'] = 'running'
  let report: Promise<DrainReport> | null = null

  async function runAll(): Promise<DrainReport> {
    phase = 'draining'
    const reports: DrainStepReport[] = []
    for (const [index, step] of steps.entries()) {
      const startedMs = scheduler.clock.nowMs()
      const error = await errorOf(scheduler, step)
      reports.push({ step: index + 1, name: step.name, ok: error === null, ms: scheduler.clock.nowMs() - startedMs, error })
    }
    const isDrained = reports.every((done) => done.ok)
    phase = isDrained ? 'drained' : 'failed'
    return { isDrained, steps: reports }
  }

  return {
    get phase() {
      return phase
    },
    run() {
      report ??= runAll()
      return report
    },
  }
}

function errorOf(scheduler: Scheduler, step: DrainStep): Promise<string | null> {
  return new Promise((resolve) => {
    const timer = scheduler.after(step.deadlineMs, () => resolve(`not done after ${step.deadlineMs} ms`))
    const settle = (error: string | null): void => {
      timer.cancel()
      resolve(error)
    }
    startOf(step).then(
      () => settle(null),
      (error: unknown) => settle(error instanceof Error ? error.message : String(error)),
    )
  })
}

async function startOf(step: DrainStep): Promise<void> {
  return step.run()
}

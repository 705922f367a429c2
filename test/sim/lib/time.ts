// Waiting in virtual time, and counting who still waits.
import type { Scheduler, Timer } from '../../../src/kernel/clock.ts'

/** Resolves after `delayMs`, or at once when `signal` is aborted. */
export function sleep(scheduler: Scheduler, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = scheduler.after(delayMs, done)
    signal?.addEventListener('abort', done, { once: true })
    function done(): void {
      timer.cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
  })
}

export type CountedScheduler = Scheduler & {
  /** Timers that are set and have neither fired nor been cancelled. */
  pendingTimers(): number
}

export function countTimers(inner: Scheduler): CountedScheduler {
  const pending = new Set<Timer>()
  return {
    clock: inner.clock,
    defer: (turn) => inner.defer(turn),
    after(delayMs, turn) {
      const timer = inner.after(delayMs, () => {
        pending.delete(timer)
        turn()
      })
      pending.add(timer)
      return {
        cancel() {
          pending.delete(timer)
          timer.cancel()
        },
      }
    },
    pendingTimers: () => pending.size,
  }
}

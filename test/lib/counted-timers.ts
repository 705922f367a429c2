// A scheduler that knows how many of its timers are still to come: whoever sets one gives it back.
import type { Scheduler } from '../../src/kernel/clock.ts'

export function countTimers(scheduler: Scheduler): Scheduler & { timers(): number } {
  const pending = new Set<object>()
  return {
    clock: scheduler.clock,
    defer: (turn) => scheduler.defer(turn),
    after(delayMs, turn) {
      const mark = {}
      pending.add(mark)
      const timer = scheduler.after(delayMs, () => {
        pending.delete(mark)
        turn()
      })
      return {
        cancel() {
          pending.delete(mark)
          timer.cancel()
        },
      }
    },
    timers: () => pending.size,
  }
}

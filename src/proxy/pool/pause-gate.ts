// The pause of a gateway's calls: which may go on, which are held, and who waits until none is in flight.
import type { Scheduler } from '../../kernel/clock.ts'
import type { PauseOutcome } from '../boundary.ts'
import { openWaiters } from './waiters.ts'

export type PauseGate = {
  isPaused(): boolean
  /** How often calls were held so far: who finds another number than before knows that they were in between. */
  pauses(): number
  inFlight(): number
  /** A monotonic clock that stands still while calls are held: for budgets of those who cannot help a pause. */
  unpausedMs(): number
  /** Resolves when calls may go on, or when the signal says that this one need not. Never rejects. */
  pass(signal: AbortSignal): Promise<void>
  /** A call is in flight, which none may become while they are held. */
  enter(): void
  leave(): void
  /**
   * Holds calls at once; resolves when none is in flight. Who waits in vain takes the pause back, unless somebody else waits still or
   * was answered `paused`: one resume ends all pauses, and one that times out ends no other.
   */
  pause(timeoutMs: number): Promise<PauseOutcome>
  resume(): void
}

export function openPauseGate(scheduler: Scheduler, startsPaused: boolean, onChange: (isPaused: boolean) => void): PauseGate {
  let isPaused = startsPaused
  let pauses = startsPaused ? 1 : 0
  /** In pauses that are over, and when the one that lasts began. */
  let heldMs = 0
  let heldSinceMs = scheduler.clock.nowMs()
  let inFlight = 0
  const held = openWaiters()
  const drains = new Set<(outcome: PauseOutcome) => void>()

  function shut(): void {
    if (isPaused) return
    isPaused = true
    pauses += 1
    heldSinceMs = scheduler.clock.nowMs()
    onChange(true)
  }

  function open(): void {
    if (!isPaused) return
    isPaused = false
    heldMs += scheduler.clock.nowMs() - heldSinceMs
    onChange(false)
    held.wakeAll()
  }

  function endDrains(outcome: PauseOutcome): void {
    for (const end of [...drains]) end(outcome)
  }

  return {
    isPaused: () => isPaused,
    pauses: () => pauses,
    inFlight: () => inFlight,
    unpausedMs: () => (isPaused ? heldSinceMs : scheduler.clock.nowMs()) - heldMs,
    pass: (signal) => (isPaused ? held.wait(signal) : Promise.resolve()),
    enter() {
      inFlight += 1
    },
    leave() {
      inFlight -= 1
      if (inFlight === 0) endDrains('paused')
    },
    pause(timeoutMs) {
      shut()
      if (inFlight === 0) return Promise.resolve('paused')
      return new Promise((resolve) => {
        const end = (outcome: PauseOutcome): void => {
          timer.cancel()
          drains.delete(end)
          resolve(outcome)
        }
        const timer = scheduler.after(timeoutMs, () => {
          end('timed-out')
          if (drains.size === 0) open()
        })
        drains.add(end)
      })
    },
    resume() {
      open()
      endDrains('resumed')
    },
  }
}

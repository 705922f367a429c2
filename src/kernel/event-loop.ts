// Time, turns and chance of the real world: Node's event loop and the system's entropy.
import { randomBytes, randomUUID } from 'node:crypto'
import type { Random, Scheduler } from './clock.ts'

/** Node fires a longer timeout at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1
/** A longer timer is a budget, not something a caller waits for: it must not hold open a process whose work is over. */
const HOLDS_PROCESS_MS = 60_000

export function openEventLoop(): Scheduler {
  const nowMs = () => performance.now()
  return {
    clock: { nowMs, wallMs: () => Date.now() },
    defer(turn) {
      setImmediate(turn)
    },
    after(delayMs, turn) {
      if (Number.isNaN(delayMs)) throw new RangeError('a timer needs a number of milliseconds')
      const dueMs = nowMs() + delayMs
      let timeout = arm()
      return { cancel: () => clearTimeout(timeout) }

      function arm(): NodeJS.Timeout {
        const leftMs = Math.max(0, Math.ceil(dueMs - nowMs()))
        const armed = setTimeout(fire, Math.min(leftMs, LONGEST_TIMEOUT_MS))
        return leftMs > HOLDS_PROCESS_MS ? armed.unref() : armed
      }
      // Node's timeouts may come up to a millisecond early by the monotonic clock, and the longest ones in several legs.
      function fire(): void {
        if (nowMs() < dueMs) timeout = arm()
        else turn()
      }
    },
  }
}

export function cryptoRandom(): Random {
  return {
    next: () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48,
    hex: (bytes) => randomBytes(bytes).toString('hex'),
    uuid: () => randomUUID(),
  }
}

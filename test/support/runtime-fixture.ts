// What tests of runtimes, harnesses and evaluators share: a real clock, counted ids, and unwrapping.
import type { Clock, Random } from '../../src/kernel/clock.ts'
import type { Fallible } from '../../src/runtime/runtime.ts'

export const realClock: Clock = { nowMs: () => performance.now(), wallMs: () => Date.now() }

/** Every id differs and every run gives the same ids. */
export function seededRandom(): Random {
  let count = 0
  return {
    next: () => 0.5,
    hex: (bytes) => {
      count += 1
      return count.toString(16).padStart(bytes * 2, '0')
    },
    uuid: () => {
      count += 1
      return `00000000-0000-4000-8000-${count.toString(16).padStart(12, '0')}`
    },
  }
}

export function unwrap<T>(result: Fallible<T>): T {
  if (result.ok) return result.value
  throw new Error(`${result.error.code}: ${result.error.detail}`)
}

// What tests of runtimes, harnesses and evaluators share: a real clock, counted ids, and unwrapping.
import type { Clock, Random } from '../../src/kernel/clock.ts'
import type { Fallible } from '../../src/runtime/runtime.ts'

export const realClock: Clock = { nowMs: () => performance.now(), wallMs: () => Date.now() }

/** Every id differs, also from those of test processes beside this one: a sandbox's processes are found, and ended, by its id. */
export function countedRandom(): Random {
  let count = 0
  const digits = (length: number): string => {
    count += 1
    const own = process.pid.toString(16)
    return own + count.toString(16).padStart(length - own.length, '0')
  }
  return { next: () => 0.5, hex: (bytes) => digits(bytes * 2), uuid: () => `00000000-0000-4000-8000-${digits(12)}` }
}

export function unwrap<T>(result: Fallible<T>): T {
  if (result.ok) return result.value
  throw new Error(`${result.error.code}: ${result.error.detail}`)
}

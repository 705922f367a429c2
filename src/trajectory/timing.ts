// The timing keys that a Polar peer knows, told apart from ours: it rejects a whole result for one key it does not.
import { sessionTiming } from '../contract/wire/timing.ts'

const KNOWN: ReadonlySet<string> = new Set(Object.keys(sessionTiming.shape))

/** Splits timings into those for the wire and those that only our own readers know. */
export function splitTiming(timing: Readonly<Record<string, number>>) {
  const entries = Object.entries(timing).filter(([, value]) => Number.isFinite(value))
  return {
    polar: Object.fromEntries(entries.filter(([key]) => KNOWN.has(key))),
    own: Object.fromEntries(entries.filter(([key]) => !KNOWN.has(key))),
  }
}

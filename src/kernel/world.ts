// A whole node on one thread in virtual time: turns in a seeded order, timers by jumping the clock.
import type { Clock, Random, Scheduler, Timer } from './clock.ts'

export type WorldOptions = {
  readonly seed: number
  /** How many turns are picked at random before the rest runs in order. An endless adversary would starve a consumer and prove nothing. */
  readonly choices?: number
  /** Chance, per random pick, that the next timer fires although turns are waiting: a slow machine. */
  readonly impatience?: number
  /** More turns than this in one `run` is a livelock and throws. */
  readonly maxTurns?: number
}

export type World = Scheduler & {
  readonly seed: number
  /** A stream of its own: what actors draw does not change which turn runs next. */
  readonly random: Random
  /** Runs until `until` holds or nothing is left to do; true when `until` holds (or was not given). Promise chains settle between turns. */
  run(until?: () => boolean): Promise<boolean>
  /** From now on turns run in order and no timer fires early. */
  calm(): void
  /** Runs everything that is due within `ms` of virtual time, and moves the clock there. */
  advance(ms: number): Promise<void>
}

type Alarm = { readonly dueMs: number; readonly turn: () => void }

/** The wall clock of every World starts here: 2026-01-01T00:00:00Z. */
const WORLD_EPOCH_MS = 1_767_225_600_000

export function openWorld(options: WorldOptions): World {
  const { seed, impatience = 0, maxTurns = 1_000_000 } = options
  const picker = seededRandom(seed)
  const turns: (() => void)[] = []
  const alarms: Alarm[] = []
  let choices = options.choices ?? 200
  let nowMs = 0
  const clock: Clock = { nowMs: () => nowMs, wallMs: () => WORLD_EPOCH_MS + Math.floor(nowMs) }

  function after(delayMs: number, turn: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new RangeError('a timer needs a number of milliseconds')
    const alarm: Alarm = { dueMs: nowMs + Math.max(0, delayMs), turn }
    // After every alarm that is due no later: equal times keep the order in which they were set.
    const index = alarms.findLastIndex((other) => other.dueMs <= alarm.dueMs)
    alarms.splice(index + 1, 0, alarm)
    return {
      cancel() {
        const at = alarms.indexOf(alarm)
        if (at >= 0) alarms.splice(at, 1)
      },
    }
  }

  /** Moves the clock to the next alarm and fires it; false when none is due by `limitMs`. */
  function jump(limitMs: number): boolean {
    const next = alarms[0]
    if (next === undefined || next.dueMs > limitMs) return false
    alarms.shift()
    nowMs = Math.max(nowMs, next.dueMs)
    next.turn()
    return true
  }

  function runTurn(limitMs: number): boolean {
    if (choices > 0 && turns.length > 0) {
      choices--
      if (impatience > 0 && picker.next() < impatience && jump(limitMs)) return true
      const [picked] = turns.splice(Math.floor(picker.next() * turns.length), 1)
      picked?.()
      return true
    }
    const first = turns.shift()
    if (first === undefined) return jump(limitMs)
    first()
    return true
  }

  async function runUntil(until: () => boolean, limitMs: number): Promise<boolean> {
    for (let count = 0; count < maxTurns; count++) {
      if (until()) return true
      // A real turn of the event loop: every promise chain has settled before the next choice, so the choice depends on the seed alone.
      await new Promise((resolve) => setImmediate(resolve))
      if (until()) return true
      if (!runTurn(limitMs)) return false
    }
    throw new Error(`the world of seed ${seed} is still busy after ${maxTurns} turns`)
  }

  return {
    seed,
    random: seededRandom(seed ^ 0x9e3779b9),
    clock,
    defer(turn) {
      turns.push(turn)
    },
    after,
    calm() {
      choices = 0
    },
    async run(until) {
      if (until !== undefined) return runUntil(until, Number.POSITIVE_INFINITY)
      await runUntil(() => false, Number.POSITIVE_INFINITY)
      return true
    },
    async advance(ms) {
      const limitMs = nowMs + ms
      await runUntil(() => false, limitMs)
      nowMs = limitMs
    },
  }
}

/** The same seed gives the same stream (sfc32). Not for secrets. */
export function seededRandom(seed: number): Random {
  let a = seed | 0
  let b = 0x9e3779b9 | 0
  let c = 0x243f6a88 | 0
  let counter = 1
  function word(): number {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    c |= 0
    return sum >>> 0
  }
  for (let warmUp = 0; warmUp < 12; warmUp++) word()
  const hex = (bytes: number): string => {
    let text = ''
    while (text.length < bytes * 2) text += word().toString(16).padStart(8, '0')
    return text.slice(0, bytes * 2)
  }
  return {
    next: () => word() / 2 ** 32,
    hex,
    uuid() {
      const text = hex(16)
      const variant = ((Number.parseInt(text.charAt(16), 16) & 3) | 8).toString(16)
      return `${text.slice(0, 8)}-${text.slice(8, 12)}-4${text.slice(13, 16)}-${variant}${text.slice(17, 20)}-${text.slice(20)}`
    },
  }
}

// Time and chance as every actor sees them: injected, so that a test can own both.

export type Timer = { cancel(): void }

export type Clock = {
  /** Monotonic milliseconds: for deadlines and budgets. */
  nowMs(): number
  /** Wall clock milliseconds since 1970: for stamps only. */
  wallMs(): number
}

export type Random = {
  /** In [0, 1). */
  next(): number
  /** Lower-case hexadecimal of `bytes` random bytes; cryptographically strong outside simulations. */
  hex(bytes: number): string
  uuid(): string
}

/** Runs turns and timers: the event loop in production, a seeded queue in a World. */
export type Scheduler = {
  readonly clock: Clock
  /** Runs `turn` soon, never synchronously. */
  defer(turn: () => void): void
  after(delayMs: number, turn: () => void): Timer
}

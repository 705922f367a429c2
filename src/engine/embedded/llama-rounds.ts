// Whose tokens go into each step of the transformer: all who wait share the next one, and what must be done alone comes between two.

type Waiter = {
  readonly signal: AbortSignal
  readonly tokens: number
  /** Starts the work with its share of the step; settles when it has, never rejects. */
  readonly start: (tokens: number) => Promise<void>
}

/**
 * Continuous batching: a step is shared by everybody who waits when the last one ends, whoever comes meanwhile has a part in the next. The
 * library's own queue would go on as long as anybody generates: what needs it to rest would never have its turn, and steps would start
 * with a part of those who are about to ask.
 */
export class Rounds {
  readonly #stepTokens: number
  readonly #sharing: Waiter[] = []
  readonly #alone: Waiter[] = []
  #isRunning = false

  /** `stepTokens`: how many tokens a step has room for. */
  constructor(stepTokens: number) {
    this.#stepTokens = stepTokens
  }

  /**
   * Does the work as a part of a step, with the share of `tokens` it may use, at least 1. Rejects with the signal's reason when it is
   * aborted before the work begins; work that has begun is waited for.
   */
  share<T>(tokens: number, work: (tokens: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#wait(this.#sharing, tokens, work, signal)
  }

  /** Does the work while no step goes on. */
  alone<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#wait(this.#alone, 0, work, signal)
  }

  #wait<T>(line: Waiter[], tokens: number, work: (tokens: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason)
        return
      }
      const leave = (): void => {
        const at = line.indexOf(waiter)
        if (at !== -1) line.splice(at, 1)
        reject(signal.reason)
      }
      const start = async (share: number): Promise<void> => {
        signal.removeEventListener('abort', leave)
        await work(share).then(resolve, reject)
      }
      const waiter: Waiter = { signal, tokens, start }
      signal.addEventListener('abort', leave, { once: true })
      line.push(waiter)
      if (this.#isRunning) return
      this.#isRunning = true
      void this.#run()
    })
  }

  async #run(): Promise<void> {
    for (;;) {
      // Those whose tokens the last step gave ask for the next ones before this turn of the event loop ends.
      await new Promise((resolve) => setImmediate(resolve))
      for (let waiter = this.#alone.shift(); waiter !== undefined; waiter = this.#alone.shift()) await waiter.start(0)
      const step = this.#sharing.splice(0)
      if (step.length === 0) {
        this.#isRunning = false
        return
      }
      const shares = shareOut(
        this.#stepTokens,
        step.map((waiter) => waiter.tokens),
      )
      await Promise.all(step.map((waiter, index) => waiter.start(shares[index] ?? 1)))
    }
  }
}

/** Everybody gets a token, and what is left goes in equal parts to those who asked for more. */
export function shareOut(room: number, wanted: readonly number[]): readonly number[] {
  const shares = wanted.map(() => 1)
  let left = room - wanted.length
  // From the smallest wish on: whom an equal part is too much leaves the rest of it to the others.
  const order = wanted.map((_, index) => index).sort((a, b) => (wanted[a] ?? 0) - (wanted[b] ?? 0))
  order.forEach((index, position) => {
    const part = Math.floor(left / (order.length - position))
    const more = Math.max(0, Math.min(part, (wanted[index] ?? 1) - 1))
    shares[index] = 1 + more
    left -= more
  })
  return shares
}

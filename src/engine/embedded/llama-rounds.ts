// Whose tokens go into each step of the transformer: all who draw share one step, and between two of them somebody reads or erases.

type Waiter = {
  /** Its place among those who share a step. */
  readonly index: number
  /** Settles when the work has, never rejects. */
  readonly start: () => Promise<void>
}

/**
 * Continuous batching: a step is shared by everybody who waits when the last one ends, whoever comes meanwhile has a part in the next.
 *
 * The library has a queue of its own, which is kept from ever holding more than one step, for two reasons. It goes on as long as anybody
 * generates, so that what needs it to rest would never have its turn. And it samples on several threads at once: where llama.cpp returns a
 * step's logits in another order than that of its tokens, it puts them right when they are first read, and two threads that read first
 * exchange the logits of two sequences. It keeps the order where all sequences have one token each and stand in the order of their
 * numbers, or where there is only one.
 */
export class Rounds {
  readonly #together: Waiter[] = []
  readonly #alone: Waiter[] = []
  #isRunning = false

  /**
   * Evaluates one token of the sequence `index` with those of all others who wait. Rejects with the signal's reason when it is aborted
   * before the work begins; work that has begun is waited for.
   */
  together<T>(index: number, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#wait(this.#together, index, work, signal)
  }

  /** Does the work while nobody else does any: a piece of a prompt is read, what a sequence holds is erased. One between two steps. */
  alone<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#wait(this.#alone, 0, work, signal)
  }

  #wait<T>(line: Waiter[], index: number, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
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
      const start = async (): Promise<void> => {
        signal.removeEventListener('abort', leave)
        await work().then(resolve, reject)
      }
      const waiter: Waiter = { index, start }
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
      const step = this.#together.splice(0).sort((a, b) => a.index - b.index)
      await Promise.all(step.map((waiter) => waiter.start()))
      const alone = this.#alone.shift()
      await alone?.start()
      if (step.length > 0 || alone !== undefined) continue
      this.#isRunning = false
      return
    }
  }
}

// The running batch: who generates, who waits for a place, whether the engine is paused, and how it is emptied for new weights.

/** What a pause does to running generations: end them with what they have, let them finish, or freeze them. */
export type PauseMode = 'abort' | 'wait' | 'keep'

/** A generation as the batch holds it. */
export type Held = {
  freeze(): void
  thaw(): void
  /** Ends it with what it has. */
  stop(): void
}

export type Seat = {
  /** Puts the generation under the batch's control: a pause may freeze or stop it. */
  attach(generation: Held): void
  leave(): void
}

export type Batch = {
  /** Waits while the engine is full or paused. Null when the signal was aborted or the batch closed first. */
  enter(signal: AbortSignal): Promise<Seat | 'full' | null>
  /** How many more may enter or wait. */
  room(): number
  /** Resolves when the pause holds: at once, or with 'wait' when the last running generation has left; also when another one or none takes its place. */
  pause(mode: PauseMode): Promise<void>
  resume(): void
  /** Ends all running generations with what they have; returns how many. */
  abortAll(): number
  /**
   * Lets nobody in and resolves when the last has left, with the function that opens the line again. A frozen generation
   * would never end, so it is ended. One at a time; a pause is another matter and outlives it.
   */
  empty(how: 'wait' | 'abort'): Promise<() => void>
  isPaused(): boolean
  counts(): { readonly running: number; readonly waiting: number }
  close(): void
}

type Waiter = { readonly admit: () => void; readonly turnAway: () => void }

export function openBatch(limits: { readonly running: number; readonly waiting: number }): Batch {
  const running = new Set<Seat>()
  const generations = new Map<Seat, Held>()
  const waiters = new Set<Waiter>()
  /** Who waits for the last running generation to leave: for the batch to be empty, and for a pause to hold. */
  const emptied = new Set<() => void>()
  const paused = new Set<() => void>()
  let held: PauseMode | null = null
  let emptying: 'wait' | 'abort' | null = null
  let isClosed = false

  /** A pause, or the wish for an empty batch, may come between a place and its generation. */
  const heed = (generation: Held) => {
    const isFrozenForGood = held === 'keep' && emptying !== null
    if (isClosed || held === 'abort' || emptying === 'abort' || isFrozenForGood) generation.stop()
    else if (held === 'keep') generation.freeze()
  }
  const seat = (): Seat => {
    const taken: Seat = {
      attach(generation) {
        generations.set(taken, generation)
        heed(generation)
      },
      leave() {
        running.delete(taken)
        generations.delete(taken)
        if (running.size === 0) for (const line of [emptied, paused]) settle(line)
        admitNext()
      },
    }
    running.add(taken)
    return taken
  }
  const settle = (line: Set<() => void>) => {
    for (const resolve of line) resolve()
    line.clear()
  }
  const whenDrained = async (line: Set<() => void>) => {
    if (running.size > 0) await new Promise<void>((resolve) => line.add(resolve))
  }
  const hasRoom = () => held === null && emptying === null && running.size < limits.running
  const admitNext = () => {
    for (const waiter of waiters) {
      if (!hasRoom()) return
      waiters.delete(waiter)
      waiter.admit()
    }
  }
  const stopAll = () => {
    const count = generations.size
    for (const generation of generations.values()) generation.stop()
    return count
  }

  return {
    enter(signal) {
      if (isClosed || signal.aborted) return Promise.resolve(null)
      // Whenever there is room the line has been let in already, so nobody is passed.
      if (hasRoom()) return Promise.resolve(seat())
      if (waiters.size >= limits.waiting) return Promise.resolve('full')
      return new Promise((resolve) => {
        const leave = () => {
          waiters.delete(waiter)
          resolve(null)
        }
        const waiter: Waiter = {
          admit() {
            signal.removeEventListener('abort', leave)
            resolve(seat())
          },
          turnAway: leave,
        }
        waiters.add(waiter)
        signal.addEventListener('abort', leave, { once: true })
      })
    },
    room: () => limits.waiting - waiters.size + (hasRoom() ? limits.running - running.size : 0),
    async pause(mode) {
      const isThawing = held === 'keep' && mode === 'wait'
      held = mode
      for (const generation of generations.values()) {
        if (isThawing) generation.thaw()
        heed(generation)
      }
      if (mode === 'wait') await whenDrained(paused)
      else settle(paused)
    },
    resume() {
      held = null
      settle(paused)
      for (const generation of generations.values()) generation.thaw()
      admitNext()
    },
    abortAll: stopAll,
    async empty(how) {
      emptying = how
      for (const generation of generations.values()) heed(generation)
      await whenDrained(emptied)
      return () => {
        emptying = null
        admitNext()
      }
    },
    isPaused: () => held !== null,
    counts: () => ({ running: running.size, waiting: waiters.size }),
    close() {
      isClosed = true
      for (const waiter of waiters) waiter.turnAway()
      stopAll()
      for (const line of [emptied, paused]) settle(line)
    },
  }
}

// The running batch: who generates, who waits for a place, and whether the engine is paused.
import type { Pace } from './pace.ts'

/** What a pause does to running generations: end them with what they have, let them finish, or freeze them. */
export type PauseMode = 'abort' | 'wait' | 'keep'

export type Seat = {
  /** Puts the generation under the batch's control: a pause may freeze or stop it. */
  attach(pace: Pace): void
  leave(): void
}

export type Batch = {
  /** Waits while the engine is full or paused. Null when the signal was aborted or the batch closed first. */
  enter(signal: AbortSignal): Promise<Seat | 'full' | null>
  /** Resolves when the pause holds: at once, or with 'wait' when the last running generation has left. */
  pause(mode: PauseMode): Promise<void>
  resume(): void
  /** Ends all running generations with what they have; returns how many. */
  abortAll(): number
  isPaused(): boolean
  counts(): { readonly running: number; readonly waiting: number }
  close(): void
}

type Waiter = { readonly admit: () => void; readonly turnAway: () => void }

export function openBatch(limits: { readonly running: number; readonly waiting: number }): Batch {
  const running = new Set<Seat>()
  const paces = new Map<Seat, Pace>()
  const waiters = new Set<Waiter>()
  const drained = new Set<() => void>()
  let held: PauseMode | null = null
  let isClosed = false

  const seat = (): Seat => {
    const taken: Seat = {
      attach(pace) {
        paces.set(taken, pace)
        // A pause may have come between the place and its pace.
        if (held === 'keep') pace.freeze()
        if (held === 'abort' || isClosed) pace.stop()
      },
      leave() {
        running.delete(taken)
        paces.delete(taken)
        if (running.size === 0) settleDrained()
        admitNext()
      },
    }
    running.add(taken)
    return taken
  }
  const settleDrained = () => {
    for (const settle of drained) settle()
    drained.clear()
  }
  const hasRoom = () => held === null && running.size < limits.running
  const admitNext = () => {
    for (const waiter of waiters) {
      if (!hasRoom()) return
      waiters.delete(waiter)
      waiter.admit()
    }
  }
  const stopAll = () => {
    const count = paces.size
    for (const pace of paces.values()) pace.stop()
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
    async pause(mode) {
      held = mode
      switch (mode) {
        case 'abort':
          stopAll()
          return
        case 'keep':
          for (const pace of paces.values()) pace.freeze()
          return
        case 'wait':
          if (running.size > 0) await new Promise<void>((resolve) => drained.add(resolve))
      }
    },
    resume() {
      held = null
      for (const pace of paces.values()) pace.thaw()
      admitNext()
    },
    abortAll: stopAll,
    isPaused: () => held !== null,
    counts: () => ({ running: running.size, waiting: waiters.size }),
    close() {
      isClosed = true
      for (const waiter of waiters) waiter.turnAway()
      stopAll()
      settleDrained()
    },
  }
}

// A bounded queue whose places can be reserved before there is anything to put in them; READY and the system lane are mailboxes.
import { Ring } from './ring.ts'

/** `reserved + size <= capacity`, always. */
export type Mailbox<T> = {
  readonly capacity: number
  readonly size: number
  readonly reserved: number
  /** Takes a place for a message that will come; false when every place is reserved or filled. */
  reserve(): boolean
  /** Fills a reserved place. Without a reservation it throws: the caller broke the bound. */
  put(message: T): void
  /** Gives a reserved place back unused. */
  releaseReservation(): void
  /** The oldest message; its place is free again. */
  take(): T | undefined
  /** Takes the oldest message that matches out of the middle: a waiting session was cancelled. */
  remove(matches: (message: T) => boolean): T | undefined
}

export function openMailbox<T>(capacity: number): Mailbox<T> {
  if (!Number.isInteger(capacity) || capacity < 1) throw new RangeError(`a mailbox needs a capacity of at least 1, not ${capacity}`)
  const ring = new Ring<T>()
  let reserved = 0
  return {
    capacity,
    get size() {
      return ring.size
    },
    get reserved() {
      return reserved
    },
    reserve() {
      if (reserved + ring.size >= capacity) return false
      reserved++
      return true
    },
    put(message) {
      if (reserved === 0) throw new Error('a message was put into a mailbox without a reservation')
      reserved--
      ring.push(message)
    },
    releaseReservation() {
      if (reserved === 0) throw new Error('a reservation was released that nobody holds')
      reserved--
    },
    take: () => ring.shift(),
    remove(matches) {
      const kept = ring.drain()
      const index = kept.findIndex(matches)
      const [removed] = index < 0 ? [] : kept.splice(index, 1)
      for (const message of kept) ring.push(message)
      return removed
    },
  }
}

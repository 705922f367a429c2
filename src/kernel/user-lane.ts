// The user lane of one actor: its capacity divided among the threads that may write to it.
import { Ring } from './ring.ts'

/** Whoever must hear that a message of his left the lane: the credit account of a link. */
export type Origin = { taken(): void }

/** A message that came over a link, with the account its place belongs to. */
class Arrived<M> {
  readonly origin: Origin
  readonly message: M
  constructor(origin: Origin, message: M) {
    this.origin = origin
    this.message = message
  }
}

/** What each of `peers` foreign threads may have waiting; the local senders get the rest. */
export function shareOf(capacity: number, peers: number): number {
  return Math.max(1, Math.floor(capacity / (peers + 1)))
}

export class UserLane<M> {
  readonly capacity: number
  readonly share: number
  readonly #localLimit: number
  readonly #ring = new Ring<M | Arrived<M>>()
  /**
   * Arrivals for which the messages of a dead incarnation still hold the places; at most one share per living link. Never
   * anything here while the ring has room.
   */
  #held: Arrived<M>[] = []
  #local = 0

  constructor(capacity: number, peers: number) {
    if (!Number.isInteger(Math.log2(capacity))) throw new RangeError(`the capacity of a user lane is a power of two, not ${capacity}`)
    if (capacity < peers + 1) throw new RangeError(`a user lane of ${capacity} cannot be shared by ${peers} threads and its own`)
    this.capacity = capacity
    this.share = shareOf(capacity, peers)
    this.#localLimit = capacity - peers * this.share
  }

  /** Messages that wait for the actor; never above `capacity`. */
  get size(): number {
    return this.#ring.size
  }

  /** From an actor or code of the same thread. */
  offer(message: M): boolean {
    if (this.#local >= this.#localLimit || this.#ring.size >= this.capacity) return false
    this.#local++
    this.#ring.push(message)
    return true
  }

  /** From a link, which has counted that its peer keeps to its share: never refused. */
  admit(origin: Origin, message: M): void {
    const arrived = new Arrived(origin, message)
    if (this.#ring.size >= this.capacity) this.#held.push(arrived)
    else this.#ring.push(arrived)
  }

  take(): M | undefined {
    const entry = this.#ring.shift()
    if (!(entry instanceof Arrived)) {
      if (entry !== undefined) this.#local--
      if (this.#held.length > 0) this.#place()
      return entry
    }
    if (this.#held.length > 0) this.#place()
    entry.origin.taken()
    return entry.message
  }

  /** A link died: what it sent and is not yet in the lane is gone with it. */
  forget(origin: Origin): void {
    this.#held = this.#held.filter((arrived) => arrived.origin !== origin)
  }

  /** Everything unread, oldest first, left in place. */
  waiting(): M[] {
    return [...this.#ring.items(), ...this.#held].map((entry) => (entry instanceof Arrived ? entry.message : entry))
  }

  #place(): void {
    const arrived = this.#held.shift()
    if (arrived !== undefined) this.#ring.push(arrived)
  }
}

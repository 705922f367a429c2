// The actor machine of one thread, as seen from outside it.
import type { ActorExit, ActorSpec } from './actor.ts'
import type { Address, Offer, ThreadId } from './address.ts'
import type { Answer, Ask } from './ask.ts'
import type { Clock, Random, Scheduler } from './clock.ts'

/** One observed delivery, for tests, debugging and traces. */
export type Delivery = {
  readonly thread: ThreadId
  readonly actor: string
  readonly lane: 'user' | 'system'
  readonly message: unknown
}

export type KernelStats = {
  readonly thread: ThreadId
  readonly actors: number
  readonly pendingAsks: number
  readonly pendingTimers: number
  readonly mailboxes: readonly { readonly name: string; readonly user: number; readonly system: number; readonly capacity: number }[]
  readonly lateReplies: number
  readonly delivered: number
  /** Messages of other threads for actors that ended while they travelled. */
  readonly undeliverable: number
}

/** One direction-less wire to a peer thread: frames stay in order; a closed wire settles everything that waited on it. */
export type Wire = {
  /** Frames are plain data; `transfer` lists ArrayBuffers that move instead of being copied. */
  post(frame: unknown, transfer: readonly ArrayBuffer[]): void
  open(handlers: { readonly frame: (frame: unknown) => void; readonly closed: () => void }): void
  close(): void
}

export type Kernel = {
  readonly thread: ThreadId
  readonly incarnation: number
  readonly clock: Clock
  readonly random: Random
  readonly scheduler: Scheduler
  spawn<M>(spec: ActorSpec<M>): Address<M>
  tell<M>(to: Address<M>, message: M): Offer
  /** For code that is not an actor. Settles exactly once, at the latest at the deadline. */
  ask<M, R>(to: Address<M>, make: (ask: Ask<R>) => M, deadlineMs: number): Promise<Answer<R>>
  reply<R>(ask: Ask<R>, value: R): void
  /** Joins a peer thread. A second call for the same peer replaces a dead wire (the peer was restarted). */
  connect(peer: ThreadId, wire: Wire): void
  /** Every delivery passes `tap` until the returned function is called. */
  inspect(tap: (delivery: Delivery) => void): () => void
  onExit(listener: (exit: ActorExit) => void): () => void
  stop<M>(actor: Address<M>): void
  stats(): KernelStats
  /** Stops every actor, settles every ask, cancels every timer, closes every wire. Idempotent. */
  close(): Promise<void>
}

export type KernelOptions = {
  readonly thread: ThreadId
  readonly incarnation: number
  readonly scheduler: Scheduler
  readonly random: Random
  /** The number of foreign threads among which mailbox shares are divided. */
  readonly peers: number
  /** Hears every throw of an actor, restarted or not; absent: a process warning. */
  readonly report?: (actor: string, error: Error) => void
}

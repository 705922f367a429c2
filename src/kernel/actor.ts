// What an actor is to the kernel: a receiver of messages, and the context through which alone it touches the world.
import type { Address, Offer } from './address.ts'
import type { Answer, Ask } from './ask.ts'
import type { Clock, Random, Timer } from './clock.ts'

export type Settled<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: Error }

export type ActorContext<M> = {
  readonly self: Address<M>
  readonly name: string
  readonly clock: Clock
  readonly random: Random
  /** Delivers to the other actor's user lane, or says at once why not. */
  tell<T>(to: Address<T>, message: T): Offer
  /** Sends what `make` builds; exactly one message made by `answered` comes back through the own system lane. */
  ask<T, R>(to: Address<T>, make: (ask: Ask<R>) => T, deadlineMs: number, answered: (answer: Answer<R>) => M): void
  /** Answers an ask received in a message. A second answer, or one after the deadline, is dropped and counted. */
  reply<R>(ask: Ask<R>, value: R): void
  /** Puts `message` into the own system lane after `delayMs`; cancelled by the returned timer and by the actor's end. */
  after(delayMs: number, message: M): Timer
  /** Runs asynchronous work; exactly one message made by `settled` comes back through the own system lane. */
  pipe<T>(work: () => Promise<T>, settled: (outcome: Settled<T>) => M): void
  /** Starts a child on the same thread. A child ends with its parent. */
  spawn<T>(spec: ActorSpec<T>): Address<T>
  /** Ends this actor after the current message: asks it held are answered `stopped`, timers are cancelled. */
  stop(): void
}

export type Receiver<M> = {
  receive(message: M): void
  /** Called once, after the last message; settles what the actor owns outside the kernel. */
  stopped?(): void
}

export type ActorSpec<M> = {
  readonly name: string
  /** Size of the user lane; a power of two. */
  readonly capacity: number
  readonly create: (context: ActorContext<M>) => Receiver<M>
  /** Restarts with a fresh receiver after a throw, at most `max` times in `withinMs`. Absent: a throw ends the actor. */
  readonly restarts?: { readonly max: number; readonly withinMs: number }
}

/** Seen by the kernel's owner when an actor ends. `undelivered` holds the messages of the user lane that nobody will read. */
export type ActorExit = {
  readonly name: string
  readonly address: Address<never>
  readonly reason: 'stopped' | 'crashed' | 'thread-closed'
  readonly error: Error | null
  readonly undelivered: readonly unknown[]
}

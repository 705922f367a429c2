// The admin plane of a thread: what its owner may ask of it outside the actors' messages.
import type { MessagePort } from 'node:worker_threads'
import type { ThreadId } from './address.ts'
import type { DrainReport } from './drain.ts'
import type { KernelStats } from './kernel.ts'

/** What the thread itself exposes; reached through comlink, which gives no answer once the thread is dead. */
export type ThreadAdmin = {
  /** Joins a peer over one end of a fresh channel. */
  join(peer: ThreadId, port: MessagePort): void
  boot(config: unknown): Promise<unknown>
  stats(): ThreadStats
  drain(): Promise<DrainReport>
  /** Closes the kernel and with it every port to a peer. */
  stop(): Promise<void>
  /** Brings about a fault the thread knows; only tests ask for one. */
  inject(fault: string): Promise<void>
}

export type ThreadStats = {
  readonly kernel: KernelStats
  readonly heapUsedBytes: number
  /** Share of the time since the last call in which the event loop was busy, 0 to 1. */
  readonly loopUtilization: number
  readonly gauges: Readonly<Record<string, number>>
}

/** `exited`: the thread was or fell dead; `deadline`: no answer in time; `failed`: the thread answered with an error. */
export type AdminAnswer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: 'exited' | 'deadline' | 'failed'; readonly message: string }

/** What a new thread is told before anything else; travels as its `workerData`. */
export type ThreadBirth = {
  readonly thread: ThreadId
  readonly incarnation: number
  readonly peers: number
  readonly admin: MessagePort
}

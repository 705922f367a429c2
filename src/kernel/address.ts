// Where an actor lives, as plain data that may travel between threads.

export type ThreadId = string & { readonly brand: 'ThreadId' }
export const threadId = (text: string): ThreadId => text as ThreadId

/** `M` exists for the compiler only: an address accepts exactly the messages of its actor's protocol. */
export type Address<in M> = {
  readonly thread: ThreadId
  /** Counts restarts of the thread; an address of a dead incarnation answers `stopped`. */
  readonly incarnation: number
  readonly actor: number
  /** How many messages one foreign thread may have waiting in this actor's mailbox: its credits at first contact. */
  readonly share: number
  readonly accepts?: (message: M) => void
}

/** What `tell` answers, at once. `full` and `stopped` hand the message back: it will not be delivered. */
export type Offer = 'accepted' | 'full' | 'stopped'

// The outbox: every terminal task reaches its trainer at least once, or is a dead letter that can still be read.
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { TaskStatus } from '../../contract/task.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { DeliveryState } from '../ledger/protocol.ts'

export type Undelivered = {
  readonly task: TaskId
  /** Of the receiver; the rest of its URL may hold a secret. */
  readonly origin: string
  readonly tries: number
  /** How the last finished try went wrong; null before that. */
  readonly trouble: string | null
}

/** What became of a task's callback, or is still to become of it. */
export type DeliveryView = {
  readonly task: TaskId
  /** The session by itself whose result it is; `task` then is its key only. */
  readonly session: SessionId | null
  /** `none`: it was never to go anywhere. */
  readonly state: DeliveryState | 'none'
  /** Of the receiver; the rest of its URL may hold a secret. Null with `none`. */
  readonly origin: string | null
  /** Since it was last driven. */
  readonly tries: number
  /** How the last try went; null before one has ended. */
  readonly detail: string | null
  readonly endedAtMs: number | null
}

/**
 * `unknown`: no such task has ended, or it is no longer kept; `target`: there is no URL, or none that may be called. Then none is driven.
 * `lost`: the ledger no longer keeps their results.
 */
export type RedriveReply =
  | { readonly type: 'redriven'; readonly tasks: readonly TaskId[]; readonly lost: readonly TaskId[] }
  | { readonly type: 'unknown' | 'target'; readonly detail: string }

/** What a delivery brings, whatever becomes of it. */
export type DeliveryContent = {
  readonly task: TaskId
  /** Polar's TaskResult, or for a session by itself its SessionResult. */
  readonly shape: 'task' | 'session'
  readonly status: TaskStatus
  readonly sessions: readonly SessionId[]
}

export type CallbackCommand =
  | (DeliveryContent & {
      readonly type: 'deliver'
      /** Null: to nobody, until it is driven somewhere. */
      readonly url: string | null
      /** The attempt whose result stands, per session: with the task's id the identity of the delivery. */
      readonly attempts: readonly number[]
    })
  /** Newest first; ended ones are kept for as many tasks as the rollout server keeps. `state` null: of every task that has a receiver. */
  | {
      readonly type: 'list-deliveries'
      readonly state: DeliveryView['state'] | null
      readonly limit: number
      readonly ask: Ask<readonly DeliveryView[]>
    }
  /**
   * Delivers again, whatever became of it, from the first try on. `tasks` null: all of these states. `url` null: to where it was to go.
   * Answered when the ledger keeps every one of them until it has come to its end again.
   */
  | {
      readonly type: 'redrive'
      readonly tasks: readonly TaskId[] | null
      readonly states: readonly DeliveryView['state'][]
      readonly url: string | null
      readonly ask: Ask<RedriveReply>
    }
  /** What is neither delivered nor given up, in the order it came. */
  | { readonly type: 'list-undelivered'; readonly ask: Ask<readonly Undelivered[]> }

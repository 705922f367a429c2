// What is durable: the only writer of the truth about tasks, calls, results and deliveries.
import type { CallRecord } from '../../contract/call.ts'
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { TaskRequest, TaskStatus } from '../../contract/task.ts'
import type { Ask } from '../../kernel/ask.ts'

/** `full` may pass; `conflict` and `too-large`, more than the ledger holds when it is empty, will not. */
type RefusalReason = 'full' | 'conflict' | 'too-large'

export type Recorded = { readonly type: 'recorded' } | { readonly type: 'refused'; readonly reason: RefusalReason; readonly detail: string }

export type StoredResult =
  | { readonly type: 'result'; readonly session: SessionId; readonly attempt: number; readonly payload: ArrayBuffer }
  | { readonly type: 'no-result'; readonly session: SessionId }

/** `summary` belongs to the result that now stands, which may be one the session had recorded itself. */
export type SettledResult =
  | { readonly type: 'settled'; readonly summary: SessionSummary }
  | { readonly type: 'refused'; readonly reason: RefusalReason; readonly detail: string }

/** A place in the feed of one ledger: to another, or to the one of a later process, it means nothing. */
export type FeedCursor = { readonly ledger: string; readonly sequence: number }

/** A result that stands, or a task that has ended; `sequence` rises with each. */
export type FeedEntry =
  | {
      readonly type: 'session'
      readonly sequence: number
      readonly session: SessionId
      readonly task: TaskId
      readonly attempt: number
      readonly summary: SessionSummary
      readonly bytes: number
    }
  | {
      readonly type: 'task'
      readonly sequence: number
      readonly task: TaskId
      readonly status: TaskStatus
      readonly delivery: DeliveryState | null
    }

export type FeedPage = {
  readonly entries: readonly FeedEntry[]
  /** Where the next read goes on. */
  readonly next: FeedCursor
  /** Entries after the place that was asked for are no longer kept. */
  readonly missed: boolean
  /** That place is in no feed of this ledger: the entries begin with the oldest that is kept. */
  readonly startsOver: boolean
}

export type DeliveryState = 'pending' | 'delivered' | 'dead'

export type LedgerCommand =
  /**
   * Acknowledged only when the task is durable. `key` is the task's id, or for a session by itself one that is no task's: what follows names it.
   * The feed shows what `task` names, and no end of a task that is only a session's.
   */
  | {
      readonly type: 'record-task'
      readonly key: TaskId
      readonly task: TaskRequest
      readonly sessions: readonly SessionId[]
      readonly ask: Ask<Recorded>
    }
  /** An exchange waits for this before the last byte of its answer leaves. */
  | { readonly type: 'record-call'; readonly call: CallRecord; readonly ask: Ask<Recorded> }
  /** `payload` is a packed SessionResult; it moves with the message. A later attempt replaces an earlier one. */
  | {
      readonly type: 'record-result'
      readonly task: TaskId
      readonly session: SessionId
      readonly attempt: number
      readonly summary: SessionSummary
      readonly payload: ArrayBuffer
      /** The attempt's calls, packed for whoever looks at them; dropped with the result, and before results when bytes run out. */
      readonly completions: ArrayBuffer | null
      readonly ask: Ask<Recorded>
    }
  /** For a session that can no longer report: keeps a result of this attempt that is already there, else records this one. */
  | {
      readonly type: 'settle-result'
      readonly task: TaskId
      readonly session: SessionId
      readonly attempt: number
      readonly summary: SessionSummary
      readonly payload: ArrayBuffer
      readonly ask: Ask<SettledResult>
    }
  /** Final is the result of this attempt: told, not asked, since the end of the task makes up for what is lost of it. */
  | { readonly type: 'session-ended'; readonly session: SessionId; readonly attempt: number }
  | { readonly type: 'record-task-ended'; readonly task: TaskId; readonly status: TaskStatus; readonly ask: Ask<Recorded> }
  /** `pending` keeps the task, also one that was delivered or given up before. */
  | {
      readonly type: 'record-delivery'
      readonly task: TaskId
      readonly state: DeliveryState
      readonly detail: string
      readonly ask: Ask<Recorded>
    }
  /** Answers a copy of the stored bytes. */
  | { readonly type: 'read-result'; readonly session: SessionId; readonly ask: Ask<StoredResult> }
  /** Null when it has none, or they are no longer kept. A copy. */
  | { readonly type: 'read-completions'; readonly session: SessionId; readonly ask: Ask<ArrayBuffer | null> }
  /** Results of ended sessions and ends of tasks in the order in which they became final, from just after `after`. */
  | {
      readonly type: 'read-feed'
      readonly after: FeedCursor | 'oldest' | 'latest'
      readonly types: readonly FeedEntry['type'][]
      readonly limit: number
      readonly ask: Ask<FeedPage>
    }
  | { readonly type: 'read-calls'; readonly session: SessionId; readonly ask: Ask<readonly CallRecord[]> }

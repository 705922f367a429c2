// The outbox: every terminal task reaches its trainer at least once, or is a dead letter that can still be read.
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { TaskStatus } from '../../contract/task.ts'
import type { Ask } from '../../kernel/ask.ts'

export type Undelivered = {
  readonly task: TaskId
  /** Of the receiver; the rest of its URL may hold a secret. */
  readonly origin: string
  readonly tries: number
  /** How the last finished try went wrong; null before that. */
  readonly trouble: string | null
}

export type CallbackCommand =
  | {
      readonly type: 'deliver'
      readonly task: TaskId
      readonly url: string
      readonly status: TaskStatus
      readonly sessions: readonly SessionId[]
      /** The attempt whose result stands, per session: with the task's id the identity of the delivery. */
      readonly attempts: readonly number[]
    }
  /** What is neither delivered nor given up, in the order it came. */
  | { readonly type: 'list-undelivered'; readonly ask: Ask<readonly Undelivered[]> }

// The outbox: every terminal task reaches its trainer at least once, or is a dead letter that can still be read.
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { TaskStatus } from '../../contract/task.ts'

export type CallbackCommand = {
  readonly type: 'deliver'
  readonly task: TaskId
  readonly url: string
  readonly status: TaskStatus
  readonly sessions: readonly SessionId[]
  /** The attempt whose result stands, per session: with the task's id the identity of the delivery. */
  readonly attempts: readonly number[]
}

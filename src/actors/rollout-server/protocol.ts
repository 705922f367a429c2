// Trainer-facing truth: tasks, the session index, dispatch order and early stop.
import type { GatewayId, SessionId, TaskId } from '../../contract/ids.ts'
import type { Outcome, SessionStatus } from '../../contract/outcome.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { TaskRequest, TaskStatus } from '../../contract/task.ts'
import type { Address } from '../../kernel/address.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { GatewayCommand, GatewayLimits, SessionKind } from '../gateway/protocol.ts'

export type SubmitReply =
  | { readonly type: 'submitted'; readonly task: TaskId }
  /** Same id and same body as before: the same task, whatever its state. */
  | { readonly type: 'known'; readonly task: TaskId; readonly status: TaskStatus }
  | { readonly type: 'conflict'; readonly detail: string }
  | { readonly type: 'overloaded'; readonly retryAfterSeconds: number }
  | { readonly type: 'not-recorded'; readonly detail: string }

export type FailedAttempt = { readonly outcome: Outcome; readonly error: string | null }

/** An attempt that failed for a reason that another one may not meet; of a long error, its beginning. */
export type EarlierAttempt = FailedAttempt & { readonly attempt: number; readonly gateway: GatewayId }

export type SubmitSessionReply =
  /** Also when the same id comes again with the same body. */
  | { readonly type: 'opened'; readonly view: SessionView }
  | { readonly type: 'conflict'; readonly detail: string }
  /** Not one of this node's, or one that is draining. */
  | { readonly type: 'gateway-unknown' }
  | { readonly type: 'overloaded'; readonly retryAfterSeconds: number }
  | { readonly type: 'not-recorded'; readonly detail: string }

export type SessionView = {
  readonly kind: SessionKind
  readonly session: SessionId
  readonly task: TaskId
  readonly gateway: GatewayId | null
  readonly attempt: number
  /** In order; empty for a session that was never attempted again. */
  readonly earlier: readonly EarlierAttempt[]
  readonly status: SessionStatus
  readonly createdAtMs: number
  /** Present once the session is terminal. */
  readonly summary: SessionSummary | null
}

/** What an early stop did to a group: fast sessions are favoured, and this says by how much. */
export type EarlyStopAccount = {
  readonly threshold: number
  readonly usable: number
  /** Sessions that had ended when the rest was stopped, and their mean time from dispatch to end. */
  readonly finished: number
  readonly meanFinishedMs: number
  /** Sessions stopped while they ran (with their mean age), and before they were dispatched. */
  readonly stoppedRunning: number
  readonly meanStoppedMs: number
  readonly stoppedWaiting: number
}

export type TaskView = {
  readonly task: TaskId
  readonly status: TaskStatus
  readonly harness: string
  readonly model: string | null
  readonly totalSessions: number
  /** Sessions with a terminal result, whatever it is. */
  readonly completedSessions: number
  /** Those of them that ended ERROR. */
  readonly erroredSessions: number
  readonly meanReward: number | null
  readonly meanTraces: number | null
  readonly meanCalls: number | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly delivery: 'none' | 'pending' | 'delivered' | 'dead'
  readonly earlyStop: EarlyStopAccount | null
  /** In sample order; empty in lists. */
  readonly sessions: readonly SessionView[]
}

export type ServerStatus = {
  readonly tasks: readonly { readonly task: TaskId; readonly status: TaskStatus }[]
  readonly pendingSessions: number
  /** Admitted and not yet terminal. */
  readonly openSessions: number
}

export type GatewayView = {
  readonly gateway: GatewayId
  readonly url: string
  readonly healthy: boolean
  readonly draining: boolean
  readonly sessions: number
  readonly demand: number
  readonly limits: GatewayLimits
}

export type RolloutServerCommand =
  | { readonly type: 'submit'; readonly request: TaskRequest; readonly ask: Ask<SubmitReply> }
  | {
      readonly type: 'cancel'
      readonly task: TaskId
      /** Leaves a tombstone for an unknown id, so that a late submit of it gets `conflict`. */
      readonly registerIfMissing: boolean
      readonly ask: Ask<TaskView | null>
    }
  /**
   * One session by itself: Polar's `POST /sessions`. What it reports names `request.task_id`, which several of them and a task may share;
   * no list of tasks shows it. `gateway` null: the least loaded. `session` null: a new id. `resultUrl` is sent its SessionResult.
   * An agent waits for room, on that gateway when it names one; a capture is opened at once or refused, and attempted once.
   */
  | {
      readonly type: 'submit-session'
      readonly kind: SessionKind
      readonly gateway: GatewayId | null
      readonly session: SessionId | null
      readonly request: TaskRequest
      readonly resultUrl: string | null
      readonly ask: Ask<SubmitSessionReply>
    }
  /** Of any task; it ends with the outcome `cancelled`. Null: unknown. A session that has ended stays as it is. */
  | { readonly type: 'cancel-session'; readonly session: SessionId; readonly ask: Ask<SessionView | null> }
  /** Newest first, those of one task in sample order; `active` leaves out what has ended; `task` is what sessions name. */
  | {
      readonly type: 'list-sessions'
      readonly gateway: GatewayId | null
      readonly task: TaskId | null
      readonly status: SessionStatus | 'active' | null
      readonly limit: number
      readonly ask: Ask<readonly SessionView[]>
    }
  /**
   * No session is sent to it any more, also after it has started again; listed until its last one has ended. Sessions that wait for this
   * gateway and no other end as cancelled: nothing says that it will be taken back. Null: not listed.
   */
  | { readonly type: 'drain-gateway'; readonly gateway: GatewayId; readonly ask: Ask<GatewayView | null> }
  /** Takes back a drain, also of one that is no longer listed. Null: not a gateway of this node. */
  | { readonly type: 'enrol-gateway'; readonly gateway: GatewayId; readonly ask: Ask<GatewayView | null> }
  | { readonly type: 'read-task'; readonly task: TaskId; readonly ask: Ask<TaskView | null> }
  /** Newest first. */
  | {
      readonly type: 'list-tasks'
      readonly status: TaskStatus | null
      readonly harness: string | null
      readonly sinceMs: number | null
      readonly limit: number
      readonly ask: Ask<readonly TaskView[]>
    }
  | { readonly type: 'read-session'; readonly session: SessionId; readonly ask: Ask<SessionView | null> }
  | { readonly type: 'list-gateways'; readonly ask: Ask<readonly GatewayView[]> }
  | { readonly type: 'read-status'; readonly ask: Ask<ServerStatus> }
  | {
      readonly type: 'gateway-started'
      readonly gateway: GatewayId
      readonly address: Address<GatewayCommand>
      readonly url: string
      readonly limits: GatewayLimits
    }
  /** The thread is gone: its sessions are `interrupted`. */
  | { readonly type: 'gateway-lost'; readonly gateway: GatewayId }
  /** That many more READY reservations are free. A session is dispatched only against one of them. */
  | { readonly type: 'demand'; readonly gateway: GatewayId; readonly slots: number }
  | { readonly type: 'session-changed'; readonly session: SessionId; readonly attempt: number; readonly status: SessionStatus }
  /** The result is already durable in the ledger. */
  | { readonly type: 'session-finished'; readonly session: SessionId; readonly attempt: number; readonly summary: SessionSummary }
  | { readonly type: 'task-delivered'; readonly task: TaskId; readonly state: 'delivered' | 'dead' }
  /** Its result is driven to a trainer again, whatever became of it before: `task-delivered` will follow. */
  | { readonly type: 'delivery-reopened'; readonly task: TaskId }
  /** No new task and no new attempt: sessions that no gateway holds end as cancelled, the others go on. */
  | { readonly type: 'stop-admission'; readonly ask: Ask<void> }
  /** Cancels every session that a gateway holds; answers how many there were. */
  | { readonly type: 'stop-sessions'; readonly ask: Ask<number> }
  /** Answered once every task has ended and each result was delivered or given up. */
  | { readonly type: 'await-deliveries'; readonly ask: Ask<void> }

export type NodeEvent =
  | {
      readonly type: 'task.created' | 'task.updated' | 'task.completed'
      readonly task: TaskId
      readonly status: TaskStatus
      readonly atMs: number
    }
  | {
      readonly type: 'session.state_changed'
      readonly session: SessionId
      readonly task: TaskId
      /** The one that holds it, or held it last; null: none did. */
      readonly gateway: GatewayId | null
      /** `DISPATCHING`: it is on its way to that gateway, for which sessions themselves have no status. */
      readonly status: SessionStatus | 'DISPATCHING'
      readonly attempt: number
      readonly summary: SessionSummary | null
      readonly atMs: number
    }

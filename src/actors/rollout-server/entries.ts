// What the rollout server knows: tasks, their sessions, gateways, and the messages and effects of its step.
import type { GatewayId, SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { TaskRequest, TaskStatus } from '../../contract/task.ts'
import type { Address } from '../../kernel/address.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import type { ResultFacts } from '../builder/protocol.ts'
import type { CancelReason, GatewayCommand, GatewayLimits, SessionKind, SessionSpec } from '../gateway/protocol.ts'
import type { Recorded, SettledResult } from '../ledger/protocol.ts'
import type { Roster } from '../roster.ts'
import { emptyTable, type Table } from '../table.ts'
import type { EarlierAttempt, EarlyStopAccount, NodeEvent, RolloutServerCommand, SubmitReply, SubmitSessionReply } from './protocol.ts'

export type ServerLimits = {
  /** Attempts per session, the first included. */
  readonly maxAttempts: number
  /** Sessions admitted and not yet terminal, over all tasks. */
  readonly maxAdmittedSessions: number
  /** Ended tasks kept for reading; twice as many when they cannot be delivered, then submits are refused. */
  readonly maxKeptTasks: number
}

type SessionBase = {
  readonly session: SessionId
  readonly attempt: number
  /** Why it was attempted again: one for each attempt before this one. */
  readonly earlier: readonly EarlierAttempt[]
}
export type PendingSession = SessionBase & { readonly phase: 'pending' }
export type DispatchedSession = SessionBase & {
  readonly phase: 'dispatched'
  readonly gateway: GatewayId
  readonly status: SessionStatus
  readonly dispatchedAtMs: number
  readonly stop: CancelReason | null
}
/** Nobody will report: a result without traces is being made durable. */
export type SettlingSession = SessionBase & {
  readonly phase: 'settling'
  readonly gateway: GatewayId | null
  readonly facts: ResultFacts
}
type EndedSession = SessionBase & {
  readonly phase: 'ended'
  readonly gateway: GatewayId | null
  readonly summary: SessionSummary
}
export type SessionEntry = PendingSession | DispatchedSession | SettlingSession | EndedSession

/** Kept up to date with every ended session, so that no view ever adds up a task again. */
export type Totals = {
  readonly ended: number
  readonly errored: number
  readonly usable: number
  readonly rewardSum: number
  readonly rewarded: number
  readonly traces: number
  readonly calls: number
  readonly ranMs: number
}

/** A session by itself; `gateway` null: any. A capture has one from its admission on. */
export type Single = { readonly kind: SessionKind; readonly gateway: GatewayId | null }

type TaskBase = {
  /** Key here, in the ledger and in the outbox: the task's id, or that of a session by itself, which is no task's. Shown is what `request` names. */
  readonly task: TaskId
  readonly request: TaskRequest
  /** Null: a task of a trainer. Else the task of this one session, which no list of tasks shows. */
  readonly single: Single | null
  /** Of the canonical body: the same id with another body is a conflict. */
  readonly digest: string
  readonly sequence: number
  /** Wall clock, for people. */
  readonly createdAtMs: number
  readonly updatedAtMs: number
  /** Monotonic. */
  readonly admittedAtMs: number
  /** By sample. */
  readonly sessions: Roster<SessionEntry>
  readonly pending: number
  /** No sample before this one is pending. */
  readonly firstPending: number
  readonly totals: Totals
  readonly earlyStop: EarlyStopAccount | null
}

/** Who is told when the ledger has it. */
export type Submitter =
  | { readonly of: 'task'; readonly ask: Ask<SubmitReply> }
  | { readonly of: 'session'; readonly ask: Ask<SubmitSessionReply> }

export type RecordingTask = TaskBase & {
  readonly phase: 'recording'
  readonly submitters: readonly Submitter[]
  readonly cancelled: CancelReason | null
}
export type ActiveTask = TaskBase & { readonly phase: 'active'; readonly stop: CancelReason | null }
/** Every session is terminal; the end is being made durable. */
export type EndingTask = TaskBase & { readonly phase: 'ending'; readonly stop: CancelReason | null; readonly final: TaskStatus }
export type EndedTask = TaskBase & {
  readonly phase: 'ended'
  readonly final: TaskStatus
  readonly delivery: 'none' | 'pending' | 'delivered' | 'dead'
}
export type TaskEntry = RecordingTask | ActiveTask | EndingTask | EndedTask

/** A task with pending sessions; `turn` orders the line. */
export type QueuedTask = { readonly task: TaskId; readonly turn: number; readonly sequence: number }
export type Line = readonly QueuedTask[]

export type GatewayEntry = {
  readonly gateway: GatewayId
  readonly address: Address<GatewayCommand>
  readonly url: string
  readonly limits: GatewayLimits
  readonly healthy: boolean
  /** It gets no new session, also after it has started again. */
  readonly draining: boolean
  /** READY reservations announced and not yet used. */
  readonly demand: number
  /** It answered `full`: nothing is sent until it announces demand or a pause is over. */
  readonly held: boolean
  /** Sessions with an agent that it holds. */
  readonly agents: number
  /** Captures admitted for it and not yet ended: never more than its limit. */
  readonly captures: number
  /** Sessions by themselves that go to this gateway and no other. */
  readonly lines: Readonly<Record<SessionKind, Line>>
}

export type ServerState = {
  readonly limits: ServerLimits
  readonly admission: 'open' | 'stopped'
  readonly sequence: number
  readonly tasks: Table<TaskId, TaskEntry>
  /** In order of admission. */
  readonly order: readonly TaskId[]
  readonly index: Table<SessionId, { readonly task: TaskId; readonly sample: number }>
  /** Tasks whose sessions go to any gateway. */
  readonly line: Line
  readonly gateways: ReadonlyMap<GatewayId, GatewayEntry>
  readonly pendingSessions: number
  readonly openSessions: number
  /** In order of their end: the oldest is dropped first. */
  readonly ended: readonly TaskId[]
  readonly tombstones: ReadonlyMap<TaskId, number>
  /** Results without traces on their way into the ledger: a bounded number at a time, the others in line from `next` on. */
  readonly settling: { readonly inFlight: number; readonly line: readonly SessionId[]; readonly next: number }
  /** Who waits for every task's end and delivery: a draining node. */
  readonly awaitingDeliveries: readonly Ask<void>[]
}

/** What the actor's own effects report back to it. */
export type RolloutServerSignal =
  | {
      readonly type: 'admit'
      readonly request: TaskRequest
      readonly digest: string
      readonly sessions: readonly SessionId[]
      readonly ask: Ask<SubmitReply>
    }
  /** Of one sample, whose results go to `request.callback_url`. */
  | {
      readonly type: 'admit-session'
      readonly single: Single
      readonly request: TaskRequest
      readonly digest: string
      readonly session: SessionId
      readonly ask: Ask<SubmitSessionReply>
    }
  | { readonly type: 'task-recorded'; readonly task: TaskId; readonly answer: Answer<Recorded> }
  | {
      readonly type: 'dispatch-refused'
      readonly session: SessionId
      readonly attempt: number
      readonly gateway: GatewayId
      readonly offer: 'full' | 'stopped'
    }
  | { readonly type: 'gateway-rested'; readonly gateway: GatewayId }
  /** It answered `stopped`; told when whatever else was sent to it in the same turn has been answered too. */
  | { readonly type: 'gateway-stopped'; readonly gateway: GatewayId; readonly incarnation: number }
  | {
      readonly type: 'cancel-refused'
      readonly session: SessionId
      readonly attempt: number
      readonly gateway: GatewayId
      readonly offer: 'full' | 'stopped'
    }
  | { readonly type: 'cancel-again'; readonly session: SessionId; readonly attempt: number }
  | { readonly type: 'settled'; readonly session: SessionId; readonly attempt: number; readonly answer: Answer<SettledResult> }
  | { readonly type: 'settle-again'; readonly session: SessionId }
  | { readonly type: 'end-recorded'; readonly task: TaskId; readonly answer: Answer<Recorded> }
  | { readonly type: 'end-again'; readonly task: TaskId }
  | { readonly type: 'deliver-refused'; readonly task: TaskId }
  | { readonly type: 'deliver-again'; readonly task: TaskId }

/** Submits reach the step as `admit` and `admit-session`: the shell has drawn the session ids and digested the body. */
export type ServerMessage = Exclude<RolloutServerCommand, { readonly type: 'submit' | 'submit-session' }> | RolloutServerSignal

export type ServerEffect =
  | { readonly type: 'reply'; readonly ask: Ask<never>; readonly value: unknown }
  | { readonly type: 'publish'; readonly event: NodeEvent }
  | { readonly type: 'after'; readonly delayMs: number; readonly message: RolloutServerSignal }
  | { readonly type: 'record-task'; readonly task: TaskId; readonly request: TaskRequest; readonly sessions: readonly SessionId[] }
  | { readonly type: 'open-session'; readonly gateway: GatewayId; readonly to: Address<GatewayCommand>; readonly spec: SessionSpec }
  | {
      readonly type: 'cancel-session'
      readonly gateway: GatewayId
      readonly to: Address<GatewayCommand>
      readonly session: SessionId
      readonly attempt: number
      readonly reason: CancelReason
    }
  | { readonly type: 'settle'; readonly task: TaskId; readonly facts: ResultFacts }
  /** Before it is published, so that whoever hears of it finds it in the feed. */
  | { readonly type: 'tell-session-ended'; readonly session: SessionId; readonly attempt: number }
  | { readonly type: 'record-end'; readonly task: TaskId; readonly status: TaskStatus }
  | {
      readonly type: 'deliver'
      readonly task: TaskId
      /** Null: to nobody, until it is driven somewhere. */
      readonly url: string | null
      readonly shape: 'task' | 'session'
      readonly status: TaskStatus
      readonly sessions: readonly SessionId[]
      readonly attempts: readonly number[]
    }
  | { readonly type: 'report'; readonly detail: string }

export function emptyServer(limits: ServerLimits): ServerState {
  return {
    limits,
    admission: 'open',
    sequence: 0,
    tasks: emptyTable(),
    order: [],
    index: emptyTable(),
    line: [],
    gateways: new Map(),
    pendingSessions: 0,
    openSessions: 0,
    ended: [],
    tombstones: new Map(),
    settling: { inFlight: 0, line: [], next: 0 },
    awaitingDeliveries: [],
  }
}

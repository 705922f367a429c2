// One step in the making: the draft that the handlers share, and the small changes that several of them make.
import { type GatewayId, type SessionId, type TaskId, taskId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { CancelReason } from '../gateway/protocol.ts'
import { itemAt, withItem } from '../roster.ts'
import { insert, lookUp } from '../table.ts'
import type { ActiveTask, DispatchedSession, GatewayEntry, ServerEffect, ServerState, SessionEntry, TaskEntry } from './entries.ts'
import type { NodeEvent } from './protocol.ts'
import { dequeue, enqueue } from './queue.ts'
import { taskStatus } from './task-status.ts'

export type Now = { readonly nowMs: number; readonly wallMs: number }

/** Handlers replace `state` and push `effects`; neither is visible outside until the step returns. */
export type Turn = { state: ServerState; readonly effects: ServerEffect[]; readonly now: Now }

/** A session that a gateway holds, with its task. */
export type Holding = { readonly task: ActiveTask; readonly sample: number; readonly entry: DispatchedSession }

export function reply<R>(turn: Turn, ask: Ask<R>, value: R): void {
  turn.effects.push({ type: 'reply', ask, value })
}

export function sendCancel(turn: Turn, entry: DispatchedSession, reason: CancelReason): void {
  const gateway = turn.state.gateways.get(entry.gateway)
  if (gateway === undefined) return
  const { session, attempt } = entry
  turn.effects.push({ type: 'cancel-session', gateway: entry.gateway, to: gateway.address, session, attempt, reason })
}

export function findSession(state: ServerState, session: SessionId) {
  const place = lookUp(state.index, session)
  const task = place === undefined ? undefined : lookUp(state.tasks, place.task)
  const entry = place === undefined || task === undefined ? undefined : itemAt(task.sessions, place.sample)
  return place === undefined || task === undefined || entry === undefined ? null : { task, sample: place.sample, entry }
}

export function findDispatched(state: ServerState, session: SessionId): Holding | null {
  const found = findSession(state, session)
  if (found?.task.phase !== 'active' || found.entry.phase !== 'dispatched') return null
  return { task: found.task, sample: found.sample, entry: found.entry }
}

/** Makes a session pending again, in its place by sample. */
export function putBack(
  turn: Turn,
  { task, sample, entry }: Holding,
  { attempt, earlier }: Pick<SessionEntry, 'attempt' | 'earlier'>,
): void {
  const next = withSession(task, sample, { phase: 'pending', session: entry.session, attempt, earlier })
  turn.state = putInLine({ ...putTask(turn.state, next), pendingSessions: turn.state.pendingSessions + 1 }, next)
}

/** The gateway no longer holds the session; a capture has its place there until it has ended. */
export function forget(state: ServerState, { task, entry }: Holding): ServerState {
  const gateway = state.gateways.get(entry.gateway)
  if (gateway === undefined || kindOf(task) === 'capture') return state
  return putGateway(state, { ...gateway, agents: gateway.agents - 1 })
}

export function withSession<T extends TaskEntry>(task: T, sample: number, entry: SessionEntry): T {
  const was = itemAt(task.sessions, sample)?.phase === 'pending'
  const is = entry.phase === 'pending'
  return {
    ...task,
    sessions: withItem(task.sessions, sample, entry),
    pending: task.pending - (was ? 1 : 0) + (is ? 1 : 0),
    firstPending: is ? Math.min(task.firstPending, sample) : task.firstPending,
  }
}

export function putTask(state: ServerState, task: TaskEntry): ServerState {
  return { ...state, tasks: insert(state.tasks, task.task, task) }
}

export function putGateway(state: ServerState, gateway: GatewayEntry): ServerState {
  return { ...state, gateways: new Map(state.gateways).set(gateway.gateway, gateway) }
}

export function kindOf({ single }: TaskEntry) {
  return single?.kind ?? 'agent'
}

/** What readers and gateways are told: several sessions by themselves may name the same task. */
export function nameOf({ request }: TaskEntry): TaskId {
  return taskId(request.task_id)
}

/** Unless nothing of it is pending. */
export function putInLine(state: ServerState, task: TaskEntry): ServerState {
  return task.pending === 0 ? state : changeLine(state, task, enqueue)
}

export function takeOutOfLine(state: ServerState, task: TaskEntry): ServerState {
  return changeLine(state, task, dequeue)
}

/** A session by itself that names a gateway waits in that one's own line, where it is in nobody's way. */
function changeLine(state: ServerState, task: TaskEntry, change: typeof enqueue): ServerState {
  const pinned = task.single?.gateway ?? null
  if (pinned === null) return { ...state, line: change(state.line, task) }
  const gateway = gatewayOf(state, pinned)
  const kind = kindOf(task)
  return putGateway(state, { ...gateway, lines: { ...gateway.lines, [kind]: change(gateway.lines[kind], task) } })
}

/** Of a gateway that was known once: none is ever forgotten. */
export function gatewayOf(state: ServerState, id: GatewayId): GatewayEntry {
  const gateway = state.gateways.get(id)
  if (gateway === undefined) throw new Error(`gateway ${id} was never known`)
  return gateway
}

/** A session by itself is no task to anybody outside. */
export function publishTask(turn: Turn, type: 'task.created' | 'task.updated' | 'task.completed', task: TaskEntry): void {
  if (task.single !== null) return
  publish(turn, { type, task: task.task, status: taskStatus(task), atMs: turn.now.wallMs })
}

export function publishSession(
  turn: Turn,
  task: TaskEntry,
  { session, attempt, gateway }: Pick<SessionEntry, 'session' | 'attempt'> & { readonly gateway: GatewayId | null },
  status: Extract<NodeEvent, { readonly type: 'session.state_changed' }>['status'],
  summary: SessionSummary | null = null,
): void {
  publish(turn, { type: 'session.state_changed', session, task: nameOf(task), gateway, status, attempt, summary, atMs: turn.now.wallMs })
}

function publish(turn: Turn, event: NodeEvent): void {
  turn.effects.push({ type: 'publish', event })
}

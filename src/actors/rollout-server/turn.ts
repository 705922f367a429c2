// One step in the making: the draft that the handlers share, and the small changes that several of them make.
import type { GatewayId, SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { CancelReason } from '../gateway/protocol.ts'
import { insert, lookUp } from '../table.ts'
import type { ActiveTask, GatewayEntry, ServerEffect, ServerState, SessionEntry, TaskEntry } from './entries.ts'
import { enqueue } from './queue.ts'

export type Now = { readonly nowMs: number; readonly wallMs: number }

/** Handlers replace `state` and push `effects`; neither is visible outside until the step returns. */
export type Turn = { state: ServerState; readonly effects: ServerEffect[]; readonly now: Now }

export type Dispatched = Extract<SessionEntry, { readonly phase: 'dispatched' }>

/** A session that a gateway holds, with its task. */
export type Holding = { readonly task: ActiveTask; readonly sample: number; readonly entry: Dispatched }

export function reply<R>(turn: Turn, ask: Ask<R>, value: R): void {
  turn.effects.push({ type: 'reply', ask, value })
}

export function sendCancel(turn: Turn, entry: Dispatched, reason: CancelReason): void {
  const gateway = turn.state.gateways.get(entry.gateway)
  if (gateway === undefined) return
  const { session, attempt } = entry
  turn.effects.push({ type: 'cancel-session', gateway: entry.gateway, to: gateway.address, session, attempt, reason })
}

export function findDispatched(state: ServerState, session: SessionId): Holding | null {
  const place = lookUp(state.index, session)
  const task = place === undefined ? undefined : lookUp(state.tasks, place.task)
  const entry = place === undefined ? undefined : task?.sessions[place.sample]
  if (place === undefined || task?.phase !== 'active' || entry?.phase !== 'dispatched') return null
  return { task, sample: place.sample, entry }
}

/** Makes a session pending again, in its place by sample. */
export function putBack(turn: Turn, { task, sample, entry }: Holding, attempt: number): void {
  const at = task.waiting.findIndex((other) => other > sample)
  const waiting = at === -1 ? [...task.waiting, sample] : task.waiting.toSpliced(at, 0, sample)
  const next = { ...withSession(task, sample, { phase: 'pending', session: entry.session, attempt }), waiting }
  turn.state = {
    ...putTask(turn.state, next),
    queue: enqueue(turn.state.queue, next),
    pendingSessions: turn.state.pendingSessions + 1,
  }
}

/** The gateway no longer holds the session. */
export function forget(state: ServerState, id: GatewayId, session: SessionId): ServerState {
  const gateway = state.gateways.get(id)
  if (gateway === undefined) return state
  return putGateway(state, { ...gateway, sessions: gateway.sessions.filter((held) => held !== session) })
}

export function withSession<T extends TaskEntry>(task: T, sample: number, entry: SessionEntry): T {
  return { ...task, sessions: task.sessions.with(sample, entry) }
}

export function putTask(state: ServerState, task: TaskEntry): ServerState {
  return { ...state, tasks: insert(state.tasks, task.task, task) }
}

export function publishSession(turn: Turn, task: TaskId, session: SessionId, attempt: number, status: SessionStatus): void {
  turn.effects.push({
    type: 'publish',
    event: { type: 'session.state_changed', session, task, status, attempt, summary: null, atMs: turn.now.wallMs },
  })
}

export function putGateway(state: ServerState, gateway: GatewayEntry): ServerState {
  return { ...state, gateways: new Map(state.gateways).set(gateway.gateway, gateway) }
}

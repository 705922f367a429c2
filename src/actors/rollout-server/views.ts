// What readers see of the rollout server's state: totals are kept, so a view costs what it shows.
import type { GatewayId, SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { itemsOf } from '../roster.ts'
import { lookUp } from '../table.ts'
import type { GatewayEntry, ServerState, SessionEntry, TaskEntry } from './entries.ts'
import type { GatewayView, RolloutServerCommand, ServerStatus, SessionView, TaskView } from './protocol.ts'
import { taskStatus } from './task-status.ts'
import { findSession, kindOf, nameOf } from './turn.ts'

function taskView(entry: TaskEntry, sessions: readonly SessionView[]): TaskView {
  const { totals, request } = entry
  return {
    task: entry.task,
    status: taskStatus(entry),
    harness: request.agent.harness ?? request.agent.import_path ?? '',
    model: request.agent.model_name ?? null,
    totalSessions: entry.sessions.length,
    completedSessions: totals.ended,
    erroredSessions: totals.errored,
    meanReward: totals.rewarded === 0 ? null : totals.rewardSum / totals.rewarded,
    meanTraces: totals.ended === 0 ? null : totals.traces / totals.ended,
    meanCalls: totals.ended === 0 ? null : totals.calls / totals.ended,
    createdAtMs: entry.createdAtMs,
    updatedAtMs: entry.updatedAtMs,
    delivery: entry.phase === 'ended' ? entry.delivery : request.callback_url == null ? 'none' : 'pending',
    earlyStop: entry.earlyStop,
    sessions,
  }
}

/** What a cancel of an unknown id answers when it left a tombstone. */
export function tombstoneView(task: TaskId, wallMs: number): TaskView {
  return {
    task,
    status: 'cancelled',
    harness: '',
    model: null,
    totalSessions: 0,
    completedSessions: 0,
    erroredSessions: 0,
    meanReward: null,
    meanTraces: null,
    meanCalls: null,
    createdAtMs: wallMs,
    updatedAtMs: wallMs,
    delivery: 'none',
    earlyStop: null,
    sessions: [],
  }
}

/** Of a trainer: that of a session by itself is no task to anybody outside. */
export function findTask(state: ServerState, task: TaskId): TaskEntry | null {
  const entry = lookUp(state.tasks, task)
  return entry?.single === null ? entry : null
}

export function readTask(state: ServerState, task: TaskId): TaskView | null {
  const entry = findTask(state, task)
  return entry === null ? null : fullView(entry)
}

export function fullView(entry: TaskEntry): TaskView {
  return taskView(
    entry,
    itemsOf(entry.sessions).map((session) => sessionView(entry, session)),
  )
}

export function listTasks(
  state: ServerState,
  query: Pick<Extract<RolloutServerCommand, { readonly type: 'list-tasks' }>, 'status' | 'harness' | 'sinceMs' | 'limit'>,
): readonly TaskView[] {
  const found: TaskView[] = []
  for (let i = state.order.length - 1; i >= 0 && found.length < query.limit; i -= 1) {
    const id = state.order[i]
    const entry = id === undefined ? null : findTask(state, id)
    if (entry === null) continue
    const view = taskView(entry, [])
    if (query.status !== null && view.status !== query.status) continue
    if (query.harness !== null && view.harness !== query.harness) continue
    if (query.sinceMs !== null && view.updatedAtMs < query.sinceMs) continue
    found.push(view)
  }
  return found
}

export function readSession(state: ServerState, session: SessionId): SessionView | null {
  const found = findSession(state, session)
  return found === null ? null : sessionView(found.task, found.entry)
}

export function listSessions(
  state: ServerState,
  query: Omit<Extract<RolloutServerCommand, { readonly type: 'list-sessions' }>, 'type' | 'ask'>,
): readonly SessionView[] {
  const found: SessionView[] = []
  for (let i = state.order.length - 1; i >= 0 && found.length < query.limit; i -= 1) {
    const id = state.order[i]
    const task = id === undefined ? undefined : lookUp(state.tasks, id)
    if (task === undefined || (query.task !== null && nameOf(task) !== query.task)) continue
    if (query.status === 'active' && task.phase !== 'active') continue
    for (const entry of itemsOf(task.sessions)) {
      if (found.length === query.limit) break
      if (query.status === 'active' ? entry.phase === 'ended' : query.status !== null && query.status !== sessionStatus(entry)) continue
      if (query.gateway !== null && query.gateway !== placeOf(task, entry)) continue
      found.push(sessionView(task, entry))
    }
  }
  return found
}

export function gatewayViews(state: ServerState): readonly GatewayView[] {
  return [...state.gateways.values()].filter(isListed).map((entry) => gatewayView(state, entry))
}

/** One that drains is gone with its last session. */
export function isListed({ draining, agents, captures }: GatewayEntry): boolean {
  return !draining || agents + captures > 0
}

export function gatewayView({ admission }: ServerState, entry: GatewayEntry): GatewayView {
  return {
    gateway: entry.gateway,
    url: entry.url,
    healthy: entry.healthy,
    draining: entry.draining || admission === 'stopped',
    sessions: entry.agents + entry.captures,
    demand: entry.demand,
    limits: entry.limits,
  }
}

export function serverStatus(state: ServerState): ServerStatus {
  const tasks = state.order.flatMap((task) => {
    const entry = findTask(state, task)
    return entry === null ? [] : [{ task, status: taskStatus(entry) }]
  })
  return { tasks, pendingSessions: state.pendingSessions, openSessions: state.openSessions }
}

export function sessionView(task: TaskEntry, entry: SessionEntry): SessionView {
  return {
    kind: kindOf(task),
    session: entry.session,
    task: nameOf(task),
    gateway: placeOf(task, entry),
    attempt: entry.attempt,
    earlier: entry.earlier,
    status: sessionStatus(entry),
    createdAtMs: task.createdAtMs,
    summary: entry.phase === 'ended' ? entry.summary : null,
  }
}

/** Where it is, was last, or is to go. */
function placeOf(task: TaskEntry, entry: SessionEntry): GatewayId | null {
  return (entry.phase === 'pending' ? null : entry.gateway) ?? task.single?.gateway ?? null
}

function sessionStatus(session: SessionEntry): SessionStatus {
  switch (session.phase) {
    case 'pending':
      return 'REGISTERED'
    case 'dispatched':
      return session.status
    case 'settling':
      return 'POST_RUN'
    case 'ended':
      return session.summary.status
    default:
      return unreachable(session)
  }
}

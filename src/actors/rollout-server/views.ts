// What readers see of the rollout server's state: totals are kept, so a view costs what it shows.
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import type { TaskStatus } from '../../contract/task.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { lookUp } from '../table.ts'
import type { ServerState, SessionEntry, TaskEntry } from './entries.ts'
import type { GatewayView, RolloutServerCommand, ServerStatus, SessionView, TaskView } from './protocol.ts'

export function taskStatus(entry: TaskEntry): TaskStatus {
  switch (entry.phase) {
    case 'recording':
      return entry.cancelled ? 'cancelling' : 'running'
    case 'active':
    case 'ending':
      return entry.stop === 'cancelled by the trainer' ? 'cancelling' : 'running'
    case 'ended':
      return entry.final
    default:
      return unreachable(entry)
  }
}

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

export function readTask(state: ServerState, task: TaskId): TaskView | null {
  const entry = lookUp(state.tasks, task)
  return entry === undefined ? null : fullView(entry)
}

export function fullView(entry: TaskEntry): TaskView {
  return taskView(
    entry,
    entry.sessions.map((session) => sessionView(entry, session)),
  )
}

export function listTasks(
  state: ServerState,
  query: Pick<Extract<RolloutServerCommand, { readonly type: 'list-tasks' }>, 'status' | 'harness' | 'sinceMs' | 'limit'>,
): readonly TaskView[] {
  const found: TaskView[] = []
  for (let i = state.order.length - 1; i >= 0 && found.length < query.limit; i -= 1) {
    const id = state.order[i]
    const entry = id === undefined ? undefined : lookUp(state.tasks, id)
    if (entry === undefined) continue
    const view = taskView(entry, [])
    if (query.status !== null && view.status !== query.status) continue
    if (query.harness !== null && view.harness !== query.harness) continue
    if (query.sinceMs !== null && view.updatedAtMs < query.sinceMs) continue
    found.push(view)
  }
  return found
}

export function readSession(state: ServerState, session: SessionId): SessionView | null {
  const place = lookUp(state.index, session)
  const entry = place === undefined ? undefined : lookUp(state.tasks, place.task)
  const found = place === undefined ? undefined : entry?.sessions[place.sample]
  return entry === undefined || found === undefined ? null : sessionView(entry, found)
}

export function gatewayViews(state: ServerState): readonly GatewayView[] {
  return [...state.gateways.values()].map((entry) => ({
    gateway: entry.gateway,
    url: entry.url,
    healthy: entry.healthy,
    draining: state.admission === 'stopped',
    sessions: entry.sessions.length,
    demand: entry.demand,
    limits: entry.limits,
  }))
}

export function serverStatus(state: ServerState): ServerStatus {
  const tasks = state.order.flatMap((task) => {
    const entry = lookUp(state.tasks, task)
    return entry === undefined ? [] : [{ task, status: taskStatus(entry) }]
  })
  return { tasks, pendingSessions: state.pendingSessions, openSessions: state.openSessions }
}

function sessionView(entry: TaskEntry, session: SessionEntry): SessionView {
  return {
    kind: 'agent',
    session: session.session,
    task: entry.task,
    gateway: session.phase === 'pending' ? null : session.gateway,
    attempt: session.attempt,
    earlier: entry.earlier.get(session.session) ?? [],
    status: sessionStatus(session),
    createdAtMs: entry.createdAtMs,
    summary: session.phase === 'ended' ? session.summary : null,
  }
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

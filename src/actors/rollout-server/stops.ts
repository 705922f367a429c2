// How sessions are stopped before they have ended: a cancelled task, an early stop, one deleted session, a node that stops.
import type { Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { CancelReason } from '../gateway/protocol.ts'
import { itemsOf, mapItems } from '../roster.ts'
import { lookUp } from '../table.ts'
import type { ActiveTask } from './entries.ts'
import type { EarlyStopAccount, RolloutServerCommand } from './protocol.ts'
import { EARLY_STOP, endWithoutReport, type Silence, settleLater, settlingEntry } from './settling.ts'
import { findSession, publishTask, putTask, reply, sendCancel, type Turn, takeOutOfLine, withSession } from './turn.ts'
import { readSession } from './views.ts'

/** Every session that has not ended is ended: those at a gateway by it, the others here. A second stop only changes the reason. */
export function stopTask(turn: Turn, task: ActiveTask, reason: CancelReason) {
  const stopped: ActiveTask = {
    ...task,
    stop: reason,
    updatedAtMs: turn.now.wallMs,
    earlyStop: reason === EARLY_STOP ? accountOf(task, turn.now.nowMs) : task.earlyStop,
    // A session that was deleted by itself keeps that reason.
    sessions: mapItems(task.sessions, (entry) =>
      entry.phase === 'dispatched' && entry.stop !== 'deleted' ? { ...entry, stop: reason } : entry,
    ),
  }
  turn.state = putTask(turn.state, stopped)
  publishTask(turn, 'task.updated', stopped)
  for (const entry of itemsOf(task.sessions)) {
    if (entry.phase === 'dispatched' && entry.stop === null) sendCancel(turn, entry, reason)
  }
  withdraw(turn, stopped, reason)
}

/** Ends the sessions that wait for a gateway; those at one are left alone. */
export function withdraw(turn: Turn, task: ActiveTask, silence: Silence) {
  if (task.pending === 0) return
  const waiting = itemsOf(task.sessions).flatMap((entry) => (entry.phase === 'pending' ? [entry.session] : []))
  const left: ActiveTask = {
    ...task,
    pending: 0,
    updatedAtMs: turn.now.wallMs,
    sessions: mapItems(task.sessions, (entry) => (entry.phase === 'pending' ? settlingEntry(turn, task, entry, silence) : entry)),
  }
  const state = takeOutOfLine(putTask(turn.state, left), left)
  turn.state = { ...state, pendingSessions: state.pendingSessions - task.pending }
  settleLater(turn, waiting)
}

/** One session of any task; the others go on. */
export function cancelSession(turn: Turn, { session, ask }: Extract<RolloutServerCommand, { readonly type: 'cancel-session' }>) {
  const found = findSession(turn.state, session)
  if (found !== null) stopSession(turn, found, 'deleted')
  reply(turn, ask, readSession(turn.state, session))
}

function stopSession(turn: Turn, { task, sample, entry }: NonNullable<ReturnType<typeof findSession>>, reason: CancelReason) {
  if (task.phase === 'recording') {
    turn.state = putTask(turn.state, { ...task, cancelled: task.cancelled ?? reason })
    return
  }
  if (task.phase !== 'active') return
  const touched: ActiveTask = { ...task, updatedAtMs: turn.now.wallMs }
  switch (entry.phase) {
    case 'pending': {
      endWithoutReport(turn, touched, sample, entry, reason)
      turn.state = { ...turn.state, pendingSessions: turn.state.pendingSessions - 1 }
      if (task.pending === 1) turn.state = takeOutOfLine(turn.state, task)
      return
    }
    case 'dispatched':
      if (entry.stop !== null) return
      turn.state = putTask(turn.state, withSession(touched, sample, { ...entry, stop: reason }))
      return sendCancel(turn, entry, reason)
    case 'settling':
    case 'ended':
      return
    default:
      return unreachable(entry)
  }
}

export function stopAdmission(turn: Turn, ask: Ask<void>) {
  turn.state = { ...turn.state, admission: 'stopped' }
  for (const id of turn.state.order) {
    const task = lookUp(turn.state.tasks, id)
    if (task?.phase === 'active') withdraw(turn, task, 'node is stopping')
  }
  reply(turn, ask, undefined)
}

/** For sessions that did not end while the node waited for them. */
export function stopSessions(turn: Turn, ask: Ask<number>) {
  let stopped = 0
  for (const id of turn.state.order) {
    const task = lookUp(turn.state.tasks, id)
    if (task?.phase !== 'active') continue
    stopped += itemsOf(task.sessions).filter((entry) => entry.phase === 'dispatched').length
    // One that is being stopped already keeps the reason it was given.
    if (task.stop === null) stopTask(turn, task, 'node is stopping')
  }
  reply(turn, ask, stopped)
}

function accountOf(task: ActiveTask, nowMs: number): EarlyStopAccount {
  const running = itemsOf(task.sessions).flatMap((entry) => (entry.phase === 'dispatched' ? [entry] : []))
  const ages = running.reduce((sum, entry) => sum + nowMs - entry.dispatchedAtMs, 0)
  return {
    threshold: task.request.early_stop_min_usable_sessions ?? 0,
    usable: task.totals.usable,
    finished: task.totals.ended,
    meanFinishedMs: task.totals.ended === 0 ? 0 : task.totals.ranMs / task.totals.ended,
    stoppedRunning: running.length,
    meanStoppedMs: running.length === 0 ? 0 : ages / running.length,
    stoppedWaiting: task.pending,
  }
}

// How sessions and tasks end: results and new attempts, early stop, the task's own end and its delivery.
import type { GatewayId, SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { TaskStatus } from '../../contract/task.ts'
import type { Answer } from '../../kernel/ask.ts'
import type { Recorded, SettledResult } from '../ledger/protocol.ts'
import { itemsOf } from '../roster.ts'
import { lookUp } from '../table.ts'
import { freeCapture } from './captures.ts'
import type { ActiveTask, EndedTask, EndingTask, SessionEntry, Totals } from './entries.ts'
import type { EarlierAttempt, FailedAttempt } from './protocol.ts'
import { retire } from './retention.ts'
import { EARLY_STOP, settledOne } from './settling.ts'
import { stopTask } from './stops.ts'
import {
  findDispatched,
  findSession,
  forget,
  gatewayOf,
  type Holding,
  kindOf,
  publishSession,
  publishTask,
  putBack,
  putTask,
  type Turn,
  withSession,
} from './turn.ts'

const AGAIN_MS = 1_000
/** Of the error of an earlier attempt: what came after it says more. */
const MAX_ERROR_CHARS = 1_000

/** The result is durable already. Facts of an older attempt, or told twice, find no dispatched session of that attempt. */
export function sessionFinished(turn: Turn, session: SessionId, attempt: number, summary: SessionSummary) {
  const holding = findDispatched(turn.state, session)
  if (holding === null || holding.entry.attempt !== attempt) return
  turn.state = forget(turn.state, holding)
  if (summary.retryable && mayAttemptAgain(turn, holding)) return attemptAgain(turn, holding, summary)
  const { gateway, earlier, dispatchedAtMs } = holding.entry
  const ranMs = turn.now.nowMs - dispatchedAtMs
  endSession(turn, holding.task, holding.sample, { session, attempt, earlier, gateway, summary, ranMs })
}

export function mayAttemptAgain({ state }: Turn, { task, entry }: Holding): boolean {
  const pinned = task.single?.gateway ?? null
  if (pinned !== null && gatewayOf(state, pinned).draining) return false
  return entry.stop === null && entry.attempt < maxAttemptsOf(task, state.limits.maxAttempts) && state.admission === 'open'
}

/** What was started elsewhere is not started again from here. */
export function maxAttemptsOf(task: ActiveTask, maxAttempts: number): number {
  return kindOf(task) === 'capture' ? 1 : maxAttempts
}

/** The session waits for a gateway again, as its next attempt; why this one failed stays known. */
export function attemptAgain(turn: Turn, holding: Holding, { outcome, error }: FailedAttempt) {
  const { attempt, gateway, earlier } = holding.entry
  const failed: EarlierAttempt = { attempt, gateway, outcome, error: error?.slice(0, MAX_ERROR_CHARS) ?? null }
  const next = { attempt: attempt + 1, earlier: [...earlier, failed] }
  putBack(turn, holding, next)
  publishSession(turn, holding.task, { session: holding.entry.session, gateway, ...next }, 'REGISTERED')
}

export function settled(turn: Turn, session: SessionId, attempt: number, answer: Answer<SettledResult>) {
  const found = findSession(turn.state, session)
  if (found?.task.phase === 'active' && found.entry.phase === 'settling' && found.entry.attempt === attempt) {
    const { gateway, earlier } = found.entry
    if (answer.ok && answer.value.type === 'settled') {
      endSession(turn, found.task, found.sample, { session, attempt, earlier, gateway, summary: answer.value.summary, ranMs: 0 })
    } else {
      turn.effects.push({ type: 'after', delayMs: AGAIN_MS, message: { type: 'settle-again', session } })
    }
  }
  settledOne(turn)
}

export function recordEnd(turn: Turn, id: TaskId) {
  const task = lookUp(turn.state.tasks, id)
  if (task?.phase === 'ending') turn.effects.push({ type: 'record-end', task: id, status: task.final })
}

export function endRecorded(turn: Turn, id: TaskId, answer: Answer<Recorded>) {
  const task = lookUp(turn.state.tasks, id)
  if (task?.phase !== 'ending') return
  const again = !answer.ok || (answer.value.type === 'refused' && answer.value.reason === 'full')
  if (again) return void turn.effects.push({ type: 'after', delayMs: AGAIN_MS, message: { type: 'end-again', task: id } })
  if (answer.value.type === 'refused') {
    turn.effects.push({ type: 'report', detail: `the ledger refuses the end of task ${id}: ${answer.value.detail}` })
  }
  const { stop: _, phase: __, ...base } = task
  const delivery = task.request.callback_url == null ? 'none' : 'pending'
  const ended: EndedTask = { ...base, phase: 'ended', delivery, updatedAtMs: turn.now.wallMs }
  turn.state = { ...putTask(turn.state, ended), ended: [...turn.state.ended, id] }
  publishTask(turn, 'task.completed', ended)
  deliver(turn, ended)
  retire(turn)
}

export function deliverRefused(turn: Turn, task: TaskId) {
  turn.effects.push({ type: 'after', delayMs: AGAIN_MS, message: { type: 'deliver-again', task } })
}

export function deliverAgain(turn: Turn, id: TaskId) {
  const task = lookUp(turn.state.tasks, id)
  if (task?.phase === 'ended') deliver(turn, task)
}

/** Driven again by hand, whatever became of it: the task is kept until that has come to its end too. */
export function reopenDelivery(turn: Turn, id: TaskId) {
  const task = lookUp(turn.state.tasks, id)
  if (task?.phase === 'ended') turn.state = putTask(turn.state, { ...task, delivery: 'pending' })
}

export function taskDelivered(turn: Turn, id: TaskId, delivery: 'delivered' | 'dead') {
  const task = lookUp(turn.state.tasks, id)
  if (task?.phase !== 'ended' || task.delivery !== 'pending') return
  turn.state = putTask(turn.state, { ...task, delivery })
  retire(turn)
}

type Ending = Pick<SessionEntry, 'session' | 'attempt' | 'earlier'> & {
  readonly gateway: GatewayId | null
  readonly summary: SessionSummary
  readonly ranMs: number
}

/** The one place where a session becomes terminal. */
function endSession(turn: Turn, task: ActiveTask, sample: number, { ranMs, ...ending }: Ending) {
  const { summary } = ending
  const next: ActiveTask = {
    ...withSession(task, sample, { phase: 'ended', ...ending }),
    totals: add(task.totals, summary, ranMs),
    updatedAtMs: turn.now.wallMs,
  }
  turn.state = freeCapture({ ...putTask(turn.state, next), openSessions: turn.state.openSessions - 1 }, next)
  turn.effects.push({ type: 'tell-session-ended', session: ending.session, attempt: ending.attempt })
  publishSession(turn, next, ending, summary.status, summary)
  publishTask(turn, 'task.updated', next)
  if (next.totals.ended === next.sessions.length) return endTask(turn, next)
  const threshold = next.request.early_stop_min_usable_sessions
  if (threshold != null && next.stop === null && next.totals.usable >= threshold) stopTask(turn, next, EARLY_STOP)
}

function endTask(turn: Turn, task: ActiveTask) {
  const ending: EndingTask = { ...task, phase: 'ending', final: finalStatus(task) }
  turn.state = putTask(turn.state, ending)
  recordEnd(turn, task.task)
}

function finalStatus({ stop, totals, sessions }: ActiveTask): TaskStatus {
  if (stop === 'cancelled by the trainer') return 'cancelled'
  return totals.errored === sessions.length ? 'failed' : 'completed'
}

/** The outbox also hears of a task that goes to nobody: it may be driven somewhere later. */
function deliver(turn: Turn, task: EndedTask) {
  const sessions = itemsOf(task.sessions)
  turn.effects.push({
    type: 'deliver',
    task: task.task,
    url: task.request.callback_url ?? null,
    shape: task.single === null ? 'task' : 'session',
    status: task.final,
    sessions: sessions.map((entry) => entry.session),
    attempts: sessions.map((entry) => entry.attempt),
  })
}

function add(totals: Totals, summary: SessionSummary, ranMs: number): Totals {
  return {
    ended: totals.ended + 1,
    errored: totals.errored + (summary.status === 'ERROR' ? 1 : 0),
    usable: totals.usable + (summary.usable ? 1 : 0),
    rewardSum: totals.rewardSum + (summary.reward ?? 0),
    rewarded: totals.rewarded + (summary.reward === null ? 0 : 1),
    traces: totals.traces + summary.traces,
    calls: totals.calls + summary.calls,
    ranMs: totals.ranMs + ranMs,
  }
}

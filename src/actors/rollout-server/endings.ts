// How sessions and tasks end: retries, cancels, early stop, results without a reporter, the task's own end, delivery and retention.
import type { GatewayId, SessionId, TaskId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { TaskStatus } from '../../contract/task.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import type { ResultFacts } from '../builder/protocol.ts'
import type { CancelReason } from '../gateway/protocol.ts'
import type { Recorded, SettledResult } from '../ledger/protocol.ts'
import { lookUp, remove } from '../table.ts'
import type { ActiveTask, EndedTask, EndingTask, SessionEntry, TaskEntry, Totals } from './entries.ts'
import type { EarlierAttempt, EarlyStopAccount } from './protocol.ts'
import { dequeue } from './queue.ts'
import {
  type Dispatched,
  findDispatched,
  forget,
  type Holding,
  publishSession,
  putBack,
  putTask,
  reply,
  sendCancel,
  type Turn,
  withSession,
} from './turn.ts'
import { taskStatus } from './views.ts'

const EARLY_STOP: CancelReason = 'stopped early: enough usable sessions'
/** Results without traces asked of the ledger at once: its mailbox also serves the sessions. */
const MAX_SETTLING = 32
const AGAIN_MS = 1_000

/** Why nobody will report a result for a session. */
type Silence = CancelReason | 'gateway lost'
type Unreported = Extract<SessionEntry, { readonly phase: 'pending' | 'dispatched' }>

/** The result is durable already. Facts of an older attempt, or told twice, find no dispatched session of that attempt. */
export function sessionFinished(turn: Turn, session: SessionId, attempt: number, summary: SessionSummary) {
  const holding = findDispatched(turn.state, session)
  if (holding === null || holding.entry.attempt !== attempt) return
  turn.state = forget(turn.state, holding.entry.gateway, session)
  if (summary.retryable && mayAttemptAgain(turn, holding)) return attemptAgain(turn, holding, summary)
  const ranMs = turn.now.nowMs - holding.entry.dispatchedAtMs
  endSession(turn, holding.task, holding.sample, { session, attempt, gateway: holding.entry.gateway, summary, ranMs })
}

export function mayAttemptAgain({ state }: Turn, { task, entry }: Holding): boolean {
  return task.stop === null && entry.attempt < state.limits.maxAttempts && state.admission === 'open'
}

/** The session waits for a gateway again, as its next attempt; why this one failed stays known. */
export function attemptAgain(turn: Turn, { task, sample, entry }: Holding, { outcome, error }: Pick<SessionSummary, 'outcome' | 'error'>) {
  const { session, attempt, gateway } = entry
  const failed: EarlierAttempt = { attempt, gateway, outcome, error }
  const earlier = new Map(task.earlier).set(session, [...(task.earlier.get(session) ?? []), failed])
  putBack(turn, { task: { ...task, earlier }, sample, entry }, attempt + 1)
  publishSession(turn, task.task, session, attempt + 1, 'REGISTERED')
}

/** How a session ends whose gateway took it along. */
export function lostWith(gateway: GatewayId | null): Pick<SessionSummary, 'outcome' | 'error'> {
  return { outcome: 'interrupted', error: `the gateway ${gateway} was lost while it held the session` }
}

/** Every session that has not ended is ended: those at a gateway by it, the others here. A second stop only changes the reason. */
export function stopTask(turn: Turn, task: ActiveTask, reason: CancelReason) {
  const stopped: ActiveTask = {
    ...task,
    stop: reason,
    updatedAtMs: turn.now.wallMs,
    earlyStop: reason === EARLY_STOP ? accountOf(task, turn.now.nowMs) : task.earlyStop,
    sessions: task.sessions.map((entry) => (entry.phase === 'dispatched' ? { ...entry, stop: reason } : entry)),
  }
  turn.state = putTask(turn.state, stopped)
  turn.effects.push({
    type: 'publish',
    event: { type: 'task.updated', task: task.task, status: taskStatus(stopped), atMs: turn.now.wallMs },
  })
  for (const entry of task.stop === null ? stopped.sessions : []) if (entry.phase === 'dispatched') sendCancel(turn, entry, reason)
  withdraw(turn, stopped, reason)
}

/** Ends the sessions that wait for a gateway; those at one are left alone. */
export function withdraw(turn: Turn, task: ActiveTask, reason: CancelReason) {
  if (task.waiting.length === 0) return
  const waiting = task.waiting.flatMap((sample) => task.sessions[sample]?.session ?? [])
  const left: ActiveTask = {
    ...task,
    waiting: [],
    updatedAtMs: turn.now.wallMs,
    sessions: task.sessions.map((entry) => (entry.phase === 'pending' ? settlingEntry(turn, task, entry, reason) : entry)),
  }
  turn.state = {
    ...putTask(turn.state, left),
    queue: dequeue(turn.state.queue, task.task),
    pendingSessions: turn.state.pendingSessions - task.waiting.length,
  }
  settleLater(turn, waiting)
}

/** For sessions that did not end while the node waited for them. */
export function stopSessions(turn: Turn, ask: Ask<number>) {
  let stopped = 0
  for (const id of turn.state.order) {
    const task = lookUp(turn.state.tasks, id)
    if (task?.phase !== 'active') continue
    stopped += task.sessions.filter((entry) => entry.phase === 'dispatched').length
    // One that is being stopped already keeps the reason it was given.
    if (task.stop === null) stopTask(turn, task, 'node is stopping')
  }
  reply(turn, ask, stopped)
}

export function awaitDeliveries(turn: Turn, ask: Ask<void>) {
  turn.state = { ...turn.state, awaitingDeliveries: [...turn.state.awaitingDeliveries, ask] }
}

export function answerIfDelivered(turn: Turn) {
  const { awaitingDeliveries, openSessions, tasks, ended } = turn.state
  if (awaitingDeliveries.length === 0 || openSessions > 0 || ended.length < tasks.size) return
  for (const id of ended) {
    const task = lookUp(tasks, id)
    if (task?.phase === 'ended' && task.delivery === 'pending') return
  }
  turn.state = { ...turn.state, awaitingDeliveries: [] }
  for (const ask of awaitingDeliveries) reply(turn, ask, undefined)
}

/** Ends a session that no gateway holds any more with a result that has no traces. */
export function endWithoutReport(turn: Turn, { task, sample, entry }: Holding, silence: Silence) {
  turn.state = putTask(turn.state, withSession(task, sample, settlingEntry(turn, task, entry, silence)))
  settleLater(turn, [entry.session])
}

function settlingEntry(turn: Turn, task: ActiveTask, entry: Unreported, silence: Silence): SessionEntry {
  const { session, attempt } = entry
  const gateway = entry.phase === 'dispatched' ? entry.gateway : null
  const { metadata, evaluator } = task.request
  const facts: ResultFacts = {
    session,
    task: task.task,
    attempt,
    node: gateway ?? '',
    ...(silence === 'gateway lost' ? lostWith(gateway) : { outcome: 'cancelled', error: `session cancelled: ${silence}` }),
    timing: entry.phase === 'dispatched' ? { e2e_ms: turn.now.nowMs - task.admittedAtMs } : {},
    taskMetadata: silence === EARLY_STOP ? { ...metadata, early_stop_cancelled: true, fully_masked: true } : metadata,
    agentResult: {},
    evaluation: null,
    evaluator: evaluator?.strategy ?? null,
    calls: 0,
  }
  return { phase: 'settling', session, attempt, gateway, facts }
}

export function settled(turn: Turn, session: SessionId, attempt: number, answer: Answer<SettledResult>) {
  turn.state = { ...turn.state, settling: { ...turn.state.settling, inFlight: turn.state.settling.inFlight - 1 } }
  const place = lookUp(turn.state.index, session)
  const task = place === undefined ? undefined : lookUp(turn.state.tasks, place.task)
  const entry = place === undefined ? undefined : task?.sessions[place.sample]
  if (place !== undefined && task?.phase === 'active' && entry?.phase === 'settling' && entry.attempt === attempt) {
    if (answer.ok && answer.value.type === 'settled') {
      endSession(turn, task, place.sample, { session, attempt, gateway: entry.gateway, summary: answer.value.summary, ranMs: 0 })
    } else {
      turn.effects.push({ type: 'after', delayMs: AGAIN_MS, message: { type: 'settle-again', session } })
    }
  }
  settleNext(turn)
}

/** Puts sessions at the end of the line for the ledger. */
export function settleLater(turn: Turn, sessions: readonly SessionId[]) {
  const { settling } = turn.state
  turn.state = { ...turn.state, settling: { ...settling, line: [...settling.line, ...sessions] } }
  settleNext(turn)
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
  turn.effects.push({ type: 'publish', event: { type: 'task.completed', task: id, status: ended.final, atMs: turn.now.wallMs } })
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

export function taskDelivered(turn: Turn, id: TaskId, delivery: 'delivered' | 'dead') {
  const task = lookUp(turn.state.tasks, id)
  if (task?.phase !== 'ended' || task.delivery !== 'pending') return
  turn.state = putTask(turn.state, { ...task, delivery })
  retire(turn)
}

type Ending = {
  readonly session: SessionId
  readonly attempt: number
  readonly gateway: Dispatched['gateway'] | null
  readonly summary: SessionSummary
  readonly ranMs: number
}

/** The one place where a session becomes terminal. */
function endSession(turn: Turn, task: ActiveTask, sample: number, { session, attempt, gateway, summary, ranMs }: Ending) {
  const next: ActiveTask = {
    ...withSession(task, sample, { phase: 'ended', session, attempt, gateway, summary }),
    totals: add(task.totals, summary, ranMs),
    updatedAtMs: turn.now.wallMs,
  }
  turn.state = { ...putTask(turn.state, next), openSessions: turn.state.openSessions - 1 }
  const atMs = turn.now.wallMs
  const { status } = summary
  turn.effects.push(
    { type: 'publish', event: { type: 'session.state_changed', session, task: task.task, status, attempt, summary, atMs } },
    { type: 'publish', event: { type: 'task.updated', task: task.task, status: taskStatus(next), atMs } },
  )
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

function settleNext(turn: Turn) {
  for (;;) {
    const { inFlight, line } = turn.state.settling
    const session = line[0]
    if (session === undefined || inFlight >= MAX_SETTLING) return
    const place = lookUp(turn.state.index, session)
    const entry = place === undefined ? undefined : lookUp(turn.state.tasks, place.task)?.sessions[place.sample]
    const settles = entry?.phase === 'settling'
    turn.state = { ...turn.state, settling: { inFlight: inFlight + (settles ? 1 : 0), line: line.slice(1) } }
    if (settles) turn.effects.push({ type: 'settle', facts: entry.facts })
  }
}

function deliver(turn: Turn, task: EndedTask) {
  const url = task.request.callback_url
  if (url == null || task.delivery !== 'pending') return
  turn.effects.push({
    type: 'deliver',
    task: task.task,
    url,
    status: task.final,
    sessions: task.sessions.map((entry) => entry.session),
    attempts: task.sessions.map((entry) => entry.attempt),
  })
}

/** Drops ended tasks over the limit: the oldest whose result was taken or never had a taker, then the oldest dead letter; undelivered never. */
function retire(turn: Turn) {
  while (turn.state.ended.length > turn.state.limits.maxKeptTasks) {
    const kept = turn.state.ended.map((id) => lookUp(turn.state.tasks, id)).filter((task) => task?.phase === 'ended')
    const victim =
      kept.find((task) => task.delivery === 'delivered' || task.delivery === 'none') ?? kept.find((task) => task.delivery === 'dead')
    if (victim === undefined) return
    drop(turn, victim)
  }
}

function drop(turn: Turn, task: TaskEntry) {
  let index = turn.state.index
  for (const { session } of task.sessions) index = remove(index, session)
  turn.state = {
    ...turn.state,
    tasks: remove(turn.state.tasks, task.task),
    order: turn.state.order.filter((id) => id !== task.task),
    ended: turn.state.ended.filter((id) => id !== task.task),
    index,
  }
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

function accountOf(task: ActiveTask, nowMs: number): EarlyStopAccount {
  const running = task.sessions.filter((entry) => entry.phase === 'dispatched')
  const ages = running.reduce((sum, entry) => sum + nowMs - entry.dispatchedAtMs, 0)
  return {
    threshold: task.request.early_stop_min_usable_sessions ?? 0,
    usable: task.totals.usable,
    finished: task.totals.ended,
    meanFinishedMs: task.totals.ended === 0 ? 0 : task.totals.ranMs / task.totals.ended,
    stoppedRunning: running.length,
    meanStoppedMs: running.length === 0 ? 0 : ages / running.length,
    stoppedWaiting: task.waiting.length,
  }
}

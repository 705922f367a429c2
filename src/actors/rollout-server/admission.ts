// How a task comes in and how the trainer takes it back: idempotent submits, the admission limit, cancels and tombstones.
import { type SessionId, type TaskId, taskId } from '../../contract/ids.ts'
import type { TaskRequest } from '../../contract/task.ts'
import type { Answer } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Recorded } from '../ledger/protocol.ts'
import { itemAt, rosterOf } from '../roster.ts'
import { lookUp } from '../table.ts'
import { freeCapture, takeCapture } from './captures.ts'
import type { ActiveTask, RecordingTask, RolloutServerSignal, ServerState, Single, Submitter, TaskEntry, Totals } from './entries.ts'
import type { RolloutServerCommand, SubmitReply } from './protocol.ts'
import { drop, keep } from './retention.ts'
import { stopTask, withdraw } from './stops.ts'
import { taskStatus } from './task-status.ts'
import { gatewayOf, publishTask, putInLine, putTask, reply, type Turn } from './turn.ts'
import { findTask, fullView, sessionView, tombstoneView } from './views.ts'

const TOMBSTONE_MS = 300_000
const MAX_TOMBSTONES = 10_000
/** Submits of one task that may wait for the same record; a trainer's client repeats itself a few times, not more. */
const MAX_WAITING_SUBMITS = 16

/** What a task and a session by itself may both be told. */
type Refusal = Extract<SubmitReply, { readonly type: 'conflict' | 'overloaded' | 'not-recorded' }>

export const OVERLOADED = { type: 'overloaded', retryAfterSeconds: 5 } as const

const NO_TOTALS: Totals = { ended: 0, errored: 0, usable: 0, rewardSum: 0, rewarded: 0, traces: 0, calls: 0, ranMs: 0 }

export function admit(turn: Turn, message: Extract<RolloutServerSignal, { readonly type: 'admit' }>) {
  const { request, digest, sessions, ask } = message
  const task = taskId(request.task_id)
  const submitter: Submitter = { of: 'task', ask }
  const known = lookUp(turn.state.tasks, task)
  if (known !== undefined) return answerKnown(turn, known, digest, submitter)
  const tombstone = turn.state.tombstones.get(task)
  if (tombstone !== undefined && tombstone > turn.now.nowMs) {
    return reply(turn, ask, { type: 'conflict', detail: `task ${task} was cancelled before it was submitted` })
  }
  if (turn.state.admission === 'stopped') return reply(turn, ask, { type: 'not-recorded', detail: 'the node is stopping' })
  if (!hasRoom(turn.state, request.num_samples)) return reply(turn, ask, OVERLOADED)
  record(turn, { task, single: null, request, digest, sessions, submitter })
}

type Admitted = {
  readonly task: TaskId
  readonly single: Single | null
  readonly request: TaskRequest
  readonly digest: string
  readonly sessions: readonly SessionId[]
  readonly submitter: Submitter
}

/** Nothing is promised, and nothing is dispatched, before the ledger has it. */
export function record(turn: Turn, { task, single, request, digest, sessions, submitter }: Admitted) {
  const entry: RecordingTask = {
    phase: 'recording',
    task,
    single,
    request,
    digest,
    sequence: turn.state.sequence,
    createdAtMs: turn.now.wallMs,
    updatedAtMs: turn.now.wallMs,
    admittedAtMs: turn.now.nowMs,
    sessions: rosterOf(sessions.map((session) => ({ phase: 'pending', session, attempt: 1, earlier: [] }))),
    pending: sessions.length,
    firstPending: 0,
    totals: NO_TOTALS,
    earlyStop: null,
    submitters: [submitter],
    cancelled: null,
  }
  const { sequence, openSessions } = turn.state
  turn.state = takeCapture({ ...keep(turn.state, entry), sequence: sequence + 1, openSessions: openSessions + sessions.length }, entry)
  turn.effects.push({ type: 'record-task', task, request, sessions })
}

export function taskRecorded(turn: Turn, task: TaskId, answer: Answer<Recorded>) {
  const entry = lookUp(turn.state.tasks, task)
  if (entry?.phase !== 'recording') return
  if (answer.ok && answer.value.type === 'recorded') return activate(turn, entry)
  const dropped = freeCapture(drop(turn.state, entry), entry)
  turn.state = { ...dropped, openSessions: dropped.openSessions - entry.sessions.length }
  const refusal = refusalOf(answer)
  for (const { ask } of entry.submitters) reply<Refusal>(turn, ask, refusal)
  // Without an answer the record may exist: it must not come back as a task nobody was promised.
  if (!answer.ok && answer.error === 'deadline') turn.effects.push({ type: 'record-end', task, status: 'cancelled' })
}

export function cancelTask(turn: Turn, message: Extract<RolloutServerCommand, { readonly type: 'cancel' }>) {
  const { task, ask } = message
  const entry = findTask(turn.state, task)
  if (entry === null) {
    if (!message.registerIfMissing) return reply(turn, ask, null)
    turn.state = { ...turn.state, tombstones: bury(turn.state.tombstones, task, turn.now.nowMs) }
    return reply(turn, ask, tombstoneView(task, turn.now.wallMs))
  }
  switch (entry.phase) {
    case 'recording':
      turn.state = putTask(turn.state, { ...entry, cancelled: 'cancelled by the trainer' })
      break
    case 'active':
      stopTask(turn, entry, 'cancelled by the trainer')
      break
    case 'ending':
    case 'ended':
      break
    default:
      return unreachable(entry)
  }
  const now = findTask(turn.state, task)
  reply(turn, ask, now === null ? null : fullView(now))
}

function answerKnown(turn: Turn, known: TaskEntry, digest: string, submitter: Extract<Submitter, { readonly of: 'task' }>) {
  const { task } = known
  const { ask } = submitter
  if (known.digest !== digest) {
    return reply(turn, ask, { type: 'conflict', detail: `task ${task} was submitted before with a different body` })
  }
  if (known.phase === 'recording') return waitForRecord(turn, known, submitter)
  reply(turn, ask, { type: 'known', task, status: taskStatus(known) })
}

/** The same body again, before the first was answered: both get that answer. */
export function waitForRecord(turn: Turn, recording: RecordingTask, submitter: Submitter) {
  if (recording.submitters.length >= MAX_WAITING_SUBMITS) return reply<Refusal>(turn, submitter.ask, OVERLOADED)
  turn.state = putTask(turn.state, { ...recording, submitters: [...recording.submitters, submitter] })
}

export function hasRoom({ limits, ended, openSessions }: ServerState, sessions: number): boolean {
  // Ended tasks that can be neither delivered nor dropped must not grow without end.
  if (ended.length >= limits.maxKeptTasks * 2) return false
  return openSessions + sessions <= limits.maxAdmittedSessions
}

function activate(turn: Turn, recording: RecordingTask) {
  const { submitters, cancelled, phase: _, ...base } = recording
  const entry: ActiveTask = { ...base, phase: 'active', stop: null }
  const state = putTask(turn.state, entry)
  turn.state = putInLine({ ...state, order: [...state.order, entry.task], pendingSessions: state.pendingSessions + entry.pending }, entry)
  for (const submitter of submitters) answerOpened(turn, entry, submitter)
  publishTask(turn, 'task.created', entry)
  const pinned = entry.single?.gateway ?? null
  if (cancelled !== null) stopTask(turn, entry, cancelled)
  else if (turn.state.admission === 'stopped') withdraw(turn, entry, 'node is stopping')
  else if (pinned !== null && gatewayOf(turn.state, pinned).draining) withdraw(turn, entry, 'its gateway is draining')
}

function answerOpened(turn: Turn, entry: ActiveTask, submitter: Submitter) {
  switch (submitter.of) {
    case 'task':
      return reply(turn, submitter.ask, { type: 'submitted', task: entry.task })
    case 'session': {
      const first = itemAt(entry.sessions, 0)
      if (first === undefined) throw new Error(`task ${entry.task} has no session`)
      return reply(turn, submitter.ask, { type: 'opened', view: sessionView(entry, first) })
    }
    default:
      return unreachable(submitter)
  }
}

function refusalOf(answer: Answer<Recorded>): Refusal {
  if (!answer.ok) return { type: 'not-recorded', detail: `the ledger did not answer: ${answer.error}` }
  switch (answer.value.type) {
    case 'recorded':
      throw new Error('a recorded task has no refusal')
    case 'refused':
      return answer.value.reason === 'conflict'
        ? { type: 'conflict', detail: answer.value.detail }
        : { type: 'not-recorded', detail: answer.value.detail }
    default:
      return unreachable(answer.value)
  }
}

/** Maps keep insertion order and every tombstone lives equally long, so the expired ones come first. */
function bury(tombstones: ReadonlyMap<TaskId, number>, task: TaskId, nowMs: number): ReadonlyMap<TaskId, number> {
  const next = new Map(tombstones)
  next.delete(task)
  next.set(task, nowMs + TOMBSTONE_MS)
  for (const [id, expiresMs] of next) {
    if (expiresMs > nowMs && next.size <= MAX_TOMBSTONES) break
    next.delete(id)
  }
  return next
}

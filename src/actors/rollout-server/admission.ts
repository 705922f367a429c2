// How a task comes in and how the trainer takes it back: idempotent submits, the admission limit, cancels and tombstones.
import { type TaskId, taskId } from '../../contract/ids.ts'
import type { TaskRequest } from '../../contract/task.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Recorded } from '../ledger/protocol.ts'
import { insert, lookUp, remove } from '../table.ts'
import { stopTask, withdraw } from './endings.ts'
import type { ActiveTask, RecordingTask, RolloutServerSignal, ServerState, TaskEntry, Totals } from './entries.ts'
import type { RolloutServerCommand, SubmitReply } from './protocol.ts'
import { enqueue } from './queue.ts'
import { reply, type Turn } from './turn.ts'
import { fullView, taskStatus, tombstoneView } from './views.ts'

const TOMBSTONE_MS = 300_000
const MAX_TOMBSTONES = 10_000
/** Submits of one task that may wait for the same record; a trainer's client repeats itself a few times, not more. */
const MAX_WAITING_SUBMITS = 16
const RETRY_AFTER_SECONDS = 5

const NO_TOTALS: Totals = { ended: 0, errored: 0, usable: 0, rewardSum: 0, rewarded: 0, traces: 0, calls: 0, ranMs: 0 }

export function admit(turn: Turn, message: Extract<RolloutServerSignal, { readonly type: 'admit' }>) {
  const { request, digest, sessions, ask } = message
  const task = taskId(request.task_id)
  const known = lookUp(turn.state.tasks, task)
  if (known !== undefined) return answerKnown(turn, known, digest, ask)
  const tombstone = turn.state.tombstones.get(task)
  if (tombstone !== undefined && tombstone > turn.now.nowMs) {
    return reply(turn, ask, { type: 'conflict', detail: `task ${task} was cancelled before it was submitted` })
  }
  if (turn.state.admission === 'stopped') return reply(turn, ask, { type: 'not-recorded', detail: 'the node is stopping' })
  if (!hasRoom(turn.state, request)) return reply(turn, ask, { type: 'overloaded', retryAfterSeconds: RETRY_AFTER_SECONDS })
  const entry: RecordingTask = {
    phase: 'recording',
    task,
    request,
    digest,
    sequence: turn.state.sequence,
    createdAtMs: turn.now.wallMs,
    updatedAtMs: turn.now.wallMs,
    admittedAtMs: turn.now.nowMs,
    sessions: sessions.map((session) => ({ phase: 'pending', session, attempt: 1 })),
    waiting: sessions.map((_, sample) => sample),
    totals: NO_TOTALS,
    earlyStop: null,
    earlier: new Map(),
    asks: [ask],
    cancelled: false,
  }
  turn.state = {
    ...turn.state,
    sequence: turn.state.sequence + 1,
    tasks: insert(turn.state.tasks, task, entry),
    openSessions: turn.state.openSessions + sessions.length,
  }
  turn.effects.push({ type: 'record-task', task, request, sessions })
}

export function taskRecorded(turn: Turn, task: TaskId, answer: Answer<Recorded>) {
  const entry = lookUp(turn.state.tasks, task)
  if (entry?.phase !== 'recording') return
  if (answer.ok && answer.value.type === 'recorded') return activate(turn, entry)
  turn.state = {
    ...turn.state,
    tasks: remove(turn.state.tasks, task),
    openSessions: turn.state.openSessions - entry.sessions.length,
  }
  const refusal = refusalOf(answer)
  for (const ask of entry.asks) reply(turn, ask, refusal)
  // Without an answer the record may exist: it must not come back as a task nobody was promised.
  if (!answer.ok && answer.error === 'deadline') turn.effects.push({ type: 'record-end', task, status: 'cancelled' })
}

export function cancelTask(turn: Turn, message: Extract<RolloutServerCommand, { readonly type: 'cancel' }>) {
  const { task, ask } = message
  const entry = lookUp(turn.state.tasks, task)
  if (entry === undefined) {
    if (!message.registerIfMissing) return reply(turn, ask, null)
    turn.state = { ...turn.state, tombstones: bury(turn.state.tombstones, task, turn.now.nowMs) }
    return reply(turn, ask, tombstoneView(task, turn.now.wallMs))
  }
  switch (entry.phase) {
    case 'recording':
      turn.state = { ...turn.state, tasks: insert(turn.state.tasks, task, { ...entry, cancelled: true }) }
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
  const now = lookUp(turn.state.tasks, task)
  reply(turn, ask, now === undefined ? null : fullView(now))
}

export function stopAdmission(turn: Turn, ask: Ask<void>) {
  turn.state = { ...turn.state, admission: 'stopped' }
  for (const id of turn.state.order) {
    const task = lookUp(turn.state.tasks, id)
    if (task?.phase === 'active') withdraw(turn, task, 'node is stopping')
  }
  reply(turn, ask, undefined)
}

function answerKnown(turn: Turn, known: TaskEntry, digest: string, ask: Ask<SubmitReply>) {
  const { task } = known
  if (known.digest !== digest) {
    return reply(turn, ask, { type: 'conflict', detail: `task ${task} was submitted before with a different body` })
  }
  if (known.phase !== 'recording') return reply(turn, ask, { type: 'known', task, status: taskStatus(known) })
  if (known.asks.length >= MAX_WAITING_SUBMITS) {
    return reply(turn, ask, { type: 'overloaded', retryAfterSeconds: RETRY_AFTER_SECONDS })
  }
  turn.state = { ...turn.state, tasks: insert(turn.state.tasks, task, { ...known, asks: [...known.asks, ask] }) }
}

function hasRoom(state: ServerState, request: TaskRequest): boolean {
  const { limits } = state
  // Ended tasks that can be neither delivered nor dropped must not grow without end.
  if (state.ended.length >= limits.maxKeptTasks * 2) return false
  return state.openSessions + request.num_samples <= limits.maxAdmittedSessions
}

function activate(turn: Turn, recording: RecordingTask) {
  const { asks, cancelled, phase: _, ...base } = recording
  const entry: ActiveTask = { ...base, phase: 'active', stop: null }
  let index = turn.state.index
  entry.sessions.forEach(({ session }, sample) => {
    index = insert(index, session, { task: entry.task, sample })
  })
  turn.state = {
    ...turn.state,
    tasks: insert(turn.state.tasks, entry.task, entry),
    order: [...turn.state.order, entry.task],
    index,
    queue: enqueue(turn.state.queue, entry),
    pendingSessions: turn.state.pendingSessions + entry.waiting.length,
  }
  for (const ask of asks) reply(turn, ask, { type: 'submitted', task: entry.task })
  turn.effects.push({ type: 'publish', event: { type: 'task.created', task: entry.task, status: 'running', atMs: turn.now.wallMs } })
  if (cancelled) stopTask(turn, entry, 'cancelled by the trainer')
  else if (turn.state.admission === 'stopped') withdraw(turn, entry, 'node is stopping')
}

function refusalOf(answer: Answer<Recorded>): SubmitReply {
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

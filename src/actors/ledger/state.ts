// The ledger in memory: tasks, calls, packed results and deliveries within fixed bounds. Pure; actor.ts answers.
import type { CallRecord } from '../../contract/call.ts'
import { canonicalDigest } from '../../contract/digest.ts'
import { type SessionId, type TaskId, taskId } from '../../contract/ids.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { TaskStatus } from '../../contract/task.ts'
import type { Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { emptyTable, insert, lookUp, remove, type Table } from '../table.ts'
import { bytesOf, type CallLog, callsOf, logBytes } from './call-log.ts'
import { dropCompletions, fitCompletions, type KeptCompletions, keepCompletions, NO_COMPLETIONS, readCompletions } from './completions.ts'
import { append, drop, EMPTY_FEED, type Feed, lose } from './feed.ts'
import { readFeed } from './feed-page.ts'
import type { DeliveryState, FeedPage, LedgerCommand, Recorded, SettledResult, StoredResult } from './protocol.ts'

export type LedgerLimits = {
  /** Ended tasks kept once nobody waits for their delivery. */
  readonly maxKeptTasks: number
  /** Packed results and call records together; undelivered ones are never evicted, so a record over the limit is refused. */
  readonly maxBytes: number
  /** Sessions whose call records are kept after their result was recorded. */
  readonly maxCallLogs: number
}

type TaskRow = {
  /** What readers are told: another than its key when it is the task of a session by itself. */
  readonly name: TaskId
  readonly digest: string
  readonly sessions: readonly SessionId[]
  readonly callback: boolean
  readonly ended: TaskStatus | null
  readonly delivery: DeliveryState | null
  /** Of its end in the feed; null before it has ended. */
  readonly place: number | null
}

type ResultRow = {
  readonly task: TaskId
  readonly attempt: number
  /** In the feed; null while another attempt may replace it. */
  readonly place: number | null
  readonly summary: SessionSummary
  readonly payload: ArrayBuffer
}

export type LedgerState = {
  /** Tells its cursors from those of any other ledger. */
  readonly identity: string
  readonly limits: LedgerLimits
  readonly tasks: Table<TaskId, TaskRow>
  /** Sessions of recorded tasks. */
  readonly owners: Table<SessionId, TaskId>
  readonly results: Table<SessionId, ResultRow>
  readonly calls: Table<SessionId, CallLog>
  /** Not part of `bytes`: they have what is left of the limit. */
  readonly completions: KeptCompletions
  /** Tasks that may be evicted, oldest first. */
  readonly settled: readonly TaskId[]
  /** Sessions with a call log that nobody is about to need: their result is recorded, or their task is not. Oldest first. */
  readonly finishedLogs: readonly SessionId[]
  readonly feed: Feed
  readonly bytes: number
}

export type LedgerEffect = { readonly type: 'reply'; readonly ask: Ask<never>; readonly value: unknown }

const RECORDED: Recorded = { type: 'recorded' }

export function emptyLedger(limits: LedgerLimits, identity: string): LedgerState {
  return {
    identity,
    limits,
    tasks: emptyTable(),
    owners: emptyTable(),
    results: emptyTable(),
    calls: emptyTable(),
    completions: NO_COMPLETIONS,
    settled: [],
    finishedLogs: [],
    feed: EMPTY_FEED,
    bytes: 0,
  }
}

export function step(state: LedgerState, command: LedgerCommand): readonly [LedgerState, readonly LedgerEffect[]] {
  switch (command.type) {
    case 'record-task':
      return answer(command.ask, recordTask(state, command))
    case 'record-call':
      return answer(command.ask, recordCall(state, command.call))
    case 'record-result':
      return answer(command.ask, recordResult(state, command))
    case 'settle-result':
      return answer<SettledResult>(command.ask, settleResult(state, command))
    case 'session-ended':
      return [endSession(state, command.session, command.attempt), []]
    case 'record-task-ended':
      return answer(command.ask, recordEnd(state, command.task, command.status))
    case 'record-delivery':
      return answer(command.ask, recordDelivery(state, command.task, command.state))
    case 'read-result':
      return answer<StoredResult>(command.ask, [state, readResult(state, command.session)])
    case 'read-completions':
      return answer<ArrayBuffer | null>(command.ask, [state, readCompletions(state.completions, command.session)])
    case 'read-feed':
      return answer<FeedPage>(command.ask, [state, readFeed(state, command)])
    case 'read-calls':
      return answer<readonly CallRecord[]>(command.ask, [state, callsOf(lookUp(state.calls, command.session))])
    default:
      return unreachable(command)
  }
}

type Outcome<R> = readonly [LedgerState, R]

function answer<R>(ask: Ask<R>, [state, value]: Outcome<R>): readonly [LedgerState, readonly LedgerEffect[]] {
  const completions = fitCompletions(state.completions, state.limits.maxBytes - state.bytes)
  return [{ ...state, completions }, [{ type: 'reply', ask, value }]]
}

function refused(
  state: LedgerState,
  reason: Extract<Recorded, { readonly type: 'refused' }>['reason'],
  detail: string,
): Outcome<Extract<Recorded, { readonly type: 'refused' }>> {
  return [state, { type: 'refused', reason, detail }]
}

function recordTask(state: LedgerState, command: Extract<LedgerCommand, { readonly type: 'record-task' }>): Outcome<Recorded> {
  const id = command.key
  const digest = canonicalDigest(command.task)
  const known = lookUp(state.tasks, id)
  if (known !== undefined) {
    if (known.digest !== digest) return refused(state, 'conflict', `task ${id} is recorded with a different body`)
    const started = known.sessions.some((session) => lookUp(state.results, session) !== undefined)
    const same = known.sessions.length === command.sessions.length && known.sessions.every((session, i) => session === command.sessions[i])
    if (same && known.ended === null) return [state, RECORDED]
    // A record that was never acknowledged: the trainer submitted again and got new session ids.
    if (started) return refused(state, 'conflict', `task ${id} is recorded with other sessions`)
  }
  const taken = command.sessions.find((session) => (lookUp(state.owners, session) ?? id) !== id)
  if (taken !== undefined) return refused(state, 'conflict', `session ${taken} is recorded already`)
  const row: TaskRow = {
    name: taskId(command.task.task_id),
    digest,
    sessions: command.sessions,
    callback: command.task.callback_url != null,
    ended: null,
    delivery: null,
    place: null,
  }
  let owners = state.owners
  for (const session of known?.sessions ?? []) owners = remove(owners, session)
  for (const session of command.sessions) owners = insert(owners, session, id)
  const settled = state.settled.filter((other) => other !== id)
  return [{ ...state, tasks: insert(state.tasks, id, row), owners, settled, feed: withoutRow(state.feed, known?.place) }, RECORDED]
}

function recordCall(state: LedgerState, call: CallRecord): Outcome<Recorded> {
  const bytes = bytesOf(call)
  const roomy = evict(state, bytes)
  if (roomy.bytes + bytes > roomy.limits.maxBytes) return refused(roomy, 'full', `the ledger holds ${roomy.bytes} bytes`)
  const earlier = lookUp(roomy.calls, call.session) ?? null
  const isOrphan = earlier === null && lookUp(roomy.owners, call.session) === undefined
  const finishedLogs = isOrphan ? [...roomy.finishedLogs, call.session] : roomy.finishedLogs
  const calls = insert(roomy.calls, call.session, { call, bytes, earlier })
  return [trimLogs({ ...roomy, calls, finishedLogs, bytes: roomy.bytes + bytes }), RECORDED]
}

type ResultCommand = Extract<LedgerCommand, { readonly type: 'record-result' | 'settle-result' }>

function recordResult(state: LedgerState, command: ResultCommand): Outcome<Recorded> {
  const { session, attempt, task, summary, payload } = command
  const row = lookUp(state.tasks, task)
  if (row === undefined) return refused(state, 'conflict', `task ${task} is not recorded`)
  if (row.ended !== null) return refused(state, 'conflict', `task ${task} has ended`)
  const known = lookUp(state.results, session)
  if (known !== undefined && known.attempt > attempt) {
    return refused(state, 'conflict', `attempt ${known.attempt} of session ${session} is recorded already`)
  }
  if (known?.attempt === attempt) {
    // Told twice because the first answer was lost: what stands is what was recorded first.
    return sameBytes(known.payload, payload)
      ? [state, RECORDED]
      : refused(state, 'conflict', `this attempt of ${session} has another result`)
  }
  if (payload.byteLength > state.limits.maxBytes) {
    return refused(state, 'too-large', `the result has ${payload.byteLength} bytes; the ledger holds ${state.limits.maxBytes} at most`)
  }
  const freed = known?.payload.byteLength ?? 0
  const roomy = evict(state, payload.byteLength - freed)
  const bytes = roomy.bytes - freed + payload.byteLength
  if (bytes > roomy.limits.maxBytes) {
    return refused(
      roomy,
      'full',
      `the ledger holds ${roomy.bytes} of ${roomy.limits.maxBytes} bytes and the result has ${payload.byteLength}`,
    )
  }
  const results = insert(roomy.results, session, { task, attempt, summary, payload, place: null })
  const feed = withoutRow(roomy.feed, known?.place)
  const finishedLogs =
    known === undefined && lookUp(roomy.calls, session) !== undefined ? [...roomy.finishedLogs, session] : roomy.finishedLogs
  const given = command.type === 'record-result' ? command.completions : null
  const completions = keepCompletions(roomy.completions, session, given)
  return [trimLogs({ ...roomy, results, feed, bytes, completions, finishedLogs }), RECORDED]
}

function settleResult(state: LedgerState, command: ResultCommand): Outcome<SettledResult> {
  const known = lookUp(state.results, command.session)
  if (known?.attempt === command.attempt) return [state, { type: 'settled', summary: known.summary }]
  const [next, recorded] = recordResult(state, command)
  return [next, recorded.type === 'recorded' ? { type: 'settled', summary: command.summary } : recorded]
}

/** For what will come again as a newer row. */
function withoutRow(feed: Feed, place: number | null | undefined): Feed {
  return place == null ? feed : drop(feed, [place])
}

/** Its result is final: no attempt replaces it any more. */
function endSession(state: LedgerState, session: SessionId, attempt: number): LedgerState {
  const row = lookUp(state.results, session)
  if (row === undefined || row.attempt !== attempt || row.place !== null) return state
  const feed = append(state.feed, { type: 'session', session })
  return { ...state, feed, results: insert(state.results, session, { ...row, place: feed.last }) }
}

function recordEnd(state: LedgerState, task: TaskId, status: TaskStatus): Outcome<Recorded> {
  const row = lookUp(state.tasks, task)
  if (row === undefined) return refused(state, 'conflict', `task ${task} is not recorded`)
  if (row.ended !== null) {
    return row.ended === status ? [state, RECORDED] : refused(state, 'conflict', `task ${task} has ended as ${row.ended}`)
  }
  const waits = row.callback && row.sessions.some((session) => lookUp(state.results, session) !== undefined)
  const whole = row.sessions.reduce((so, session) => endSession(so, session, lookUp(so.results, session)?.attempt ?? 0), state)
  const isShown = row.name === task
  const feed = isShown ? append(whole.feed, { type: 'task', task }) : whole.feed
  const ended: TaskRow = { ...row, ended: status, delivery: waits ? 'pending' : null, place: isShown ? feed.last : null }
  const next = { ...whole, feed, tasks: insert(whole.tasks, task, ended) }
  return [waits ? next : settle(next, task), RECORDED]
}

function recordDelivery(state: LedgerState, task: TaskId, delivery: DeliveryState): Outcome<Recorded> {
  const row = lookUp(state.tasks, task)
  if (row === undefined) return refused(state, 'conflict', `task ${task} is not recorded`)
  const next = { ...state, tasks: insert(state.tasks, task, { ...row, delivery }) }
  switch (delivery) {
    case 'pending':
      return [{ ...next, settled: next.settled.filter((other) => other !== task) }, RECORDED]
    case 'delivered':
    case 'dead':
      return [row.ended === null ? next : settle(next, task), RECORDED]
    default:
      return unreachable(delivery)
  }
}

/** A copy: what an answer carries may be transferred to another thread, the original stays. */
function readResult(state: LedgerState, session: SessionId): StoredResult {
  const row = lookUp(state.results, session)
  if (row === undefined) return { type: 'no-result', session }
  return { type: 'result', session, attempt: row.attempt, payload: row.payload.slice(0) }
}

function settle(state: LedgerState, task: TaskId): LedgerState {
  if (state.settled.includes(task)) return state
  return evict({ ...state, settled: [...state.settled, task] }, 0)
}

/** Drops settled tasks, dead letters last and otherwise the oldest first, while there are too many or `needed` more bytes do not fit. */
function evict(state: LedgerState, needed: number): LedgerState {
  let next = state
  while (next.settled.length > next.limits.maxKeptTasks || next.bytes + needed > next.limits.maxBytes) {
    const { tasks, settled } = next
    const victim = settled.find((task) => lookUp(tasks, task)?.delivery !== 'dead') ?? settled[0]
    if (victim === undefined) return next
    next = dropTask(next, victim)
  }
  return next
}

function dropTask(state: LedgerState, task: TaskId): LedgerState {
  const row = lookUp(state.tasks, task)
  const sessions = row?.sessions ?? []
  const places = [row?.place, ...sessions.map((session) => lookUp(state.results, session)?.place)]
  let { owners, results, calls, completions, bytes } = state
  for (const session of sessions) {
    completions = dropCompletions(completions, session)
    owners = remove(owners, session)
    bytes -= lookUp(results, session)?.payload.byteLength ?? 0
    bytes -= logBytes(lookUp(calls, session))
    results = remove(results, session)
    calls = remove(calls, session)
  }
  const dropped = new Set(sessions)
  return {
    ...state,
    tasks: remove(state.tasks, task),
    owners,
    results,
    calls,
    completions,
    feed: lose(
      state.feed,
      places.filter((place) => place != null),
    ),
    bytes,
    settled: state.settled.filter((other) => other !== task),
    finishedLogs: state.finishedLogs.filter((session) => !dropped.has(session)),
  }
}

function trimLogs(state: LedgerState): LedgerState {
  const over = state.finishedLogs.length - state.limits.maxCallLogs
  if (over <= 0) return state
  let { calls, bytes } = state
  for (const session of state.finishedLogs.slice(0, over)) {
    bytes -= logBytes(lookUp(calls, session))
    calls = remove(calls, session)
  }
  return { ...state, calls, bytes, finishedLogs: state.finishedLogs.slice(over) }
}

function sameBytes(a: ArrayBuffer, b: ArrayBuffer): boolean {
  return a.byteLength === b.byteLength && Buffer.compare(new Uint8Array(a), new Uint8Array(b)) === 0
}

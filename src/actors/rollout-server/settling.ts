// Results of sessions that nobody will report on: they have no traces, and go into the ledger a few at a time.
import type { SessionId } from '../../contract/ids.ts'
import { cancelledError } from '../../contract/outcome.ts'
import type { ResultFacts } from '../builder/protocol.ts'
import type { CancelReason } from '../gateway/protocol.ts'
import type { ActiveTask, DispatchedSession, PendingSession, SettlingSession } from './entries.ts'
import type { FailedAttempt } from './protocol.ts'
import { findSession, nameOf, putTask, type Turn, withSession } from './turn.ts'

export const EARLY_STOP: CancelReason = 'stopped early: enough usable sessions'
/** Asked of the ledger at once: its mailbox also serves the sessions. */
const MAX_SETTLING = 32

/** Why nobody will report. */
export type Silence = CancelReason | 'gateway lost' | 'its gateway is draining'

/** How a session ends whose gateway took it along. */
export function lostWith(gateway: string): FailedAttempt {
  return { outcome: 'interrupted', error: `the gateway ${gateway} was lost while it held the session` }
}

export function endWithoutReport(
  turn: Turn,
  task: ActiveTask,
  sample: number,
  entry: PendingSession | DispatchedSession,
  silence: Silence,
) {
  turn.state = putTask(turn.state, withSession(task, sample, settlingEntry(turn, task, entry, silence)))
  settleLater(turn, [entry.session])
}

export function settlingEntry(turn: Turn, task: ActiveTask, entry: PendingSession | DispatchedSession, silence: Silence): SettlingSession {
  const { session, attempt, earlier } = entry
  const gateway = entry.phase === 'dispatched' ? entry.gateway : null
  const { metadata, evaluator } = task.request
  const facts: ResultFacts = {
    session,
    task: nameOf(task),
    attempt,
    node: gateway ?? '',
    ...(silence === 'gateway lost' ? lostWith(gateway ?? '') : { outcome: 'cancelled', error: cancelledError(silence) }),
    timing: entry.phase === 'dispatched' ? { e2e_ms: turn.now.nowMs - task.admittedAtMs } : {},
    taskMetadata: silence === EARLY_STOP ? { ...metadata, early_stop_cancelled: true, fully_masked: true } : metadata,
    agentResult: {},
    evaluation: null,
    evaluator: evaluator?.strategy ?? null,
    calls: 0,
    model: null,
  }
  return { phase: 'settling', session, attempt, earlier, gateway, facts }
}

/** Puts sessions at the end of the line for the ledger. */
export function settleLater(turn: Turn, sessions: readonly SessionId[]) {
  const { settling } = turn.state
  turn.state = { ...turn.state, settling: { ...settling, line: [...settling.line.slice(settling.next), ...sessions], next: 0 } }
  settleNext(turn)
}

/** The ledger has answered for one session. */
export function settledOne(turn: Turn) {
  const { settling } = turn.state
  turn.state = { ...turn.state, settling: { ...settling, inFlight: settling.inFlight - 1 } }
  settleNext(turn)
}

function settleNext(turn: Turn) {
  const { line } = turn.state.settling
  let { inFlight, next } = turn.state.settling
  for (; next < line.length && inFlight < MAX_SETTLING; next += 1) {
    const session = line[next]
    const found = session === undefined ? null : findSession(turn.state, session)
    if (found?.entry.phase !== 'settling') continue
    inFlight += 1
    turn.effects.push({ type: 'settle', task: found.task.task, facts: found.entry.facts })
  }
  turn.state = { ...turn.state, settling: next < line.length ? { inFlight, line, next } : { inFlight, line: [], next: 0 } }
}

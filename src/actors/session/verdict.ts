// What a session's events say about its outcome. Pure, and the only place where blame is decided.
import { OUTCOMES, type Outcome } from '../../contract/outcome.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { SealedCalls } from '../../proxy/boundary.ts'
import type { AgentEnded } from '../sandbox/protocol.ts'
import type { Common, Ended, Live, SessionState, Verdict } from './phases.ts'
import type { SessionMessage } from './protocol.ts'

/** A terminal's colour codes whole, and every other control or format character alone. */
const UNPRINTABLE = new RegExp(`${String.fromCharCode(27)}\\[[0-9;?]*[A-Za-z]|[\\p{Cc}\\p{Cf}]`, 'gu')
const MAX_REASON = 200

/** `judge` reads the end of the agent's output; it belongs to the harness and is pure. */
export type Judge = (ended: AgentEnded) => string | null

export function verdictOf(state: Live, ended: AgentEnded, judge: Judge): Verdict {
  const room = roomVerdict(state)
  if (room !== null) return room
  if (ended.exit.type === 'lost') return { outcome: 'runtime_error', error: 'the agent’s process vanished without an exit status' }
  const howItEnded = ended.exit.type === 'exited' ? `exit code ${ended.exit.code}` : `signal ${ended.exit.signal}`
  if (state.calls === 0) return { outcome: 'harness_error', error: withoutCall(howItEnded, ended) }
  const fault = judge(ended)
  if (ended.exit.type === 'exited' && ended.exit.code === 0 && fault === null) return { outcome: 'completed', error: null }
  return { outcome: 'agent_error', error: fault ?? `the agent ended with ${howItEnded}` }
}

/** Of an agent that had no room left, however it ended then: it was its end. */
export function roomVerdict({ budgetSpent, contextExhausted }: Common): Verdict | null {
  if (budgetSpent !== null) return { outcome: 'budget_exhausted', error: budgetSpent }
  return contextExhausted ? { outcome: 'context_exhausted', error: 'the conversation no longer fits the model’s context' } : null
}

/** The last line of stderr is where a program says why it gave up: no such command, no such module, a missing key. */
function withoutCall(howItEnded: string, { stderrTail }: AgentEnded): string {
  const lines = stderrTail.split(/[\r\n]+/).map((line) => line.replaceAll(UNPRINTABLE, '').trim())
  const last = lines.findLast((line) => line !== '')
  const reason = last === undefined ? '' : `: ${last.length > MAX_REASON ? `${last.slice(0, MAX_REASON)}…` : last}`
  return `the agent ended (${howItEnded}) without a single model call${reason}`
}

/** An engine failure that the agent could not get over is not the policy's fault. */
export function afterSeal(state: Extract<SessionState, { phase: 'sealing' }>, sealed: SealedCalls | null): Verdict {
  if (sealed === null) return state.verdict
  if (!OVERCOME.has(state.verdict.outcome)) return state.verdict
  const last = sealed.calls.at(-1)
  const hasFailed = last !== undefined && (last.status === 'failed' || last.status === 'aborted')
  if (sealed.upstreamFailures > 0 && hasFailed && !isAgentsOwn(last.httpStatus)) {
    return { outcome: 'upstream_error', error: `the last model call failed: ${last.error ?? `status ${last.httpStatus}`}` }
  }
  return state.verdict
}

/** How an agent ends that could not get over a failure: of its own accord, or by what the failure cost it. */
const OVERCOME: ReadonlySet<Outcome> = new Set(['completed', 'agent_error', 'budget_exhausted'])

/** The statuses of a request that was refused for what it is: no agent gets another attempt by ending with one. */
function isAgentsOwn(status: number): boolean {
  // 403 is the pool's: no server that is left may train.
  return status >= 400 && status < 429 && status !== 403
}

export function afterEvaluation(state: Ended, result: Extract<SessionMessage, { type: 'evaluated' }>['result']): Verdict {
  if (!result.ok) {
    return result.error === 'deadline'
      ? { outcome: 'evaluator_timeout', error: 'the evaluator did not answer within its budget' }
      : { outcome: 'evaluator_error', error: `the evaluator could not be asked: ${result.error}` }
  }
  switch (result.value.type) {
    case 'graded':
      return state.verdict
    case 'failed':
      return { outcome: 'evaluator_error', error: `the evaluator failed: ${result.value.error}` }
    case 'timed-out':
      return { outcome: 'evaluator_timeout', error: `the evaluator gave no verdict within ${result.value.timeoutMs} ms` }
    default:
      return unreachable(result.value)
  }
}

export function isGraded(state: Ended): boolean {
  if (state.spec.request.evaluator == null || state.cancelled !== null) return false
  const { graded } = OUTCOMES[state.verdict.outcome]
  return graded === 'yes' || (graded === 'as-configured' && state.policy.gradeTimeouts)
}

/** A cancel that came first keeps its place: no later fault may turn it into a retry. */
export function overridden(state: Common & { readonly verdict: Verdict }, verdict: Verdict): Verdict {
  return state.cancelled === null ? verdict : state.verdict
}

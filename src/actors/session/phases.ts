// The phases of a session, what each of them holds, and what a step may ask the shell to do.
import type { ModelUse } from '../../contract/call.ts'
import type { Outcome, SessionStatus } from '../../contract/outcome.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { SessionBudget } from '../../contract/session-budget.ts'
import type { Evaluation } from '../../evaluators/evaluator.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { SealedCalls } from '../../proxy/boundary.ts'
import type { CancelReason, SessionAccess, SessionSpec } from '../gateway/protocol.ts'
import type { AgentEnded, StartedSandbox } from '../sandbox/protocol.ts'
import type { AgentClock } from './agent-clock.ts'
import type { Deadline } from './protocol.ts'

/** Milliseconds; `agent` starts with RUNNING, so that waiting in READY never eats it. */
export type Budgets = {
  readonly initMs: number
  readonly agentMs: number
  readonly firstCallMs: number
  /** For a capture: how long it may have no call in flight. */
  readonly captureIdleMs: number
  readonly buildMs: number
  readonly evaluateMs: number
  readonly teardownMs: number
}

export type SessionPolicy = {
  readonly budgets: Budgets
  /** Whether an agent that ran out of time is graded on what it left behind. */
  readonly gradeTimeouts: boolean
  /** What a session's model calls may come to, where its task does not say. */
  readonly modelBudget: SessionBudget
}

export type Verdict = {
  readonly outcome: Outcome
  readonly error: string | null
  /** True where another attempt would fail in the same way; most failures do not say. */
  readonly isFinal?: boolean
}

/** Monotonic stamps of what has happened so far; the result's timing is made from them. */
export type Marks = Readonly<Record<string, number>>

export type Common = {
  readonly spec: SessionSpec
  readonly policy: SessionPolicy
  readonly marks: Marks
  readonly clock: AgentClock
  readonly durations: Readonly<Record<string, number>>
  readonly calls: number
  /** Of the last call that has ended. */
  readonly model: ModelUse | null
  readonly contextExhausted: boolean
  /** Which of its budgets is used up, as its agent was told; null while none is. */
  readonly budgetSpent: string | null
  /** A cancel that came while nothing could be interrupted; it wins over every later outcome. */
  readonly cancelled: CancelReason | null
}

export type Ended = Common & {
  readonly verdict: Verdict
  readonly sandbox: StartedSandbox | null
  readonly ended: AgentEnded | null
  /** Of a capture, given by whoever finished it. */
  readonly clientReward: number | null
}

export type SessionState =
  | (Common & { readonly phase: 'queued' })
  | (Common & { readonly phase: 'capturing'; readonly inFlight: number })
  | (Common & { readonly phase: 'starting' })
  | (Common & { readonly phase: 'preparing'; readonly sandbox: StartedSandbox })
  | (Common & { readonly phase: 'ready'; readonly sandbox: StartedSandbox })
  | (Common & { readonly phase: 'launching'; readonly sandbox: StartedSandbox })
  | (Common & { readonly phase: 'running'; readonly sandbox: StartedSandbox })
  | (Ended & { readonly phase: 'killing' })
  | (Ended & { readonly phase: 'sealing' })
  | (Ended & { readonly phase: 'post-run-queued'; readonly sealed: SealedCalls | null })
  | (Ended & { readonly phase: 'building'; readonly sealed: SealedCalls | null })
  | (Ended & { readonly phase: 'evaluating'; readonly payload: ArrayBuffer | null; readonly traces: number })
  | (Ended & { readonly phase: 'finishing'; readonly evaluation: Evaluation | null })
  | (Ended & { readonly phase: 'recording'; readonly payload: ArrayBuffer; readonly summary: SessionSummary; readonly isStopped: boolean })
  | (Ended & { readonly phase: 'stopping'; readonly summary: SessionSummary })
  | (Ended & { readonly phase: 'reporting'; readonly summary: SessionSummary })
  | { readonly phase: 'closed' }

export type SessionEffect =
  /** At once, for an agent that runs elsewhere. */
  | { readonly type: 'open-door' }
  | { readonly type: 'answer-finish'; readonly ask: Ask<boolean>; readonly isTaken: boolean }
  | { readonly type: 'answer-access'; readonly ask: Ask<SessionAccess | null>; readonly isOpen: boolean }
  | { readonly type: 'start-sandbox' }
  | { readonly type: 'prepare'; readonly sandbox: StartedSandbox }
  | { readonly type: 'launch'; readonly sandbox: StartedSandbox }
  | { readonly type: 'arm'; readonly deadline: Deadline; readonly afterMs: number }
  | { readonly type: 'disarm'; readonly deadline: Deadline }
  | { readonly type: 'kill-agent'; readonly sandbox: StartedSandbox }
  | { readonly type: 'seal' }
  | { readonly type: 'announce'; readonly status: SessionStatus; readonly calls: number; readonly model: ModelUse | null }
  | { readonly type: 'tell-gateway'; readonly fact: 'session-prepared' | 'session-left-run' }
  | { readonly type: 'build'; readonly sealed: SealedCalls }
  | { readonly type: 'release-sealed' }
  | {
      readonly type: 'evaluate'
      readonly sandbox: StartedSandbox
      readonly outcome: Outcome
      readonly exitCode: number | null
      readonly traces: number
    }
  | { readonly type: 'withdraw-evaluation' }
  | {
      readonly type: 'finish'
      readonly payload: ArrayBuffer | null
      readonly outcome: Outcome
      readonly error: string | null
      readonly isFinal: boolean
      readonly evaluation: Evaluation | null
      readonly timing: Readonly<Record<string, number>>
      readonly ended: AgentEnded | null
      readonly notes: readonly string[]
      readonly calls: number
      readonly model: ModelUse | null
      readonly cancelled: CancelReason | null
    }
  /** `isRetry`: the ledger refused or did not answer; the shell waits a little first. */
  | { readonly type: 'record'; readonly payload: ArrayBuffer; readonly summary: SessionSummary; readonly isRetry: boolean }
  | { readonly type: 'stop-sandboxes' }
  | { readonly type: 'report'; readonly summary: SessionSummary }
  | { readonly type: 'close' }

export type SessionStep = readonly [SessionState, readonly SessionEffect[]]

/** The agent may act: its process is being launched, or runs. */
export type Live = Extract<SessionState, { phase: 'launching' | 'running' }>

export function announcement({ calls, model }: Common, status: SessionStatus): SessionEffect {
  return { type: 'announce', status, calls, model }
}

export function marked(state: { readonly marks: Marks }, name: string, nowMs: number): Marks {
  return { ...state.marks, [name]: nowMs }
}

/** What every phase keeps, without what only this one has. */
export function commonOf(state: Common): Common {
  const { spec, policy, marks, clock, durations, calls, model, contextExhausted, budgetSpent, cancelled } = state
  return { spec, policy, marks, clock, durations, calls, model, contextExhausted, budgetSpent, cancelled }
}

export function endedOf(state: Ended): Ended {
  const { verdict, sandbox, ended, clientReward } = state
  return { ...commonOf(state), verdict, sandbox, ended, clientReward }
}

export function prefixed(first: SessionEffect, [state, effects]: SessionStep): SessionStep {
  return [state, [first, ...effects]]
}

// The phases of a session, what each of them holds, and what a step may ask the shell to do.
import type { Outcome, SessionStatus } from '../../contract/outcome.ts'
import type { SessionSummary } from '../../contract/result.ts'
import type { Evaluation } from '../../evaluators/evaluator.ts'
import type { SealedCalls } from '../../proxy/boundary.ts'
import type { CancelReason, SessionSpec } from '../gateway/protocol.ts'
import type { AgentEnded, StartedSandbox } from '../sandbox/protocol.ts'
import type { Deadline } from './protocol.ts'

/** Milliseconds; `agent` starts with RUNNING, so that waiting in READY never eats it. */
export type Budgets = {
  readonly initMs: number
  readonly agentMs: number
  readonly firstCallMs: number
  readonly buildMs: number
  readonly evaluateMs: number
  readonly teardownMs: number
}

export type SessionPolicy = {
  readonly budgets: Budgets
  /** Whether an agent that ran out of time is graded on what it left behind. */
  readonly gradeTimeouts: boolean
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
  readonly durations: Readonly<Record<string, number>>
  readonly calls: number
  readonly contextExhausted: boolean
  /** A cancel that came while nothing could be interrupted; it wins over every later outcome. */
  readonly cancelled: CancelReason | null
}

export type Ended = Common & { readonly verdict: Verdict; readonly sandbox: StartedSandbox | null; readonly ended: AgentEnded | null }

export type SessionState =
  | (Common & { readonly phase: 'queued' })
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
  | { readonly type: 'start-sandbox' }
  | { readonly type: 'prepare'; readonly sandbox: StartedSandbox }
  | { readonly type: 'launch'; readonly sandbox: StartedSandbox }
  | { readonly type: 'arm'; readonly deadline: Deadline; readonly afterMs: number }
  | { readonly type: 'disarm'; readonly deadline: Deadline }
  | { readonly type: 'kill-agent'; readonly sandbox: StartedSandbox }
  | { readonly type: 'seal' }
  | { readonly type: 'announce'; readonly status: SessionStatus; readonly calls: number }
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

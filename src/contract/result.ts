// What a session gives back: Polar's Trace, Trajectory and SessionResult, with token arrays typed while inside the process.
import type { ModelUse } from './call.ts'
import type { Outcome, OutcomeClass, TerminalStatus } from './outcome.ts'

/** Polar's trace (one training row). `response_ids`, `loss_mask` and `response_logprobs` have equal length. */
export type Trace = {
  readonly prompt_ids: Int32Array
  readonly response_ids: Int32Array
  /** 1 exactly where a token was sampled and is to be trained. */
  readonly loss_mask: Uint8Array
  readonly prompt_messages: readonly unknown[]
  readonly response_messages: readonly unknown[]
  readonly tools: readonly unknown[] | null
  readonly finish_reason: string | null
  /** 0 on positions that were not sampled; those are listed in `metadata.synthetic_logprob_spans`. */
  readonly response_logprobs: Float32Array | null
  readonly reward: number | null
  readonly metadata: Readonly<Record<string, unknown>>
}

export type Trajectory = {
  readonly status: TerminalStatus
  readonly metadata: Readonly<Record<string, unknown>>
  readonly traces: readonly Trace[]
  readonly error?: string
}

export type SessionResult = {
  readonly session_id: string
  readonly task_id: string
  readonly status: TerminalStatus
  readonly trajectory: Trajectory
  /** Polar's SessionTiming: milliseconds by stage, keys ending in `_ms`. */
  readonly timing: Readonly<Record<string, number>>
  readonly node_id?: string
  readonly error?: string
  readonly metadata: Readonly<Record<string, unknown>>
}

/** What lists, progress and early stop need to know of a finished session: numbers, no tokens. */
export type SessionSummary = {
  readonly outcome: Outcome
  readonly outcomeClass: OutcomeClass
  readonly status: TerminalStatus
  readonly reward: number | null
  readonly error: string | null
  readonly calls: number
  /** Of the last call that has ended. */
  readonly model: ModelUse | null
  readonly traces: number
  readonly capturedTokens: number
  readonly trainedTokens: number
  /** Completed, with at least one trace that trains a token. */
  readonly usable: boolean
  /** The outcome's rule, unless what went wrong would go wrong again: a mistake in the task or in the node's set-up. */
  readonly retryable: boolean
  readonly timing: Readonly<Record<string, number>>
}

// What an evaluator may see and do. It grades; it never turns its own failure into a reward.

import type { Outcome } from '../contract/outcome.ts'
import type { EvaluatorSpec } from '../contract/task.ts'
import type { Command, ExecResult, Fallible } from '../runtime/runtime.ts'

/** A sandbox as an evaluator may use it. */
export type EvaluatorSandbox = {
  exec(command: Command, timeoutMs: number): Promise<Fallible<ExecResult>>
  writeFile(path: string, content: string | Uint8Array): Promise<Fallible<void>>
  readFile(path: string, maxBytes: number): Promise<Fallible<Uint8Array>>
}

export type EvaluationContext = {
  readonly spec: EvaluatorSpec
  readonly sessionId: string
  readonly taskId: string
  readonly outcome: Outcome
  readonly exitCode: number | null
  readonly traceCount: number
  /** The sandbox the agent ran in; its processes are dead. */
  readonly agentSandbox: EvaluatorSandbox
  /** A new sandbox prepared like the agent's (or by `eval_prepare`), started on first use; the agent never touched it. */
  readonly freshSandbox: () => Promise<Fallible<EvaluatorSandbox>>
  readonly timeoutMs: number
}

export type Evaluation =
  | {
      readonly type: 'graded'
      readonly outcomeReward: number | null
      /** One per trace in the builder's order, when the evaluator grades traces. */
      readonly traceRewards: readonly number[] | null
      readonly metadata: Readonly<Record<string, unknown>>
    }
  | { readonly type: 'failed'; readonly error: string; readonly log: string }

export type Evaluator = {
  readonly name: string
  /** Checks the spec when the task is submitted: a problem in the caller's terms, or null. */
  check(spec: EvaluatorSpec): string | null
  evaluate(context: EvaluationContext): Promise<Evaluation>
}

// What a session knows about itself when its result is written: everything but the tokens.
import type { ModelUse } from '../contract/call.ts'
import type { SessionId, TaskId } from '../contract/ids.ts'
import type { Outcome } from '../contract/outcome.ts'
import type { BudgetUse } from '../contract/session-budget.ts'
import type { Evaluation } from '../evaluators/evaluator.ts'

export type ResultFacts = {
  readonly session: SessionId
  readonly task: TaskId
  readonly attempt: number
  readonly node: string
  readonly outcome: Outcome
  readonly error: string | null
  /** True where every other attempt would fail in the same way. */
  readonly isFinal?: boolean
  readonly timing: Readonly<Record<string, number>>
  readonly taskMetadata: Readonly<Record<string, unknown>>
  readonly agentResult: Readonly<Record<string, unknown>>
  readonly evaluation: Evaluation | null
  readonly evaluator: string | null
  readonly calls: number
  /** Absent where nothing was limited, and where there was never a door to a model. */
  readonly budget?: BudgetUse
  /** Of the last call that has ended. */
  readonly model: ModelUse | null
}

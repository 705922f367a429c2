// Grades one ended session under a deadline; its own failure is an answer, never a reward.
import type { GatewayId, SandboxId, SessionId, TaskId } from '../../contract/ids.ts'
import type { Outcome } from '../../contract/outcome.ts'
import type { EvaluatorSpec, RuntimeSpec } from '../../contract/task.ts'
import type { Evaluation } from '../../evaluators/evaluator.ts'
import type { Ask } from '../../kernel/ask.ts'

/** `timed-out`: no verdict within the budget; whatever the evaluator says later is not heard. */
export type EvaluatorReply = Evaluation | { readonly type: 'timed-out'; readonly timeoutMs: number }

export type EvaluatorCommand =
  | Evaluate
  /** The session waits no more: whatever its evaluation does from here on is for nobody. Lost, it only costs a grader's time. */
  | { readonly type: 'withdraw-evaluation'; readonly session: SessionId; readonly attempt: number }

export type Evaluate = {
  readonly type: 'evaluate'
  readonly gateway: GatewayId
  readonly session: SessionId
  readonly task: TaskId
  readonly attempt: number
  readonly spec: EvaluatorSpec
  readonly runtime: RuntimeSpec
  readonly agentSandbox: SandboxId
  readonly outcome: Outcome
  readonly exitCode: number | null
  readonly traceCount: number
  readonly timeoutMs: number
  readonly ask: Ask<EvaluatorReply>
}

// Which evaluations run and which wait for a grader place. The line is bounded by the sessions in POSTRUN: each asks once.
import { join, type Line, leave, openLine } from '../../kernel/line.ts'
import type { EvaluatorCommand } from './protocol.ts'

export type EvaluatorState = Line<EvaluatorCommand>
export type EvaluatorMessage = EvaluatorCommand | { readonly type: 'evaluation-settled' }

export const openEvaluator: (maxRunning: number) => EvaluatorState = openLine

/** The second value is the evaluation to start now, if any. */
export function step(state: EvaluatorState, message: EvaluatorMessage): readonly [EvaluatorState, EvaluatorCommand | null] {
  return message.type === 'evaluation-settled' ? leave(state) : join(state, message)
}

// Which evaluations run and which wait for a grader place. The line is bounded by the sessions in POSTRUN: each asks once, and withdraws
// what it no longer waits for.
import { join, type Line, leave, openLine } from '../../kernel/line.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Evaluate, EvaluatorCommand } from './protocol.ts'

export type EvaluatorState = Line<Evaluate>
export type EvaluatorMessage = EvaluatorCommand | { readonly type: 'evaluation-settled' }

export const openEvaluator: (maxRunning: number) => EvaluatorState = openLine

/** The second value is the evaluation to start now, if any. */
export function step(state: EvaluatorState, message: EvaluatorMessage): readonly [EvaluatorState, Evaluate | null] {
  switch (message.type) {
    case 'evaluate':
      return join(state, message)
    case 'evaluation-settled':
      return leave(state)
    case 'withdraw-evaluation': {
      const { session, attempt } = message
      const waiting = state.waiting.filter((other) => other.session !== session || other.attempt !== attempt)
      return [{ ...state, waiting }, null]
    }
    default:
      return unreachable(message)
  }
}

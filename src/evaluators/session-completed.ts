// `session_completed`: 1.0 when the agent ended by itself with success, else 0.0.
import type { Evaluator } from './evaluator.ts'

export const sessionCompleted: Evaluator = {
  name: 'session_completed',
  check: () => null,
  evaluate: async (context) => ({
    type: 'graded',
    outcomeReward: context.outcome === 'completed' ? 1 : 0,
    traceRewards: null,
    metadata: {},
  }),
}

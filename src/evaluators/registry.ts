// Which evaluators this node knows: the built-in ones and the modules named in the operator's configuration.
import type { EvaluatorSpec } from '../contract/task.ts'
import { customEvaluator } from './custom.ts'
import type { Evaluation, EvaluationContext, Evaluator } from './evaluator.ts'
import { sessionCompleted } from './session-completed.ts'
import { testOnOutput } from './test-on-output.ts'

export type Evaluators = {
  readonly names: readonly string[]
  /** Checks a task's `evaluator` when it is submitted: a problem in the caller's terms, or null. */
  check(spec: EvaluatorSpec): string | null
  /** Never throws: what an evaluator throws is `failed`, with the stack as its log. */
  evaluate(context: EvaluationContext): Promise<Evaluation>
}

/** `customs`: evaluator name to absolute module path. Throws for a module that is not there: the node must not start. */
export function createEvaluators(customs: Readonly<Record<string, string>>): Evaluators {
  const byName = new Map<string, Evaluator>([sessionCompleted, testOnOutput].map((evaluator) => [evaluator.name, evaluator]))
  for (const [name, modulePath] of Object.entries(customs)) byName.set(name, customEvaluator(name, modulePath))

  const unknown = (name: string): string => {
    const known = [...byName.keys()].map((one) => `'${one}'`).join(', ')
    return `evaluator.strategy '${name}' is not known on this node; known: ${known}`
  }

  return {
    names: [...byName.keys()],
    check(spec) {
      const evaluator = byName.get(spec.strategy)
      return evaluator === undefined ? unknown(spec.strategy) : evaluator.check(spec)
    },
    async evaluate(context) {
      const evaluator = byName.get(context.spec.strategy)
      if (evaluator === undefined) return { type: 'failed', error: unknown(context.spec.strategy), log: '' }
      try {
        return await evaluator.evaluate(context)
      } catch (error) {
        const isError = error instanceof Error
        return { type: 'failed', error: isError ? error.message : String(error), log: isError ? (error.stack ?? '') : '' }
      }
    },
  }
}

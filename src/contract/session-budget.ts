// What a session may spend on model calls: as a task asks for it, as an operator limits it, and as a result tells what was spent.
import { z } from 'zod'

/** By their names on the wire. */
export const BUDGETS = ['calls', 'sampled_tokens', 'context_tokens', 'seconds'] as const
export type BudgetName = (typeof BUDGETS)[number]

/** What can be used up. `text_bytes`: the memory for the texts of its calls; the node's own limit, which no task sets. */
export const SPENDABLE = [...BUDGETS, 'text_bytes'] as const
export type Spendable = (typeof SPENDABLE)[number]

/** Null: without a limit. */
export type BudgetLimits = { readonly [name in BudgetName]: number | null }

export const UNLIMITED: BudgetLimits = { calls: null, sampled_tokens: null, context_tokens: null, seconds: null }

const limit = (max: number) => z.int().min(1).max(max).nullish()

export const sessionBudgetSchema = z.strictObject({
  calls: limit(1_000_000).describe('model calls, whatever the agent makes them for'),
  sampled_tokens: limit(1_000_000_000).describe('of all calls together'),
  context_tokens: limit(16_777_216).describe('prompt and answer of any one call together'),
  seconds: z.number().positive().max(604_800).nullish().describe('of the run, without the time in which inference was paused'),
})

export type SessionBudget = z.infer<typeof sessionBudgetSchema>

/** What was spent, under the name of each limit that there was. */
export type BudgetUse = {
  readonly [name in BudgetName]?: { readonly limit: number; readonly used: number }
} & {
  /** The first that was used up; null: the session ended with something left of each. */
  readonly used_up: Spendable | null
}

/** The task's own limits, and the operator's where it names none. `metadata` is a valid task's. */
export function limitsOf(metadata: Readonly<Record<string, unknown>>, operators: SessionBudget): BudgetLimits {
  const parsed = sessionBudgetSchema.safeParse(writtenBudget(metadata) ?? {})
  const own: SessionBudget = parsed.success ? parsed.data : {}
  const of = (name: BudgetName): number | null => own[name] ?? operators[name] ?? null
  return { calls: of('calls'), sampled_tokens: of('sampled_tokens'), context_tokens: of('context_tokens'), seconds: of('seconds') }
}

type Problem = { readonly path: readonly PropertyKey[]; readonly message: string }

/** What is wrong with the budget of a task's metadata, under its path there. */
export function budgetProblems(metadata: Readonly<Record<string, unknown>>): readonly Problem[] {
  const parsed = sessionBudgetSchema.safeParse(writtenBudget(metadata) ?? {})
  if (parsed.success) return []
  return parsed.error.issues.flatMap((issue): readonly Problem[] => {
    const path = ['polar_node', 'budget', ...issue.path]
    if (issue.code !== 'unrecognized_keys') return [{ path, message: issue.message }]
    return issue.keys.map((key) => ({ path: [...path, key], message: `unknown key; there are ${BUDGETS.join(', ')}` }))
  })
}

function writtenBudget({ polar_node: own }: Readonly<Record<string, unknown>>): unknown {
  return typeof own === 'object' && own !== null ? Reflect.get(own, 'budget') : undefined
}

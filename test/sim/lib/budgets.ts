// What must hold of budgets after every day: none is overshot, who used one up is known for it, and the end of one is no call.
import { isObject } from '../../../src/trajectory/conversation.ts'
import type { Day } from './simulation.ts'

/** How an agent knows that its session's budget is used up. */
export const isFarewell = (content: string): boolean => content.startsWith('I have to stop here: ')

/** What nobody is who has used up a budget: an agent whose time was up may find that out while it is being stopped. */
const UNSPENT: readonly string[] = ['completed', 'agent_error', 'harness_error']

export function budgetsHold({ schedule, results, records }: Day): readonly string[] {
  const found: string[] = []
  const gateways = new Map<string, number | null>(
    schedule.setup.gateways.map(({ gateway, policy }) => [gateway, policy.modelBudget.calls ?? null]),
  )
  for (const [session, { attempt, result }] of results) {
    const owner = `${session}#${attempt}`
    const { budget, outcome } = result.metadata.polar_node as { readonly budget?: unknown; readonly outcome: string } // as the node writes it
    const usedUp = isObject(budget) ? budget.used_up : null
    if (outcome === 'budget_exhausted' && usedUp === null) found.push(`${owner} is said to have used up a budget, and none is`)
    if (typeof usedUp === 'string' && UNSPENT.includes(outcome)) found.push(`${owner} used up ${usedUp} and is ${outcome}`)
    const most = gateways.get(result.node_id ?? '') ?? null
    const calls = new Set(records.filter((record) => record.session === session && record.attempt === attempt).map(({ id }) => id)).size
    if (most !== null && calls > most) found.push(`${owner} made ${calls} calls, at most ${most} allowed`)
  }
  return found
}

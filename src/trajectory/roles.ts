// Whose call it is: the agent's main line, a sub-agent's, or a side call that is no part of the task. Roles label; they delete nothing.
import type { Lineage } from '../contract/call.ts'
import { subagentOf } from './agents.ts'
import type { BuilderCall } from './builder.ts'
import type { AuxRules } from './config.ts'
import type { Conversation } from './conversation.ts'
import type { Forest } from './forest.ts'
import type { Relation } from './relations.ts'

export type Role = 'main' | 'subagent' | 'aux'

/** Names that vendors give to the models which agents use for titles, probes and summaries. */
const SMALL_MODEL = /haiku|mini|nano|small|lite|title/i

/**
 * Assigns a role to every call. Explicit rules come first, then the tool list (a call with tools is an agent's, a tool-free call outside the
 * conversation of a session that uses tools is not), then a small model's name; what is left inherits from the call it grew out of.
 */
export function assignRoles(
  calls: readonly BuilderCall[],
  forest: Forest,
  relations: readonly (Relation | null)[],
  conversation: Conversation,
  rules: AuxRules,
): readonly Role[] {
  const usesTools = calls.some(({ record }) => record.toolCount > 0)
  const mainModel = dominantModel(calls)
  const summaries = new Set(relations.flatMap((relation) => (relation?.isSummary ? [relation.to] : [])))
  const matchers = rules.models.map(globOf)

  function isExplicitAux({ record }: BuilderCall): boolean {
    if (matchers.some((matcher) => matcher.test(record.modelRequested))) return true
    if (record.maxTokensRequested !== null && record.maxTokensRequested <= rules.max_tokens) return true
    if (rules.system.length === 0) return false
    const system = conversation
      .systemOf(record)
      .map((index) => conversation.text(index))
      .join('\n')
    return rules.system.some((text) => system.includes(text))
  }
  function isSideCall({ record }: BuilderCall, index: number): boolean {
    if (record.toolCount > 0 || summaries.has(index) || isSaidToBeOwn(record.lineage)) return false
    if (forest.children[index]?.some((child) => (calls[child]?.record.toolCount ?? 0) > 0)) return false
    if (usesTools && rules.tool_free) return true
    return record.modelRequested !== mainModel && SMALL_MODEL.test(record.modelRequested)
  }

  const roles = new Map<number, Role>()
  const rootRole = (index: number, visited: Set<number>): Role => {
    const known = roles.get(index)
    const call = calls[index]
    if (known !== undefined) return known
    if (call === undefined || visited.has(index)) return 'main'
    visited.add(index)
    if (isExplicitAux(call) || isSideCall(call, index)) return 'aux'
    if (subagentOf(call) !== null) return 'subagent'
    const relation = relations[index] ?? null
    if (relation === null) return 'main'
    if (relation.kind === 'subagent_of') return 'subagent'
    const inherited = rootRole(rootOf(forest, relation.to), visited)
    return inherited === 'aux' ? 'main' : inherited
  }

  // Roots in sequence, then what grows out of them, parents first.
  for (const [index, { parent }] of forest.placements.entries()) if (parent === -1) roles.set(index, rootRole(index, new Set()))
  for (const index of forest.order) {
    const call = calls[index]
    const parent = forest.placements[index]?.parent ?? -1
    if (call === undefined || parent === -1) continue
    const inherited = roles.get(parent) ?? 'main'
    const isAux = isExplicitAux(call) || (inherited === 'aux' && call.record.toolCount === 0)
    roles.set(index, isAux ? 'aux' : inherited === 'aux' ? 'main' : inherited)
  }
  return calls.map((_, index) => roles.get(index) ?? 'main')
}

/** A client that says what a call is for makes no side calls under that name. */
function isSaidToBeOwn(lineage: Lineage | null): boolean {
  return lineage !== null && lineage.purpose !== null
}

/** The model that most calls with tools ask for; of all calls where none has tools. */
function dominantModel(calls: readonly BuilderCall[]): string | null {
  const withTools = calls.filter(({ record }) => record.toolCount > 0)
  const counts = new Map<string, number>()
  for (const { record } of withTools.length > 0 ? withTools : calls) {
    counts.set(record.modelRequested, (counts.get(record.modelRequested) ?? 0) + 1)
  }
  let best: string | null = null
  for (const [model, count] of counts) if (best === null || count > (counts.get(best) ?? 0)) best = model
  return best
}

function rootOf(forest: Forest, index: number): number {
  let at = index
  for (let parent = forest.placements[at]?.parent ?? -1; parent !== -1; parent = forest.placements[at]?.parent ?? -1) at = parent
  return at
}

function globOf(pattern: string): RegExp {
  return new RegExp(
    `^${pattern
      .split('*')
      .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('.*')}$`,
    'i',
  )
}

// What the calls of a session are to one another: the reading that every builder shares, so that all train the same tokens.

import { commonPrefix } from '../tokens/prefix.ts'
import type { BuilderCall, BuilderInput } from './builder.ts'
import type { AuxRules } from './config.ts'
import { type Conversation, openConversation } from './conversation.ts'
import { classifyTurn, type Drift, windowAt } from './drift.ts'
import { type Forest, plantForest } from './forest.ts'
import { type EdgeKind, relate } from './relations.ts'
import { assignRoles, type Role } from './roles.ts'
import { endOfTurn, openSplicer } from './splice.ts'
import { groupRetries, judge, type Verdict } from './verdicts.ts'

export type Edge = { readonly kind: EdgeKind; readonly from: number; readonly to: number | null; readonly drift: Drift | null }

export type Analysis = {
  /** In sequence; every index below points into it. */
  readonly calls: readonly BuilderCall[]
  readonly conversation: Conversation
  readonly forest: Forest
  readonly roles: readonly Role[]
  readonly verdicts: readonly Verdict[]
  readonly retries: readonly (readonly number[])[]
  readonly edges: readonly Edge[]
}

export type SpliceOptions = { readonly endToken: number | null; readonly maxUnreported: number }

/** Reads a session. `splice` null keeps to exact continuations. The order of `input.calls` does not matter. */
export function analyse(input: BuilderInput, aux: AuxRules, splice: SpliceOptions | null): Analysis {
  const calls = input.calls.toSorted((a, b) => a.record.sequence - b.record.sequence || (a.record.id < b.record.id ? -1 : 1))
  const conversation = openConversation(input.messages)
  const endToken = endOfTurn(calls, splice?.endToken ?? null)
  const splicer = splice === null ? null : openSplicer(calls, conversation, endToken, splice.maxUnreported)
  const forest = plantForest(calls, splicer)
  const relations = relate({ calls, forest, conversation, endToken })
  const roles = assignRoles(calls, forest, relations, conversation, aux)
  const retries = groupRetries(calls, forest)
  const verdicts = judge(calls, forest, roles, retries)

  // Of attempts at one turn the first that the engine saw says where the turn belongs.
  const repeats = new Set(retries.flatMap((group) => group.filter((index) => (calls[index]?.promptIds.length ?? 0) > 0).slice(1)))
  const previousAttempt = new Map(retries.flatMap((group) => group.slice(1).map((index, at) => [index, group[at] ?? null] as const)))
  const edges: Edge[] = []
  for (const [index, placement] of forest.placements.entries()) {
    const relation = relations[index] ?? null
    const previous = previousAttempt.get(index)
    if (placement.parent !== -1) {
      edges.push({ kind: 'extends', from: index, to: placement.parent, drift: junctionDrift(calls, index, forest, conversation, endToken) })
    }
    if (!repeats.has(index)) {
      if (placement.parent === -1 && roles[index] === 'aux') edges.push({ kind: 'aux', from: index, to: relation?.to ?? null, drift: null })
      else if (relation !== null) edges.push({ kind: relation.kind, from: index, to: relation.to, drift: relation.drift })
    }
    if (previous !== undefined) edges.push({ kind: 'retry_of', from: index, to: previous, drift: RETRY })
  }
  return { calls, conversation, forest, roles, verdicts, retries, edges }
}

const RETRY: Drift = { class: 'D12', index: null, reason: 'the same request was sent again', window: null }

/** Drift on an edge that continues: a spliced junction, or a turn that was cut and then taken as history. */
function junctionDrift(
  calls: readonly BuilderCall[],
  index: number,
  forest: Forest,
  conversation: Conversation,
  endToken: number | null,
): Drift | null {
  const { parent = -1, junction = null } = forest.placements[index] ?? {}
  const earlier = calls[parent]
  const later = calls[index]
  if (earlier === undefined || later === undefined) return null
  if (junction === null) {
    if (earlier.record.finishReason !== 'length') return null
    // Nothing differs: the window shows what the template put behind the cut.
    const window = windowAt(earlier, later, earlier.promptIds.length + earlier.sampledIds.length)
    return { class: 'D7', index: null, reason: 'the turn before was cut by its token limit', window }
  }
  const start = earlier.promptIds.length
  const kept = commonPrefix(
    earlier.sampledIds,
    0,
    later.promptIds,
    start,
    Math.min(earlier.sampledIds.length, later.promptIds.length - start),
  )
  const found = classifyTurn(earlier, later, kept, conversation, endToken)
  return { class: found.class, index: start + kept, reason: found.reason, window: windowAt(earlier, later, start + kept) }
}

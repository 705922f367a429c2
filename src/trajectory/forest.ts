// Which call continues which: the strict prefix forest of a session, and each call's nearest relative where it continues none.
import { areOfOneAgent, subagentOf } from './agents.ts'
import type { BuilderCall } from './builder.ts'
import { openTokenTree, type TreeNode } from './token-tree.ts'

/** Where a call joins the one before it although the engine's prompt does not contain the sampled ids as they were. */
export type Junction = {
  /** Where the interstitial begins in the later call's prompt. */
  readonly from: number
  /** Tokens of the earlier turn that the engine never reported as context. */
  readonly unreported: number
}

type Placement = {
  /** Index of the continued call, or -1. */
  readonly parent: number
  /** Null where prompt ‖ sampled of the parent is a prefix of this prompt. */
  readonly junction: Junction | null
  /** The latest earlier call with the longest common prefix, or -1; `shared` is that prefix's length. */
  readonly relative: number
  readonly shared: number
}

export type Forest = {
  readonly placements: readonly Placement[]
  readonly children: readonly (readonly number[])[]
  /** Calls with a prompt, every parent before its children. */
  readonly order: readonly number[]
  /** One agent's calls with the same prompt ids, in sequence; only groups of two and more. */
  readonly samePrompt: readonly (readonly number[])[]
  readonly comparedTokens: number
}

/** Tries to join call `later` to call `earlier`, whose prompt is a strict prefix of the later one's. */
export type Splicer = (earlier: number, later: number) => Junction | null

/** A session with many siblings must not try them all: the nearest few decide. */
const MAX_SPLICE_TRIALS = 4

/**
 * Places calls, given in sequence. Call j continues call i when prompt_i ‖ sampled_i is a prefix of prompt_j; the longest wins, whatever
 * the order of arrival. Costs about one look at every token: prompts are walked once, shortest first, so that parents are there before
 * their children. A call without tokens is nobody's parent, and a sub-agent continues nobody's calls but its own.
 */
export function plantForest(calls: readonly BuilderCall[], splicer: Splicer | null): Forest {
  const tree = openTokenTree()
  const order = [...calls.keys()]
    .filter((index) => promptLength(calls, index) > 0)
    .sort((a, b) => promptLength(calls, a) - promptLength(calls, b) || a - b)
  const promptEnds = new Map<number, TreeNode>()
  const wholeEnds = new Map<number, TreeNode>()
  const joins = new Map<number, { readonly parent: number; readonly junction: Junction | null }>()

  for (const index of order) {
    const call = calls[index]
    if (call === undefined) continue
    const promptEnd = tree.descend(tree.root, call.promptIds)
    const wholeEnd = tree.descend(promptEnd, call.sampledIds)
    promptEnds.set(index, promptEnd)
    wholeEnds.set(index, wholeEnd)
    joins.set(index, join(calls, index, promptEnd, splicer))
    promptEnd.prompts.push(index)
    if (isAnswer(call)) wholeEnd.wholes.push(index)
  }

  const relatives = findRelatives(calls, promptEnds, wholeEnds)
  const placements = calls.map((_, index): Placement => {
    const { parent, junction } = joins.get(index) ?? { parent: -1, junction: null }
    const { relative, shared } = relatives.get(index) ?? { relative: -1, shared: 0 }
    return { parent, junction, relative, shared }
  })
  const children: number[][] = calls.map(() => [])
  for (const [index, { parent }] of placements.entries()) children[parent]?.push(index)
  const samePrompt = [...new Set(promptEnds.values())]
    .flatMap((node) => [...Map.groupBy(node.prompts, (index) => calls[index]?.record.lineage?.agent).values()])
    .map((group) => group.toSorted((a, b) => a - b))
    .filter((group) => group.length > 1)
  return { placements, children, order, samePrompt, comparedTokens: tree.comparedTokens() }
}

/** True when the call's tokens may be history of a later one. */
export function isAnswer(call: BuilderCall): boolean {
  return call.record.status === 'ok' && call.record.finishReason !== 'abort' && call.promptIds.length > 0 && call.sampledIds.length > 0
}

function join(calls: readonly BuilderCall[], index: number, promptEnd: TreeNode, splicer: Splicer | null) {
  const exact = nearest(promptEnd, (node) =>
    canonical(
      calls,
      node.wholes.filter((other) => areOfOneAgent(calls[other], calls[index])),
    ),
  )
  const splice = splicer === null ? null : trySplice(calls, index, promptEnd, exact?.depth ?? 0, splicer)
  if (splice !== null) return splice
  return { parent: exact?.found ?? -1, junction: null }
}

/** Looks for a longer line than the exact one: a call whose prompt reaches further than the exact parent's whole sequence. */
function trySplice(calls: readonly BuilderCall[], index: number, promptEnd: TreeNode, exactDepth: number, splicer: Splicer) {
  let trials = MAX_SPLICE_TRIALS
  for (let node = promptEnd.parent; node !== null && node.depth >= Math.max(1, exactDepth) && trials > 0; node = node.parent) {
    const candidates = node.prompts.filter((other) => {
      const call = calls[other]
      return call !== undefined && areOfOneAgent(call, calls[index]) && isAnswer(call) && call.record.delivery !== 'no'
    })
    for (const earlier of ranked(calls, index, candidates)) {
      if (trials-- <= 0) return null
      const junction = splicer(earlier, index)
      if (junction !== null) return { parent: earlier, junction }
    }
  }
  return null
}

function nearest<T>(from: TreeNode, find: (node: TreeNode) => T | null): { readonly found: T; readonly depth: number } | null {
  for (let node: TreeNode | null = from; node !== null; node = node.parent) {
    const found = find(node)
    if (found !== null) return { found, depth: node.depth }
  }
  return null
}

const DELIVERY_RANK = { yes: 0, partial: 1, no: 2 } as const

const deliveryRank = (calls: readonly BuilderCall[], index: number): number => DELIVERY_RANK[calls[index]?.record.delivery ?? 'no']

/**
 * Of equal sequences always the same one, so that an answer sampled twice is trained once: delivered, then the one that sampled more of
 * it, then the earliest. Only those that are alike token for token are left to the order of arrival.
 */
function canonical(calls: readonly BuilderCall[], equals: readonly number[]): number | null {
  const order = (a: number, b: number) =>
    deliveryRank(calls, a) - deliveryRank(calls, b) || promptLength(calls, a) - promptLength(calls, b) || a - b
  return equals.toSorted(order)[0] ?? null
}

/** Of attempts at one turn the one the agent is likeliest to have gone on with: asked before this call, delivered, latest. */
function ranked(calls: readonly BuilderCall[], index: number, attempts: readonly number[]): readonly number[] {
  const isLate = (other: number) => (other < index ? 0 : 1)
  return attempts.toSorted((a, b) => isLate(a) - isLate(b) || deliveryRank(calls, a) - deliveryRank(calls, b) || b - a)
}

/**
 * Walks the finished tree in sequence: every point where two calls part is a node, so the deepest node that the agent has visited is the
 * longest common prefix.
 */
function findRelatives(
  calls: readonly BuilderCall[],
  promptEnds: ReadonlyMap<number, TreeNode>,
  wholeEnds: ReadonlyMap<number, TreeNode>,
): ReadonlyMap<number, { readonly relative: number; readonly shared: number }> {
  const visits = new Map<string | null, Map<TreeNode, number>>()
  const relatives = new Map<number, { readonly relative: number; readonly shared: number }>()
  for (const [index, call] of calls.entries()) {
    const promptEnd = promptEnds.get(index)
    if (promptEnd === undefined) continue
    const agent = subagentOf(call)
    const latest = visits.get(agent) ?? new Map<TreeNode, number>()
    visits.set(agent, latest)
    const nearestVisited = nearest(promptEnd, (node) => latest.get(node) ?? null)
    if (nearestVisited !== null) relatives.set(index, { relative: nearestVisited.found, shared: nearestVisited.depth })
    if (!isAnswer(call)) continue
    for (let node = wholeEnds.get(index) ?? null; node !== null; node = node.parent) latest.set(node, index)
  }
  return relatives
}

function promptLength(calls: readonly BuilderCall[], index: number): number {
  return calls[index]?.promptIds.length ?? 0
}

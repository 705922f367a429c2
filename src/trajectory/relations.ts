// What a call is to the calls before it when it continues none of them: a retry, a rewritten turn, a compaction, a sub-agent.
import { areOfOneAgent, likelySpawner, openSpawns, type Spawns, senderOf, subagentOf } from './agents.ts'
import type { BuilderCall } from './builder.ts'
import type { Conversation } from './conversation.ts'
import { classifyBreak, type Drift, type DriftClass, windowAt } from './drift.ts'
import type { Forest } from './forest.ts'
import { isAnswer } from './forest.ts'

export type EdgeKind = 'extends' | 'retry_of' | 'rewrites' | 'compaction_of' | 'subagent_of' | 'aux'

export type Relation = {
  readonly kind: 'rewrites' | 'compaction_of' | 'subagent_of'
  /** Index of the earlier call. */
  readonly to: number
  readonly drift: Drift | null
  /** True when the earlier call's answer was found in this prompt: it is the summary that replaced the history. */
  readonly isSummary: boolean
}

/** A summary is asked for right before the history is replaced: only the nearest calls can be it. */
const SUMMARY_CANDIDATES = 4
const SUMMARY_MIN_TOKENS = 2
const SUMMARY_MIN_CHARACTERS = 20

export type RelationContext = {
  readonly calls: readonly BuilderCall[]
  readonly forest: Forest
  readonly conversation: Conversation
  readonly endToken: number | null
}

/** What all roots of a session are looked at with. */
type Roots = RelationContext & { readonly lastActive: readonly number[]; readonly spawns: Spawns }

/**
 * Relates every call that does not continue the one its conversation has come to; null for calls that do, and for those that stand alone.
 * What the client says of its agents goes before what their messages and tokens look like. Retries are grouped elsewhere.
 */
export function relate(context: RelationContext): readonly (Relation | null)[] {
  const { calls, forest, conversation } = context
  const roots: Roots = { ...context, lastActive: lastSequenceOfLines(forest), spawns: openSpawns(calls, conversation) }
  const relations = calls.map((call, index) => {
    const placement = forest.placements[index]
    if (placement === undefined || call.promptIds.length === 0) return null
    return placement.parent === -1 ? (relateAsSaid(roots, index) ?? relateRoot(roots, index)) : relateBranch(context, index)
  })
  const summaries = new Set(relations.flatMap((relation) => (relation?.isSummary ? [relation.to] : [])))
  return relations.map((relation, index) => {
    const call = calls[index]
    const isAsked = summaries.has(index) || call?.record.lineage?.purpose === 'compaction'
    return isAsked && call !== undefined && isAnswer(call) ? relateSummary(context, index) : relation
  })
}

/** By what the client says of its agents: a sub-agent's first call, or the first one after a call for a summary. */
function relateAsSaid(context: Roots, index: number): Relation | null {
  const { calls, spawns } = context
  const later = calls[index]
  if (later === undefined || later.record.lineage === null) return null
  const isFirst = calls.findIndex((call) => areOfOneAgent(call, later) && call.promptIds.length > 0) === index
  if (isFirst && subagentOf(later) !== null) {
    const to = spawns.spawnerOf(index)
    return to === null ? null : { kind: 'subagent_of', to, drift: null, isSummary: false }
  }
  const latest = latestAnswer(context, index)
  return latest !== null && calls[latest]?.record.lineage?.purpose === 'compaction'
    ? compaction(context, latest, index, 'by its summary')
    : null
}

/** A call for a summary goes on from the turn before it, or else tells the history in a way of its own: without tools, or without its end. */
function relateSummary(context: RelationContext, index: number): Relation | null {
  const latest = latestAnswer(context, index)
  return latest === null || context.forest.placements[index]?.parent === latest ? null : compaction(context, latest, index, 'for a summary')
}

/** The agent's last answer before this call. */
function latestAnswer({ calls }: RelationContext, index: number): number | null {
  const latest = calls.slice(0, index).findLastIndex((call) => areOfOneAgent(call, calls[index]) && isAnswer(call))
  return latest === -1 ? null : latest
}

/** The call continues one, but its conversation has gone on since: the turns after that one are told in other tokens. */
function relateBranch(context: RelationContext, index: number): Relation | null {
  const { calls, forest, conversation, endToken } = context
  const { parent = -1, junction = null, relative = -1, shared = 0 } = forest.placements[index] ?? {}
  const later = calls[index]
  const continued = calls[parent]
  if (later === undefined || continued === undefined || junction !== null || relative === -1 || relative === parent) return null
  // A relative that shares less is only the nearest of those that came before.
  if (shared < continued.promptIds.length + continued.sampledIds.length) return null
  const line = lineOf(context, relative)
  const found = classifyBreak(line, later, shared, conversation, endToken)
  const knowsMessages = later.record.promptMessages.length > 0
  // One that goes on from there in its own way, as a sub-agent does, retells nothing of what came after.
  const retold = knowsMessages ? line.find((call) => call === continued || retells(conversation, call, later)) : undefined
  const isBreak = knowsMessages ? retold !== undefined && retold !== continued : found.isRewrite
  return isBreak ? rewrite(context, index, found.class, found.reason, found.generationPromptTokens) : null
}

function relateRoot(context: Roots, index: number): Relation | null {
  const { calls, forest, conversation } = context
  const later = calls[index]
  const placement = forest.placements[index]
  const relative = calls[placement?.relative ?? -1]
  if (later === undefined || placement === undefined) return null

  const summary = findSummary(context, index)
  if (relative === undefined)
    return summary === null ? unrelatedHead(context, index) : compaction(context, summary, index, 'by its summary')

  const knowsMessages = later.record.promptMessages.length > 0 && relative.record.promptMessages.length > 0
  const toolsDiffer = !isSameText(conversation.toolsText(relative.record), conversation.toolsText(later.record))
  if (knowsMessages && !isSameOpening(conversation, relative, later)) {
    return summary === null ? unrelatedHead(context, index) : compaction(context, summary, index, 'by its summary')
  }
  if (summary !== null) return compaction(context, summary, index, 'by its summary')
  if (knowsMessages && later.record.promptMessages.length < relative.record.promptMessages.length) {
    return compaction(context, placement.relative, index, 'by a shorter one')
  }
  if (toolsDiffer) return rewrite(context, index, 'D11', 'the tool list changed')
  if (knowsMessages && !isSameSystem(conversation, relative, later)) return rewrite(context, index, 'D8', 'the system prompt changed')

  const found = classifyBreak(lineOf(context, placement.relative), later, placement.shared, conversation, context.endToken)
  if (!knowsMessages && !found.isRewrite) return null
  return rewrite(context, index, found.class, found.reason, found.generationPromptTokens)
}

/** The call opens with another conversation: a new head is a sub-agent; an old head whose line ended is a compacted history. */
function unrelatedHead(context: Roots, index: number): Relation | null {
  const { calls, conversation, lastActive } = context
  const later = calls[index]
  if (later === undefined || later.record.promptMessages.length === 0) return null
  const earlier = calls
    .slice(0, index)
    .flatMap((call, at) => (areOfOneAgent(call, later) && isAnswer(call) && call.record.promptMessages.length > 0 ? [at] : []))
  const sender = later.record.lineage === null ? senderOf(calls, conversation, earlier, later) : null
  if (sender !== null) return { kind: 'subagent_of', to: sender, drift: null, isSummary: false }
  const sameHead = earlier.findLast((at) => {
    const call = calls[at]
    return (
      call !== undefined &&
      isSameSystem(conversation, call, later) &&
      isSameText(conversation.toolsText(call.record), conversation.toolsText(later.record))
    )
  })
  if (sameHead !== undefined) {
    const isShorter = later.promptIds.length < (calls[sameHead]?.promptIds.length ?? 0)
    if (isShorter && (lastActive[sameHead] ?? 0) < index) return compaction(context, sameHead, index, 'by a shorter one')
  }
  // A client that names its sub-agents has none without a name.
  if (later.record.lineage !== null) return null
  // An agent with tools was not spawned by an answer that could call none: a title, asked for before the first turn.
  const hasTools = (at: number): boolean => (calls[at]?.record.toolCount ?? 0) > 0
  const to = likelySpawner(calls, later.record.toolCount > 0 ? earlier.filter(hasTools) : earlier)
  return to === null ? null : { kind: 'subagent_of', to, drift: null, isSummary: false }
}

const COMPACTION_REASONS = {
  'for a summary': 'the history was told to be summarised',
  'by its summary': 'the history was replaced by the answer of an earlier call',
  'by a shorter one': 'the history was replaced by a shorter one',
} as const

function compaction(context: RelationContext, to: number, index: number, how: keyof typeof COMPACTION_REASONS): Relation {
  const { shared = 0 } = context.forest.placements[index] ?? {}
  const drift = driftAt(context, to, index, shared, 'D9', COMPACTION_REASONS[how])
  return { kind: 'compaction_of', to, drift, isSummary: how === 'by its summary' }
}

function rewrite(
  context: RelationContext,
  index: number,
  driftClass: DriftClass,
  reason: string,
  generationPromptTokens?: number,
): Relation {
  const { relative = -1, shared = 0 } = context.forest.placements[index] ?? {}
  const drift = driftAt(context, relative, index, shared, driftClass, reason)
  return {
    kind: 'rewrites',
    to: relative,
    drift: generationPromptTokens === undefined ? drift : { ...drift, generation_prompt_tokens: generationPromptTokens },
    isSummary: false,
  }
}

function driftAt(context: RelationContext, to: number, index: number, shared: number, driftClass: DriftClass, reason: string): Drift {
  const earlier = context.calls[to]
  const later = context.calls[index]
  // The relative shares the longest prefix; another earlier call may part from this one sooner.
  const isRelative = context.forest.placements[index]?.relative === to
  const window = earlier === undefined || later === undefined || !isRelative ? null : windowAt(earlier, later, shared)
  return { class: driftClass, index: isRelative ? shared : null, reason, window }
}

/** The call whose answer this prompt repeats in place of the history, or null. */
function findSummary({ calls, conversation, endToken }: RelationContext, index: number): number | null {
  const later = calls[index]
  if (later === undefined) return null
  let candidates = SUMMARY_CANDIDATES
  for (let at = index - 1; at >= 0 && candidates > 0; at--) {
    const earlier = calls[at]
    if (earlier === undefined || !areOfOneAgent(earlier, later) || !isAnswer(earlier)) continue
    // A turn that asked for a tool is no summary: told again, it is the end of the history, which was kept.
    if (earlier.record.finishReason === 'tool_calls') continue
    candidates--
    if (repeatsAnswer(earlier, later, conversation, endToken)) return at
  }
  return null
}

function repeatsAnswer(earlier: BuilderCall, later: BuilderCall, conversation: Conversation, endToken: number | null): boolean {
  const before = earlier.record.promptMessages.length
  const after = later.record.promptMessages.length
  if (before > 0 && after > 0) {
    // One that tells the same conversation, and more of it, tells the answer as a turn. A summary may also be asked for in words of its own.
    if (after > before && isSameOpening(conversation, earlier, later)) return false
    const answer = earlier.record.responseMessage === null ? '' : longestPiece(conversation.text(earlier.record.responseMessage))
    return answer.length >= SUMMARY_MIN_CHARACTERS && later.record.promptMessages.some((at) => conversation.text(at).includes(answer))
  }
  if (later.promptIds.length >= earlier.promptIds.length + earlier.sampledIds.length) return false
  const core = earlier.sampledIds.at(-1) === endToken ? earlier.sampledIds.subarray(0, -1) : earlier.sampledIds
  return core.length >= SUMMARY_MIN_TOKENS && holds(later.promptIds, core)
}

/** Of a text between tags: agents ask for a summary in tags of their own, and leave them out when they tell it. */
function longestPiece(text: string): string {
  const pieces = text.split(/<\/?[\w-]+>/).map((piece) => piece.trim())
  return pieces.reduce((longest, piece) => (piece.length > longest.length ? piece : longest), '')
}

function holds(ids: Int32Array, part: Int32Array): boolean {
  const bytes = Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength)
  const wanted = Buffer.from(part.buffer, part.byteOffset, part.byteLength)
  for (let at = bytes.indexOf(wanted); at !== -1; at = bytes.indexOf(wanted, at + 1)) {
    if (at % Int32Array.BYTES_PER_ELEMENT === 0) return true
  }
  return false
}

/** A call and its ancestors, latest first. */
function lineOf({ calls, forest }: RelationContext, from: number): readonly BuilderCall[] {
  const line: BuilderCall[] = []
  for (let at = from; at !== -1; at = forest.placements[at]?.parent ?? -1) {
    const call = calls[at]
    if (call !== undefined) line.push(call)
  }
  return line
}

/** For each call the last call that grows out of it, itself included: a line is still alive while that comes later. */
function lastSequenceOfLines(forest: Forest): readonly number[] {
  const last = forest.placements.map((_, index) => index)
  for (const index of forest.order.toReversed()) {
    const parent = forest.placements[index]?.parent ?? -1
    if (parent !== -1) last[parent] = Math.max(last[parent] ?? 0, last[index] ?? 0)
  }
  return last
}

const isSameText = (a: string | null, b: string | null): boolean => a === b

/** Same first message after the system prompt: both requests tell one conversation. */
function isSameOpening(conversation: Conversation, a: BuilderCall, b: BuilderCall): boolean {
  const first = (call: BuilderCall) => call.record.promptMessages[conversation.systemOf(call.record).length]
  return conversation.isSame(first(a), first(b))
}

/** The later request tells all messages of the earlier one, and goes on after them. */
function retells(conversation: Conversation, earlier: BuilderCall, later: BuilderCall): boolean {
  const [before, after] = [earlier.record.promptMessages, later.record.promptMessages]
  // Requests that part do so near the end.
  return (
    before.length > 0 &&
    before.length < after.length &&
    before.findLast((message, at) => !conversation.isSame(message, after[at])) === undefined
  )
}

function isSameSystem(conversation: Conversation, a: BuilderCall, b: BuilderCall): boolean {
  const left = conversation.systemOf(a.record)
  const right = conversation.systemOf(b.record)
  return left.length === right.length && left.every((index, at) => conversation.isSame(index, right[at]))
}

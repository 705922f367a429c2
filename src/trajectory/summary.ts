// What a trajectory says about its own making: statistics, findings, edges and everything that is not trained, with its reason.
import type { Trace } from '../contract/result.ts'
import type { Analysis } from './analysis.ts'
import type { BuilderCall } from './builder.ts'
import { turnsOf } from './rows.ts'

export type Finding = { readonly code: string; readonly detail: string }

/** Polar's counters, then ours. `merge_ratio` is trained calls per trained row: 1 means that nothing was merged. */
export type ReconstructionStats = {
  readonly chains_total: number
  readonly chains_reconstructed_full: number
  readonly chains_reconstructed_truncated: number
  readonly completions_total: number
  readonly completions_merged: number
  readonly merge_ratio: number
  readonly delivered_fraction: number
  readonly forks_by_cause: Readonly<Record<string, number>>
  readonly captured_tokens: number
  readonly trained_tokens: number
  readonly masked_tokens_by_reason: Readonly<Record<string, number>>
  readonly untrained_calls_by_reason: Readonly<Record<string, number>>
  readonly unreported_context_share: number
}

export type Untrained = { readonly call_id: string; readonly reason: string; readonly tokens: number; readonly emitted: boolean }

/** What the model boundary dropped, moved or put back, by code: in how many calls, and what it said first. */
type Noted = { readonly code: string; readonly calls: number; readonly first: { readonly call_id: string; readonly detail: string } }

export type Summary = {
  readonly reconstruction_stats: ReconstructionStats
  readonly edges: readonly Readonly<Record<string, unknown>>[]
  readonly untrained: readonly Untrained[]
  readonly findings: readonly Finding[]
  readonly diagnostics: readonly Noted[]
}

/** `truncated` counts chains that lost calls on the way; only Polar's own rule does that. */
export function summarise(analysis: Analysis, traces: readonly Trace[], hintBelow: number, truncated = 0): Summary {
  const { calls, edges, forest } = analysis
  const emitted = new Set<string>()
  const trained = new Set<string>()
  const reasons = new Map<string, string>()
  let unreported = 0
  let context = 0
  for (const trace of traces) {
    const turns = turnsOf(trace)
    for (const { call_id, trained: isTrained, reason } of turns) {
      emitted.add(call_id)
      if (isTrained) trained.add(call_id)
      else if (reason !== undefined && reason !== 'shared') reasons.set(call_id, reason)
    }
    unreported += Number(trace.metadata.unreported_context_tokens ?? 0)
    context += trace.prompt_ids.length + (turns.at(-1)?.start ?? 0)
  }
  const untrained = calls.flatMap((call, index): Untrained[] => {
    const id = call.record.id
    if (trained.has(id)) return []
    const reason = reasons.get(id) ?? analysis.verdicts[index] ?? 'not_emitted'
    return [{ call_id: id, reason, tokens: call.sampledIds.length, emitted: emitted.has(id) }]
  })
  const rows = traces.filter((trace) => trace.loss_mask.includes(1)).length
  const answered = calls.filter(({ record }) => record.status === 'ok')
  const received = calls.filter(
    ({ record }, index) => record.status === 'ok' && (record.delivery === 'yes' || (forest.children[index]?.length ?? 0) > 0),
  )
  const stats: ReconstructionStats = {
    chains_total: traces.length,
    chains_reconstructed_full: traces.length - truncated,
    chains_reconstructed_truncated: truncated,
    completions_total: calls.length,
    completions_merged: emitted.size,
    merge_ratio: rows === 0 ? 0 : trained.size / rows,
    delivered_fraction: answered.length === 0 ? 0 : received.length / answered.length,
    forks_by_cause: tally(edges.filter((edge) => edge.kind !== 'extends').map((edge) => [edge.drift?.class ?? edge.kind, 1])),
    captured_tokens: calls.reduce((sum, call) => sum + call.sampledIds.length, 0),
    trained_tokens: calls.reduce((sum, call) => sum + (trained.has(call.record.id) ? call.sampledIds.length : 0), 0),
    masked_tokens_by_reason: tally(untrained.map(({ reason, tokens }) => [reason, tokens])),
    untrained_calls_by_reason: tally(untrained.map(({ reason }) => [reason, 1])),
    unreported_context_share: context === 0 ? 0 : unreported / context,
  }
  const named = (index: number | null) => (index === null ? null : (calls[index]?.record.id ?? null))
  return {
    reconstruction_stats: stats,
    edges: edges.map(({ kind, from, to, drift }) => ({ kind, call_id: named(from), of: named(to), drift })),
    untrained,
    findings: findingsOf(analysis, stats, rows, trained.size, hintBelow),
    diagnostics: notedIn(calls),
  }
}

function notedIn(calls: readonly BuilderCall[]): Noted[] {
  const noted = new Map<string, Noted>()
  for (const { record } of calls) {
    for (const code of new Set(record.diagnostics.map((diagnostic) => diagnostic.code))) {
      const detail = record.diagnostics.find((diagnostic) => diagnostic.code === code)?.detail ?? ''
      const { calls: before, first } = noted.get(code) ?? { calls: 0, first: { call_id: record.id, detail } }
      noted.set(code, { code, calls: before + 1, first })
    }
  }
  return [...noted.values()]
}

function findingsOf(analysis: Analysis, stats: ReconstructionStats, rows: number, trainedCalls: number, hintBelow: number): Finding[] {
  const { calls, roles, forest, edges } = analysis
  const findings: Finding[] = []
  const answered = [...calls.keys()].filter((index) => calls[index]?.record.status === 'ok')
  const agentCalls = answered.filter((index) => roles[index] !== 'aux')
  if (calls.length === 0) findings.push({ code: 'no_turns', detail: 'the agent made no model call' })
  else if (answered.length > 0 && agentCalls.length === 0) {
    findings.push({ code: 'all_calls_aux', detail: `all ${answered.length} answered calls are side calls: there is no trainable trace` })
  } else if (trainedCalls === 0)
    findings.push({ code: 'no_trainable_call', detail: `none of ${calls.length} calls can be trained; see untrained` })

  const only = agentCalls.length === 1 ? calls[agentCalls[0] ?? -1]?.record : undefined
  if (only !== undefined && only.toolCount > 0 && only.finishReason === 'tool_calls') {
    findings.push({ code: 'degenerate_rollout', detail: 'the agent asked for a tool once and never came back with its result' })
  }
  const related = new Set(edges.map((edge) => edge.from))
  const roots = agentCalls.filter((index) => forest.placements[index]?.parent === -1 && !related.has(index))
  if (roots.length > 1) findings.push({ code: 'multiple_roots', detail: `${roots.length} conversations begin without a known relation` })
  const truncated = agentCalls.filter(
    (index) => calls[index]?.record.finishReason === 'length' && (forest.children[index]?.length ?? 0) > 0,
  )
  if (truncated.length > 0)
    findings.push({ code: 'truncated_turn', detail: `${truncated.length} turns were cut by their token limit and continued` })

  const skewed = agentCalls.flatMap((index) => skewOf(calls[index]) ?? [])
  if (skewed.length > 0) {
    findings.push({
      code: 'sampling_skew',
      detail: `${skewed.length} calls: ${[...new Set(skewed)].join('; ')}. Pin the task's sampling or correct for it`,
    })
  }
  if (trainedCalls > 1 && rows > 1 && stats.merge_ratio < hintBelow) {
    const hint = hintFor(stats.forks_by_cause)
    if (hint !== null) findings.push({ code: 'low_merge_ratio', detail: `${trainedCalls} calls in ${rows} rows: ${hint}` })
  }
  return findings
}

/** Why a trainer that recomputes logprobs at temperature 1 would not find the recorded ones. */
function skewOf(call: BuilderCall | undefined): string | null {
  if (call === undefined) return null
  const { sampling, logprobMode } = call.record
  if (sampling.temperature === 0) return 'temperature 0'
  if ((sampling.topP ?? 1) < 1 || (sampling.topK ?? 0) > 0) return 'top_p or top_k cut the distribution'
  if (logprobMode === 'raw' && (sampling.temperature ?? 1) !== 1) return 'logprobs were taken before temperature'
  return null
}

const HINTS: { readonly [cause: string]: string } = {
  D1: 'history is tokenised otherwise than it was sampled; `splice: true` keeps the sampled ids',
  D2: 'the chat template or the agent drops earlier reasoning; serve with a template that keeps it, or set `splice: true`',
  D4: 'the agent edits earlier turns (often re-written tool arguments); turn that off in the agent, or set `splice: true`',
  D5: 'the agent or the template trims white space of earlier turns; `splice: true` bridges it',
  D7: 'turns are cut by their token limit; raise max_tokens',
  D8: 'the system prompt changes between calls; pin what is volatile in it (dates, nonces)',
  D9: 'the agent compacts its context; raise the context limit or switch compaction off',
  D11: 'the tool list changes between calls; load every tool before the first turn',
  D12: 'the client sends turns again; raise its request timeout',
  D17: 'the generation prompt ends in tokens (such as <think>) that history does not repeat; serve with a template that renders them in history too',
  unclassified: 'history differs outside the sampled turns; compare the windows of the drift entries',
}

/** What would mend the most frequent cause that can be mended; null when the rows are what they should be (sub-agents, side calls). */
function hintFor(forks: Readonly<Record<string, number>>): string | null {
  const [cause] =
    Object.entries(forks)
      .filter(([name]) => name in HINTS)
      .toSorted(([, a], [, b]) => b - a)[0] ?? []
  return cause === undefined ? null : (HINTS[cause] ?? null)
}

function tally(entries: readonly (readonly [string, number])[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [key, count] of entries) counts[key] = (counts[key] ?? 0) + count
  return counts
}

// The merging builder: one row per line of calls from a root to a leaf, every sampled token trained in one row at most.
import type { Trace } from '../contract/result.ts'
import { type Analysis, analyse } from './analysis.ts'
import type { Builder, BuilderCall } from './builder.ts'
import { type PrefixMergingConfig, parsePrefixMerging } from './config.ts'
import { buildPolarChains } from './polar-chains.ts'
import { isEmitted, layOutRow, type RowPlan, rowId } from './rows.ts'
import { type Finding, summarise } from './summary.ts'

export const buildPrefixMerging: Builder = (input, config) => {
  const parsed = parsePrefixMerging(config)
  if (!parsed.ok) throw new Error(parsed.error)
  const options = parsed.config
  const findings: Finding[] = []
  if (options.tokenizer_name_or_path != null) {
    findings.push({
      code: 'config_ignored',
      detail: "tokenizer_name_or_path: rows hold the engine's own ids, so nothing is tokenised here",
    })
  }
  const endToken = options.end_of_turn_token_id ?? null
  if (options.splice === 'polar') {
    const analysis = analyse(input, options.aux, null)
    const { traces, truncated } = buildPolarChains(analysis, endToken)
    const summary = summarise(analysis, traces, options.merge_ratio_hint, truncated)
    findings.unshift(...summary.findings)
    return { traces, metadata: { builder: 'prefix_merging', splice: 'polar', ...summary, findings } }
  }
  const analysis = analyse(input, options.aux, spliceOptions(options, endToken))
  const traces = buildRows(analysis)
  const summary = summarise(analysis, traces, options.merge_ratio_hint)
  findings.unshift(...summary.findings)
  return { traces, metadata: { builder: 'prefix_merging', splice: options.splice, ...summary, findings } }
}

function spliceOptions(options: PrefixMergingConfig, endToken: number | null) {
  return options.splice === true ? { endToken, maxUnreported: options.splice_max_unreported } : null
}

function buildRows(analysis: Analysis): readonly Trace[] {
  const plans = planRows(analysis)
  const rowOf = new Map<number, string>()
  for (const { path, ownFrom } of plans) {
    const leaf = analysis.calls[path.at(-1) ?? -1]
    if (leaf !== undefined) for (const index of path.slice(ownFrom)) rowOf.set(index, rowId(leaf))
  }
  return plans.map((plan) => layOutRow(analysis, plan, rowOf))
}

/** One plan per leaf, ordered by the first call that is the row's own. A turn that several rows share belongs to the heir of its line. */
function planRows(analysis: Analysis): readonly RowPlan[] {
  const { calls, forest } = analysis
  const heirs = chooseHeirs(analysis)
  const plans: RowPlan[] = []
  for (const [leaf, call] of calls.entries()) {
    if (!isEmitted(call) || (forest.children[leaf] ?? []).some((child) => isEmittedAt(calls, child))) continue
    const path: number[] = []
    for (let at = leaf; at !== -1; at = forest.placements[at]?.parent ?? -1) path.push(at)
    path.reverse()
    let ownFrom = path.length - 1
    while (ownFrom > 0 && heirs.get(path[ownFrom - 1] ?? -1) === path[ownFrom]) ownFrom--
    plans.push({ path, ownFrom })
  }
  const firstOwn = ({ path, ownFrom }: RowPlan) => path[ownFrom] ?? 0
  return plans.sort((a, b) => firstOwn(a) - firstOwn(b))
}

/** The child whose row trains the parent's turn: the one with the most trained calls behind it, earliest. */
function chooseHeirs({ calls, forest, verdicts }: Analysis): ReadonlyMap<number, number> {
  const trained: number[] = calls.map((_, index) => (verdicts[index] === null ? 1 : 0))
  for (const index of forest.order.toReversed()) {
    const parent = forest.placements[index]?.parent ?? -1
    if (parent !== -1) trained[parent] = (trained[parent] ?? 0) + (trained[index] ?? 0)
  }
  const heirs = new Map<number, number>()
  for (const [parent, children] of forest.children.entries()) {
    const emitted = children.filter((child) => isEmittedAt(calls, child))
    const [heir] = emitted.toSorted((a, b) => (trained[b] ?? 0) - (trained[a] ?? 0) || a - b)
    if (heir !== undefined) heirs.set(parent, heir)
  }
  return heirs
}

function isEmittedAt(calls: readonly BuilderCall[], index: number): boolean {
  const call = calls[index]
  return call !== undefined && isEmitted(call)
}

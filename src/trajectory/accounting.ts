// The rows' own bookkeeping, redone whenever a mask changes: counts, weights, and the token that carries the reward.
import type { Trace } from '../contract/result.ts'
import type { RewardConfig } from './config.ts'
import { turnsOf } from './rows.ts'

export function trainedTokensOf(trace: Trace): number {
  let trained = 0
  for (const bit of trace.loss_mask) trained += bit
  return trained
}

/**
 * Writes on every row how many rows train and what this one weighs: the weights of a session's rows sum to 1, so that a trainer which
 * averages rows does not count a broken session more than once. `reward_index` is the last trained position, where PPO puts the reward.
 */
export function weighRows(traces: readonly Trace[], mode: RewardConfig['rollout_weight']): readonly Trace[] {
  const trained = traces.map(trainedTokensOf)
  const rows = trained.filter((tokens) => tokens > 0).length
  const total = trained.reduce((sum, tokens) => sum + tokens, 0)
  return traces.map((trace, at) => {
    const tokens = trained[at] ?? 0
    const weight = tokens === 0 ? 0 : mode === 'tokens' ? tokens / total : 1 / rows
    const last = trace.loss_mask.lastIndexOf(1)
    return {
      ...trace,
      metadata: { ...trace.metadata, segment_count: rows, rollout_weight: weight, reward_index: last === -1 ? null : last },
    }
  })
}

/** Takes a row out of training and says why, on the row and on each of its turns. */
export function maskRow(trace: Trace, reason: string): Trace {
  const tokens = trainedTokensOf(trace)
  if (tokens === 0) return trace
  const turns = turnsOf(trace).map((turn) => (turn.trained ? { ...turn, trained: false, reason } : turn))
  const metadata = { ...trace.metadata, turns, discarded_reason: reason, discarded_trained_tokens: tokens }
  return { ...trace, loss_mask: new Uint8Array(trace.loss_mask.length), metadata }
}

/** Moves what was masked after the build from the trained to the masked counts, so that nothing disappears between the two. */
export function recount(stats: Readonly<Record<string, unknown>>, traces: readonly Trace[], maskedByReason: ReadonlyMap<string, number>) {
  const before = stats.masked_tokens_by_reason
  const masked: Record<string, number> = {}
  if (typeof before === 'object' && before !== null) {
    for (const [reason, tokens] of Object.entries(before)) if (typeof tokens === 'number') masked[reason] = tokens
  }
  for (const [reason, tokens] of maskedByReason) masked[reason] = (masked[reason] ?? 0) + tokens
  return { ...stats, trained_tokens: traces.reduce((sum, trace) => sum + trainedTokensOf(trace), 0), masked_tokens_by_reason: masked }
}

// From one evaluation to the rewards of a session's rows.
import type { Trace } from '../contract/result.ts'
import { unreachable } from '../kernel/unreachable.ts'
import { trainedTokensOf } from './accounting.ts'
import type { RewardConfig } from './config.ts'
import { turnsOf } from './rows.ts'

/** What was graded; `outcome` null means "not graded", never 0. */
export type Grades = {
  readonly outcome: number | null
  readonly traceRewards: readonly number[] | null
  /** One per trained row, in row order, for `per_segment`. */
  readonly segmentRewards: readonly number[] | null
}

/** A row's reward, and whether the policy takes the row out of training. */
export type RowReward = { readonly reward: number | null; readonly isMasked: boolean; readonly turnRewards?: readonly (number | null)[] }

export type Rewards = { readonly ok: true; readonly rows: readonly RowReward[] } | { readonly ok: false; readonly error: string }

/**
 * Assigns rewards to rows. An evaluator's per-trace list wins under `broadcast` (Polar's rule) and must have one number per trace.
 * Rows that a policy leaves out are masked rather than given 0, which would train against them.
 */
export function assignRewards(traces: readonly Trace[], grades: Grades, config: RewardConfig): Rewards {
  const { outcome, traceRewards } = grades
  const every = [...(traceRewards ?? []), ...(grades.segmentRewards ?? []), outcome ?? 0]
  if (!every.every(Number.isFinite)) return { ok: false, error: 'the evaluator returned a reward that is not a finite number' }
  if (traceRewards !== null && traceRewards.length !== traces.length) {
    return { ok: false, error: `the evaluator returned ${traceRewards.length} trace rewards for ${traces.length} traces` }
  }
  const isTrained = traces.map((trace) => trainedTokensOf(trace) > 0)
  const trainedRows = isTrained.filter(Boolean).length
  const given = (rewardOf: (trace: Trace, at: number) => number | null) =>
    ({ ok: true, rows: traces.map((trace, at) => ({ reward: rewardOf(trace, at), isMasked: false })) }) as const
  const only = (isKept: (trace: Trace, at: number) => boolean) => {
    if (outcome === null) return given(() => null)
    return {
      ok: true,
      rows: traces.map((trace, at) => (isKept(trace, at) ? { reward: outcome, isMasked: false } : { reward: 0, isMasked: true })),
    } as const
  }

  switch (config.reward_policy) {
    case 'broadcast':
      return given((_, at) => (traceRewards === null ? outcome : (traceRewards[at] ?? null)))
    case 'per_trace':
      if (traceRewards === null && outcome !== null)
        return { ok: false, error: 'reward_policy per_trace: the evaluator returned no trace rewards' }
      return given((_, at) => traceRewards?.[at] ?? null)
    case 'per_segment': {
      const { segmentRewards } = grades
      if (segmentRewards === null) {
        return outcome === null
          ? given(() => null)
          : { ok: false, error: 'reward_policy per_segment: the evaluator returned no segment_rewards' }
      }
      if (segmentRewards.length !== trainedRows) {
        return { ok: false, error: `reward_policy per_segment: ${segmentRewards.length} segment rewards for ${trainedRows} trained rows` }
      }
      let next = 0
      return given((_, at) => (isTrained[at] ? (segmentRewards[next++] ?? null) : 0))
    }
    case 'split':
      return given((_, at) => (outcome === null ? null : isTrained[at] ? outcome / trainedRows : 0))
    case 'main_only':
      return only((trace) => trace.metadata.segment_role === 'main')
    case 'last_chain': {
      const last = lastMainRow(traces, isTrained)
      return only((_, at) => at === last)
    }
    case 'discounted':
      return outcome === null ? given(() => null) : discount(traces, outcome, config.reward_discount)
    default:
      return unreachable(config.reward_policy)
  }
}

/** The main row that ends last; rows stand in the order in which they began. */
function lastMainRow(traces: readonly Trace[], isTrained: readonly boolean[]): number {
  let last = -1
  let sequence = -1
  for (const [at, trace] of traces.entries()) {
    const end = Number(trace.metadata.last_sequence ?? at)
    if (!isTrained[at] || trace.metadata.segment_role !== 'main' || end < sequence) continue
    last = at
    sequence = end
  }
  return last
}

/** Every trained turn gets the outcome, discounted once for each trained turn of the session that was asked for after it. */
function discount(traces: readonly Trace[], outcome: number, gamma: number): Rewards {
  const sequences = traces
    .flatMap((trace) => turnsOf(trace).flatMap((turn) => (turn.trained ? [turn.sequence] : [])))
    .toSorted((a, b) => a - b)
  const later = new Map(sequences.map((sequence, at) => [sequence, sequences.length - 1 - at]))
  const rows = traces.map((trace): RowReward => {
    const turnRewards = turnsOf(trace).map((turn) => (turn.trained ? outcome * gamma ** (later.get(turn.sequence) ?? 0) : null))
    return { reward: turnRewards.findLast((reward) => reward !== null) ?? 0, isMasked: false, turnRewards }
  })
  return { ok: true, rows }
}

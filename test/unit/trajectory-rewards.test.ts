// From one evaluation to the rewards of rows: every policy over the same session.
import { describe, expect, it } from 'vitest'
import type { Trace } from '../../src/contract/result.ts'
import { weighRows } from '../../src/trajectory/accounting.ts'
import type { RewardConfig, RewardPolicy } from '../../src/trajectory/config.ts'
import { assignRewards, type Grades } from '../../src/trajectory/rewards.ts'

type Row = { readonly role: string; readonly last: number; readonly turns: readonly (readonly [sequence: number, trained: boolean])[] }

/** One token per turn, no context between. */
function trace({ role, last, turns }: Row): Trace {
  const response = Int32Array.from(turns.map(([sequence]) => sequence))
  return {
    prompt_ids: Int32Array.of(1),
    response_ids: response,
    loss_mask: Uint8Array.from(turns.map(([, trained]) => (trained ? 1 : 0))),
    prompt_messages: [],
    response_messages: [],
    tools: null,
    finish_reason: 'stop',
    response_logprobs: new Float32Array(response.length),
    reward: null,
    metadata: {
      segment_role: role,
      last_sequence: last,
      turns: turns.map(([sequence, trained], at) => ({ call_id: `c${sequence}`, sequence, start: at, end: at + 1, trained })),
    },
  }
}

/** A main line, a sub-agent, a title, and the main line after a compaction. */
const ROWS: readonly Row[] = [
  {
    role: 'main',
    last: 2,
    turns: [
      [0, true],
      [2, true],
    ],
  },
  {
    role: 'subagent',
    last: 3,
    turns: [
      [1, true],
      [3, true],
    ],
  },
  { role: 'aux', last: 5, turns: [[5, false]] },
  { role: 'main', last: 4, turns: [[4, true]] },
]
const SESSION = ROWS.map(trace)

const config = (reward_policy: RewardPolicy, more: Partial<RewardConfig> = {}): RewardConfig => ({
  reward_policy,
  reward_discount: 0.5,
  rollout_weight: 'rows',
  parser_filter: true,
  ...more,
})
const grades = (outcome: number | null, more: Partial<Grades> = {}): Grades => ({
  outcome,
  traceRewards: null,
  segmentRewards: null,
  ...more,
})

function assigned(policy: RewardPolicy, given: Grades, traces = SESSION) {
  const rewards = assignRewards(traces, given, config(policy))
  return rewards.ok ? rewards.rows.map(({ reward, isMasked }) => (isMasked ? 'masked' : reward)) : rewards.error
}

describe('reward policies', () => {
  it.each<[RewardPolicy, Grades, unknown]>([
    ['broadcast', grades(1), [1, 1, 1, 1]],
    ['broadcast', grades(1, { traceRewards: [0.1, 0.2, 0.3, 0.4] }), [0.1, 0.2, 0.3, 0.4]],
    ['last_chain', grades(1), ['masked', 'masked', 'masked', 1]],
    ['split', grades(1), [1 / 3, 1 / 3, 0, 1 / 3]],
    ['main_only', grades(1), [1, 'masked', 'masked', 1]],
    ['per_trace', grades(1, { traceRewards: [0.1, 0.2, 0.3, 0.4] }), [0.1, 0.2, 0.3, 0.4]],
    ['per_segment', grades(1, { segmentRewards: [0.1, 0.2, 0.4] }), [0.1, 0.2, 0, 0.4]],
    ['discounted', grades(1), [0.25, 0.5, 0, 1]],
    ['broadcast', grades(0), [0, 0, 0, 0]],
    ['split', grades(-1), [-1 / 3, -1 / 3, 0, -1 / 3]],
  ])('%s of %o', (policy, given, expected) => {
    expect(assigned(policy, given)).toEqual(expected)
  })

  it.each<RewardPolicy>(['broadcast', 'last_chain', 'split', 'main_only', 'per_trace', 'per_segment', 'discounted'])(
    '%s leaves an ungraded session ungraded and unmasked',
    (policy) => {
      expect(assigned(policy, grades(null))).toEqual([null, null, null, null])
    },
  )

  it.each<RewardPolicy>(['broadcast', 'split', 'main_only', 'last_chain', 'discounted'])('%s takes a session without rows', (policy) => {
    expect(assigned(policy, grades(1), [])).toEqual([])
  })

  it('discounts every turn by the trained turns of the session after it', () => {
    const rewards = assignRewards(SESSION, grades(1), config('discounted'))
    expect(rewards.ok && rewards.rows.map(({ turnRewards }) => turnRewards)).toEqual([[0.0625, 0.25], [0.125, 0.5], [null], [1]])
  })

  it.each<[string, RewardPolicy, Grades, RegExp]>([
    ['too few trace rewards', 'broadcast', grades(1, { traceRewards: [1, 1, 1] }), /3 trace rewards for 4 traces/],
    ['no trace rewards', 'per_trace', grades(1), /no trace rewards/],
    ['no segment rewards', 'per_segment', grades(1), /no segment_rewards/],
    [
      'segment rewards for untrained rows too',
      'per_segment',
      grades(1, { segmentRewards: [1, 1, 1, 1] }),
      /4 segment rewards for 3 trained rows/,
    ],
    ['a reward that is no number', 'broadcast', grades(Number.NaN), /not a finite number/],
    ['an infinite trace reward', 'broadcast', grades(1, { traceRewards: [1, 1, 1, Number.POSITIVE_INFINITY] }), /not a finite number/],
  ])('%s is an error, not a guess', (_, policy, given, error) => {
    expect(assigned(policy, given)).toMatch(error)
  })
})

describe('row weights', () => {
  it.each<[RewardConfig['rollout_weight'], readonly number[]]>([
    ['rows', [1 / 3, 1 / 3, 0, 1 / 3]],
    ['tokens', [2 / 5, 2 / 5, 0, 1 / 5]],
  ])('by %s sum to one over the trained rows', (mode, weights) => {
    expect(weighRows(SESSION, mode).map(({ metadata }) => metadata.rollout_weight)).toEqual(weights)
  })
  it('mark the token that carries the reward', () => {
    expect(weighRows(SESSION, 'rows').map(({ metadata }) => metadata.reward_index)).toEqual([1, 1, null, 0])
    expect(weighRows(SESSION, 'rows').map(({ metadata }) => metadata.segment_count)).toEqual([3, 3, 3, 3])
  })
})

// Builder specs as they are checked when a task is submitted, and the cost of a build.
import { describe, expect, it } from 'vitest'
import { checkBuilder } from '../../src/trajectory/config.ts'
import { plantForest } from '../../src/trajectory/forest.ts'
import { toyCall } from './trajectory-calls.ts'

const spec = (strategy: string, config: Record<string, unknown> = {}) => ({ strategy, config })

describe('checkBuilder', () => {
  it.each([
    spec('per_request'),
    spec('prefix_merging'),
    spec('prefix_merging', { end_of_turn_token_id: 151_645, tokenizer_name_or_path: 'org/model' }),
    spec('prefix_merging', { end_of_turn_token_id: null, tokenizer_name_or_path: null }),
    spec('prefix_merging', { splice: true, splice_max_unreported: 0.1 }),
    spec('prefix_merging', { splice: 'polar' }),
    spec('per_request', { reward_policy: 'split', aux: { models: ['*haiku*'], max_tokens: 5 } }),
    spec('mine', { anything: 'goes', reward_policy: 'main_only' }),
  ])('accepts %o', (given) => {
    expect(checkBuilder(given, ['mine'])).toBeNull()
  })

  it.each([
    [spec('nope'), "builder.strategy: 'nope' is unknown; this node has per_request, prefix_merging, mine"],
    [spec('some.module:Class'), "builder.strategy: 'some.module:Class' is unknown; this node has per_request, prefix_merging, mine"],
    [spec('prefix_merging', { end_of_turn: 3 }), 'builder.config.end_of_turn: unknown key'],
    [spec('per_request', { splice: true }), 'builder.config.splice: unknown key'],
    [spec('prefix_merging', { aux: { model: ['x'] } }), 'builder.config.aux.model: unknown key'],
    [spec('prefix_merging', { end_of_turn_token_id: -1 }), 'builder.config.end_of_turn_token_id: Too small: expected number to be >=0'],
    [spec('mine', { reward_discount: 0 }), 'builder.config.reward_discount: Too small: expected number to be >0'],
  ])('refuses %o', (given, error) => {
    expect(checkBuilder(given, ['mine'])).toBe(error)
  })

  it.each([
    spec('prefix_merging', { splice: 'Polar' }),
    spec('prefix_merging', { splice_max_unreported: 2 }),
    spec('per_request', { reward_policy: 'sum' }),
    spec('mine', { rollout_weight: 'all' }),
  ])('names the key of a wrong value: %o', (given) => {
    const [key = ''] = Object.keys(given.config)
    expect(checkBuilder(given, ['mine'])).toMatch(new RegExp(`^builder\\.config\\.${key}: `))
  })
})

describe('the cost of a forest', () => {
  /** Turns of 100 tokens whose every prompt holds all turns before it, in arrays of their own. */
  function session(turns: number) {
    const whole: number[] = []
    return Array.from({ length: turns }, (_, turn) => {
      whole.push(...Array.from({ length: 60 }, (__, at) => turn * 100 + at))
      const sampled = Array.from({ length: 40 }, (__, at) => turn * 100 + 60 + at)
      const call = toyCall({ id: `t${turn}`, p: [...whole], r: sampled }, turn)
      whole.push(...sampled)
      return call
    })
  }
  const totalTokens = (turns: number) => session(turns).reduce((sum, call) => sum + call.promptIds.length + call.sampledIds.length, 0)

  it.each([10, 100, 200])('of %i turns is one look at every token', (turns) => {
    const { comparedTokens, placements } = plantForest(session(turns), null)
    expect(placements.map(({ parent }) => parent)).toEqual(Array.from({ length: turns }, (_, turn) => turn - 1))
    expect(comparedTokens).toBeLessThanOrEqual(totalTokens(turns))
  })

  it('of calls that are views of one array takes the same memory for the same tokens, and no other', () => {
    const shared = Int32Array.of(1, 2, 3, 1, 5, 4)
    const view = (from: number, to: number, sequence: number) => ({
      ...toyCall({ id: `v${sequence}`, p: [], r: [], l: [-1] }, sequence),
      promptIds: shared.subarray(from, to),
      sampledIds: shared.subarray(to, to + 1),
    })
    const { placements } = plantForest([view(0, 2, 0), view(0, 3, 1), view(3, 5, 2), view(0, 5, 3)], null)
    expect(placements.map(({ parent, shared: common }) => [parent, common])).toEqual([
      [-1, 0],
      [0, 3],
      [-1, 1],
      [1, 4],
    ])
  })

  it('of 100 attempts at one long turn is one look at every token', () => {
    const prompt = Array.from({ length: 5_000 }, (_, at) => at)
    const calls = Array.from({ length: 100 }, (_, at) => toyCall({ id: `r${at}`, p: prompt, r: [at + 1, 7] }, at))
    expect(plantForest(calls, null).comparedTokens).toBeLessThanOrEqual(100 * 5_002)
  })
})

// What the demo makes of a callback: which group teaches, what is a problem, and how a trace reads.
import { describe, expect, it } from 'vitest'
import { decodeTrace } from '../../examples/demo/decoded-trace.ts'
import { readGroup } from '../../examples/demo/group.ts'
import type { Callback, Trace } from '../../examples/demo/listener.ts'

const TRACE: Trace = { prompt_ids: [1, 2], response_ids: [3, 4, 5], loss_mask: [1, 0, 1], response_logprobs: null, reward: 1 }

type Session = { readonly reward: number | null; readonly calls?: number; readonly outcome?: string; readonly traces?: readonly Trace[] }

function callback(sessions: readonly Session[], changes: { readonly status?: string; readonly key?: string } = {}): Callback {
  const results = sessions.map(({ reward, calls = 3, outcome = 'completed', traces = [TRACE] }, index) => ({
    session_id: `s${index}`,
    status: 'COMPLETED',
    trajectory: { traces, metadata: {} },
    metadata: { polar_node: { outcome, reward, calls } },
  }))
  return { result: { task_id: 't', status: changes.status ?? 'completed', results }, idempotencyKey: changes.key ?? 'k' }
}

const rewards = (...values: readonly (number | null)[]) => callback(values.map((reward) => ({ reward })))

describe('a group of samples', () => {
  it.each([
    [[0, 1], true],
    [[0, 0], false],
    [[1, 1], false],
    [[1, 1, 0], true],
    // What was not graded is no reward.
    [[0, null], false],
    [[1, null], false],
    [[null, null], false],
  ])('with the rewards %j teaches: %s', (values, teaches) => {
    expect(readGroup(rewards(...values)).teaches).toBe(teaches)
  })

  it('has a row per session, with what its traces hold', () => {
    expect(readGroup(callback([{ reward: 1, calls: 4, traces: [TRACE, TRACE] }])).rows).toEqual([
      { session_id: 's0', outcome: 'completed', reward: 1, calls: 4, traces: 2, tokens: 10, trained_tokens: 4 },
    ])
  })

  it('gives a session that was not graded no reward', () => {
    expect(readGroup(rewards(1, null)).rows.map(({ reward }) => reward)).toEqual([1, null])
  })

  it.each([
    ['was right after several turns', [{ reward: 1 }], TRACE],
    ['was right at once', [{ reward: 1, calls: 1 }], null],
    ['was wrong', [{ reward: 0 }], null],
  ])('shows a session that %s as its solution, or none', (_, sessions, solution) => {
    expect(readGroup(callback(sessions)).solution).toBe(solution)
  })

  it.each([
    ['a policy that ran out of time', callback([{ reward: 0, outcome: 'agent_timeout' }]), []],
    ['an engine that failed', callback([{ reward: null, outcome: 'upstream_error' }]), ['session s0 ended upstream_error']],
    ['no tokens', callback([{ reward: 0, traces: [] }]), ['session s0 has no token to train on']],
    ['a task that failed', callback([], { status: 'failed' }), ['task t ended failed']],
    ['a callback without a key', callback([], { key: '' }), ['the callback of t had no idempotency key']],
  ])('says of %s what the node is to blame for', (_, from, problems) => {
    expect(readGroup(from).problems).toEqual(problems)
  })
})

describe('a decoded trace', () => {
  const decode = async (ids: readonly number[]): Promise<string> => ids.map((id) => (id === 4 ? '\x1b' : `<${id}>`)).join('')

  it.each([
    [[1, 1, 1], '⟦<3>\u{fffd}<5>⟧'],
    [[1, 0, 1], '⟦<3>⟧\u{fffd}⟦<5>⟧'],
    [[0, 0, 1], '<3>\u{fffd}⟦<5>⟧'],
  ])('with the mask %j marks what was sampled, and steers no terminal', async (mask, text) => {
    expect(await decodeTrace({ ...TRACE, loss_mask: mask }, decode, false)).toBe(text)
  })

  it('is coloured where that shows', async () => {
    expect(await decodeTrace({ ...TRACE, response_ids: [3], loss_mask: [1] }, decode, true)).toBe('\x1b[1;32m⟦<3>⟧\x1b[0m')
  })
})

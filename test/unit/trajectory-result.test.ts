// Results under the outcome table: what is masked, what is graded, what the trainer is told.
import { describe, expect, it } from 'vitest'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { OUTCOMES, type Outcome } from '../../src/contract/outcome.ts'
import type { Trace } from '../../src/contract/result.ts'
import { SCHEMA_VERSION } from '../../src/contract/wire/version.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import type { ResultFacts } from '../../src/trajectory/facts.ts'
import { packTrajectory, unpackSession, unpackTrajectory } from '../../src/trajectory/pack.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { emptyResult, finishResult } from '../../src/trajectory/result.ts'
import { SESSION, type ToyCall, toyInput } from './trajectory-calls.ts'

const CALLS: readonly ToyCall[] = [
  { p: [1, 2], r: [5, 9] },
  { p: [1, 2, 5, 9, 3], r: [6, 9] },
  { p: [7], r: [8] },
]
const OUTCOME_NAMES = Object.keys(OUTCOMES) as Outcome[]

function facts(more: Partial<ResultFacts> = {}): ResultFacts {
  return {
    session: knownSessionId(SESSION),
    task: taskId('task-1'),
    attempt: 2,
    node: 'gw-0',
    outcome: 'completed',
    error: null,
    timing: { run_ms: 5, build_ms: 1.5, runtime_exec_count: 2, ready_hold_ms: 3 },
    taskMetadata: { group_id: 'g1', policy_version: 4, note: 'mine', polar_node: 'theirs' },
    agentResult: { status: 'completed', return_code: 0, isolation: 'none' },
    evaluation: { type: 'graded', outcomeReward: 0.75, traceRewards: null, metadata: { mode: 'test' } },
    evaluator: 'test_on_output',
    calls: 3,
    model: null,
    ...more,
  }
}

function packed(calls = CALLS, config: Readonly<Record<string, unknown>> = {}, messages: readonly unknown[] = []): ArrayBuffer {
  const built = assemble(toyInput(calls, messages), { strategy: 'prefix_merging', config }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)
  return packTrajectory(built.trajectory)
}

function finish(payload: ArrayBuffer | null, more: Partial<ResultFacts> = {}) {
  const { payload: bytes, summary } = finishResult(payload, facts(more))
  return { result: unpackSession(bytes), summary }
}

const trainedIn = (traces: readonly Trace[]): number => traces.flatMap((trace) => [...trace.loss_mask]).filter((bit) => bit === 1).length

describe('outcomes', () => {
  it.each(OUTCOME_NAMES)('%s: status, class, mask and reward follow the table', (outcome) => {
    const { result, summary } = finish(packed(), { outcome, error: outcome === 'completed' ? null : 'why' })
    const rule = OUTCOMES[outcome]
    expect([result.status, result.trajectory.status, summary.status]).toEqual([rule.status, rule.status, rule.status])
    expect(summary).toMatchObject({
      outcome,
      outcomeClass: rule.class,
      calls: 3,
      traces: 2,
      capturedTokens: 5,
      usable: rule.status === 'COMPLETED',
      retryable: rule.retried,
    })
    expect(trainedIn(result.trajectory.traces)).toBe(rule.trained ? 5 : 0)
    expect(summary.trainedTokens).toBe(rule.trained ? 5 : 0)
    expect(summary.reward).toBe(rule.trained ? 0.75 : null)
    expect(result.trajectory.traces.map(({ reward }) => reward)).toEqual(rule.trained ? [0.75, 0.75] : [null, null])
    // A trainer that reads Polar's results trains nothing of a session with an error.
    const error = rule.status === 'COMPLETED' ? undefined : 'why'
    expect([result.error, result.trajectory.error]).toEqual([error, error])
    expect(summary.error).toBe(outcome === 'completed' ? null : 'why')
  })

  it('an evaluation is graded by the same table and trains no token', () => {
    const taskMetadata = { polar_node: { purpose: 'evaluation' } }
    for (const outcome of OUTCOME_NAMES) {
      const { result, summary } = finish(packed(), { outcome, taskMetadata })
      const rule = OUTCOMES[outcome]
      expect([summary.trainedTokens, trainedIn(result.trajectory.traces), summary.usable]).toEqual([0, 0, false])
      expect([summary.status, summary.reward, summary.retryable]).toEqual([rule.status, rule.trained ? 0.75 : null, rule.retried])
      expect(result.metadata.polar_node).toMatchObject({ purpose: 'evaluation', trained_tokens: 0 })
    }
    const { result } = finish(packed(), { taskMetadata })
    expect(result.error).toBeUndefined()
    expect(result.trajectory.traces[0]?.metadata).toMatchObject({ discarded_reason: 'evaluation', rollout_weight: 0 })
    expect(result.trajectory.metadata.reconstruction_stats).toMatchObject({ trained_tokens: 0, masked_tokens_by_reason: { evaluation: 5 } })
    // One that was answered without token ids has no rows at all, and that is no error either.
    expect(finish(null, { taskMetadata }).summary).toMatchObject({ error: null, reward: 0.75, status: 'COMPLETED' })
  })

  it('a failure that every other attempt would repeat is not retryable, whatever its outcome', () => {
    expect(OUTCOME_NAMES.map((outcome) => finish(packed(), { outcome, isFinal: true }).summary.retryable)).not.toContain(true)
  })

  it('an outcome that explains itself gets no error text of ours', () => {
    expect(finish(packed(), { outcome: 'cancelled', error: null }).result).not.toHaveProperty('error')
  })

  it('what is masked afterwards says why, and moves in the statistics', () => {
    const { result } = finish(packed(), { outcome: 'cancelled' })
    expect(result.trajectory.traces[0]?.metadata).toMatchObject({
      discarded_reason: 'cancelled',
      discarded_trained_tokens: 4,
      rollout_weight: 0,
      reward_index: null,
      turns: [
        { trained: false, reason: 'cancelled' },
        { trained: false, reason: 'cancelled' },
      ],
    })
    expect(result.trajectory.metadata.reconstruction_stats).toMatchObject({
      captured_tokens: 5,
      trained_tokens: 0,
      masked_tokens_by_reason: { cancelled: 5 },
    })
  })
})

describe('a builder that sets rewards itself', () => {
  it('cannot reward a session that was not graded', () => {
    const trajectory = unpackTrajectory(packed())
    const rewarded = packTrajectory({ ...trajectory, traces: trajectory.traces.map((trace) => ({ ...trace, reward: 1 })) })
    for (const more of [{ outcome: 'cancelled' }, { evaluation: null }] as const) {
      expect(finish(rewarded, more).result.trajectory.traces.map(({ reward }) => reward)).toEqual([null, null])
    }
  })
})

describe('evaluations', () => {
  it('are told as Polar tells them', () => {
    expect(finish(packed()).result.trajectory.metadata.evaluation).toEqual({
      strategy: 'test_on_output',
      outcome_reward: 0.75,
      trace_rewards: null,
      mode: 'test',
    })
  })
  it('that failed are an evaluator error and train nothing', () => {
    const { result, summary } = finish(packed(), { evaluation: { type: 'failed', error: 'disk full', log: '...' } })
    expect(summary).toMatchObject({
      outcome: 'evaluator_error',
      outcomeClass: 'evaluator',
      status: 'ERROR',
      reward: null,
      trainedTokens: 0,
      error: 'disk full',
    })
    expect(result.trajectory.metadata.evaluation).toMatchObject({ strategy: 'test_on_output', error: 'disk full' })
  })
  it('with rewards for another number of traces are an evaluator error', () => {
    const { summary } = finish(packed(), { evaluation: { type: 'graded', outcomeReward: null, traceRewards: [1], metadata: {} } })
    expect(summary).toMatchObject({
      outcome: 'evaluator_error',
      status: 'ERROR',
      trainedTokens: 0,
      error: expect.stringContaining('1 trace rewards for 2 traces'),
    })
  })
  it('per trace give the session their mean', () => {
    const { result, summary } = finish(packed(), {
      evaluation: { type: 'graded', outcomeReward: null, traceRewards: [1, 0], metadata: {} },
    })
    expect(result.trajectory.traces.map(({ reward }) => reward)).toEqual([1, 0])
    expect(summary.reward).toBe(0.5)
  })
  it('that were never asked for leave the session ungraded and trainable', () => {
    const { result, summary } = finish(packed(), { evaluation: null, evaluator: null })
    expect(summary).toMatchObject({ reward: null, trainedTokens: 5, usable: true })
    expect(result.trajectory.traces.map(({ reward }) => reward)).toEqual([null, null])
    expect(result.trajectory.metadata.evaluation).toBeNull()
  })
  it("reach rows through the policy of the builder's configuration", () => {
    const { result, summary } = finish(packed(CALLS, { reward_policy: 'last_chain' }))
    expect(result.trajectory.traces.map((trace) => [trace.reward, trainedIn([trace]), trace.metadata.rollout_weight])).toEqual([
      [0, 0, 0],
      [0.75, 1, 1],
    ])
    expect(result.trajectory.traces[0]?.metadata.discarded_reason).toBe('reward_policy')
    expect(summary).toMatchObject({ trainedTokens: 1, reward: 0.75 })
    expect(result.trajectory.metadata.reconstruction_stats).toMatchObject({
      trained_tokens: 1,
      masked_tokens_by_reason: { reward_policy: 4 },
    })
  })
})

describe('the parser filter', () => {
  const answer = (content: string, more: object = {}) => ({ role: 'assistant', content, ...more })
  const session = (message: unknown, finishReason: 'stop' | 'tool_calls' = 'stop') =>
    [
      { p: [1], r: [2], record: { responseMessage: 0, finishReason } },
      { p: [5], r: [6] },
    ].map((toy) => ({ toy, message }))

  it.each<[string, unknown, 'stop' | 'tool_calls', boolean]>([
    ['a bare tool call', answer('I will.\n<tool_call>\n{"name":'), 'stop', true],
    ['a bare function tag', answer('  <function=read>'), 'stop', true],
    ['a tool call shown in a code fence', answer('```\n<tool_call>\n```'), 'stop', false],
    ['a tool call named within a sentence', answer('Use <tool_call> here'), 'stop', false],
    ['an ending for tools without a call', answer(''), 'tool_calls', true],
    ['an ending for tools with a call', answer('', { tool_calls: [{ id: 'x' }] }), 'tool_calls', false],
    ["a parser's own error", answer('', { tool_call_parse_error: 'bad json' }), 'stop', true],
  ])('%s', (_, message, finishReason, isFiltered) => {
    const calls = session(message, finishReason).map(({ toy }) => toy)
    const { result, summary } = finish(packed(calls, {}, [message]))
    const [trace] = result.trajectory.traces
    expect(trace?.reward).toBe(isFiltered ? 0 : 0.75)
    expect(trainedIn([trace!])).toBe(1)
    expect(trace?.metadata.training_filter).toEqual(isFiltered ? { reason: 'unparsed_tool_call', original_reward: 0.75 } : undefined)
    expect(result.trajectory.traces[1]?.reward).toBe(0.75)
    expect(summary.reward).toBe(0.75)
  })
  it('can be turned off', () => {
    const message = answer('<tool_call>')
    expect(
      finish(
        packed(
          session(message).map(({ toy }) => toy),
          { parser_filter: false },
          [message],
        ),
      ).result.trajectory.traces[0]?.reward,
    ).toBe(0.75)
  })
  it('leaves an ungraded row ungraded', () => {
    const message = answer('<tool_call>')
    expect(
      finish(
        packed(
          session(message).map(({ toy }) => toy),
          {},
          [message],
        ),
        { evaluation: null },
      ).result.trajectory.traces[0]?.reward,
    ).toBeNull()
  })
})

describe('what a result carries', () => {
  it("the task's metadata, hoisted keys, and our own facts under one key", () => {
    const { result } = finish(packed())
    expect(result.metadata).toEqual({
      group_id: 'g1',
      policy_version: 4,
      note: 'mine',
      polar_node: {
        schema_version: SCHEMA_VERSION,
        attempt: 2,
        outcome: 'completed',
        outcome_class: 'policy',
        reward: 0.75,
        calls: 3,
        trained_tokens: 5,
        isolation: 'none',
        timing: { ready_hold_ms: 3 },
      },
    })
    expect(result.trajectory.metadata).toMatchObject({
      group_id: 'g1',
      policy_version: 4,
      agent_result: { status: 'completed', return_code: 0 },
      error_class: 'policy',
      schema_version: 1,
    })
    expect(result.trajectory.metadata).not.toHaveProperty('rollout_step')
    expect(result).toMatchObject({ session_id: SESSION, task_id: 'task-1', node_id: 'gw-0' })
  })
  it('only the timings a Polar peer knows', () => {
    const { result, summary } = finish(packed())
    expect(result.timing).toEqual({ run_ms: 5, build_ms: 1.5, runtime_exec_count: 2 })
    expect(summary.timing).toEqual({ run_ms: 5, build_ms: 1.5, runtime_exec_count: 2, ready_hold_ms: 3 })
  })
  it('CP-01 an error instead of an empty success when every call was a side call', () => {
    const { result, summary } = finish(packed([{ p: [1], r: [2], record: { maxTokensRequested: 1 } }]))
    expect(summary).toMatchObject({
      status: 'COMPLETED',
      usable: false,
      trainedTokens: 0,
      error: expect.stringMatching(/no trainable trace: all 1 answered calls are side calls/),
    })
    expect(result.error).toBe(summary.error)
  })
  it('BD-09 a status even without a single trace', () => {
    const { payload, summary } = emptyResult(
      facts({ outcome: 'cancelled', error: 'session cancelled', calls: 0, evaluation: null, evaluator: null }),
    )
    expect(unpackSession(payload)).toMatchObject({
      status: 'ERROR',
      error: 'session cancelled',
      trajectory: { status: 'ERROR', traces: [], error: 'session cancelled' },
    })
    expect(summary).toMatchObject({ outcome: 'cancelled', traces: 0, capturedTokens: 0, trainedTokens: 0, usable: false, reward: null })
  })
})

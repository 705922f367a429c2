// SessionResult as it is promised: what every builder makes of calls is told in the keys of its schema, and a broken row is seen.
import { Ajv2020 as Validator } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { schemaFile } from '../../src/contract/wire/json-schema.ts'
import { sessionResult } from '../../src/contract/wire/result.ts'
import { trace } from '../../src/contract/wire/trace.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import { packTrajectory } from '../../src/trajectory/pack.ts'
import { buildPerRequest } from '../../src/trajectory/per-request.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { renderSession } from '../../src/trajectory/render.ts'
import { finishResult } from '../../src/trajectory/result.ts'
import { closedSchema } from '../lib/openapi-answers.ts'
import { SESSION, type ToyCall, toyInput } from './trajectory-calls.ts'

const MESSAGES = [{ role: 'user', content: 'hello' }, { role: 'assistant', content: 'hi' }, {}]
const told = { promptMessages: [0], responseMessage: 1, parameters: 2 }
/** A conversation, a turn without logprobs, one whose history was edited, one that was cut off, and a call that failed. */
const CALLS: readonly ToyCall[] = [
  { p: [1, 2], r: [5, 9], record: { ...told, diagnostics: [{ code: 'dropped', detail: 'a key' }] } },
  { p: [1, 2, 5, 9, 3], r: [6, 9], record: told },
  { p: [1, 2, 5, 8, 3, 6, 9, 4], r: [6, 9], record: { ...told, finishReason: 'length', weightVersion: 'w2' } },
  { p: [7], r: [8], l: null, record: { ...told, captureError: { code: 'logprobs-missing', detail: 'none' } } },
  { p: [7], r: [], record: { ...told, status: 'failed', responseMessage: null, error: 'gone' } },
]
const OUTCOMES = ['completed', 'agent_timeout', 'build_error', 'cancelled'] as const
const BUILDERS = [
  ['per_request', {}, buildPerRequest],
  ['prefix_merging', {}, buildPrefixMerging],
  ['prefix_merging', { splice: true }, buildPrefixMerging],
  ['prefix_merging', { splice: 'polar' }, buildPrefixMerging],
  ['prefix_merging', { reward_policy: 'discounted', rollout_weight: 'tokens' }, buildPrefixMerging],
] as const

function rendered([strategy, config, builder]: (typeof BUILDERS)[number], outcome: (typeof OUTCOMES)[number]): unknown {
  const built = assemble(toyInput(CALLS, MESSAGES), { strategy, config }, builder)
  if (!built.ok) throw new Error(built.error)
  const { payload } = finishResult(packTrajectory(built.trajectory), {
    session: knownSessionId(SESSION),
    task: taskId('t'),
    attempt: 1,
    node: 'g0',
    outcome,
    error: outcome === 'completed' ? null : 'why',
    timing: { run_ms: 5, runtime_exec_count: 2, ready_hold_ms: 3 },
    taskMetadata: { group_id: 'g', policy_version: 3 },
    agentResult: { status: 'completed', return_code: 0, isolation: 'none' },
    evaluation: { type: 'graded', outcomeReward: 1, traceRewards: null, metadata: {} },
    evaluator: 'session_completed',
    calls: CALLS.length,
    model: null,
  })
  return JSON.parse([...renderSession(payload, 'inline')].join(''))
}

describe('a result', () => {
  const validate = new Validator({ strict: false, allErrors: true }).compile(closedSchema(schemaFile('SessionResult', sessionResult)))

  it.each(
    BUILDERS.flatMap((builder) =>
      OUTCOMES.map((outcome) => ({ builder, outcome, strategy: builder[0], config: JSON.stringify(builder[1]) })),
    ),
  )('of $strategy $config that ended as $outcome has the keys and the lengths that were promised', ({ builder, outcome }) => {
    const result = rendered(builder, outcome)
    expect(sessionResult.safeParse(result).error?.issues ?? []).toEqual([])
    validate(result)
    expect(validate.errors ?? []).toEqual([])
  })
})

describe('a row', () => {
  const row = {
    prompt_ids: [1],
    response_ids: [2, 3],
    loss_mask: [1, 0],
    prompt_messages: [],
    response_messages: [],
    tools: null,
    finish_reason: 'stop',
    response_logprobs: [-0.5, 0],
    reward: 1,
    metadata: {},
  }
  it.each([
    ['is a row', {}, []],
    ['may have no logprobs', { response_logprobs: null }, []],
    ['has a mask as long as its response', { loss_mask: [1] }, ['loss_mask']],
    ['has logprobs as long as its response', { response_logprobs: [-0.5] }, ['response_logprobs']],
    ['has a mask of 0 and 1', { loss_mask: [1, 2] }, ['loss_mask']],
    ['has a number or null for a reward, never a boolean', { reward: true }, ['reward']],
    ['has token ids, not texts', { prompt_ids: ['a'] }, ['prompt_ids']],
  ])('%s', (_, changes, wrong) => {
    const issues = trace.safeParse({ ...row, ...changes }).error?.issues ?? []
    expect(issues.map(({ path }) => path[0])).toEqual(wrong)
  })
})

// Reported faults of other trajectory builders, each as the case it came from.
import { describe, expect, it } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import { callId } from '../../src/contract/ids.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPerRequest } from '../../src/trajectory/per-request.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import type { Finding, ReconstructionStats, Untrained } from '../../src/trajectory/summary.ts'
import { type ToyCall, toyInput, toyRow } from './trajectory-calls.ts'

function build(calls: readonly ToyCall[], { config = {}, messages = [] as readonly unknown[], strategy = 'prefix_merging' } = {}) {
  const builder = strategy === 'per_request' ? buildPerRequest : buildPrefixMerging
  const built = assemble(toyInput(calls, messages), { strategy, config }, builder)
  if (!built.ok) throw new Error(built.error)
  const { traces, metadata } = built.trajectory
  return {
    trajectory: built.trajectory,
    traces,
    rows: traces.map(toyRow),
    stats: metadata.reconstruction_stats as ReconstructionStats,
    findings: metadata.findings as readonly Finding[],
    untrained: metadata.untrained as readonly Untrained[],
    edges: metadata.edges as readonly {
      kind: string
      call_id: string
      of: string | null
      drift: { class: string; index: number | null } | null
    }[],
  }
}

const call = (p: readonly number[], r: readonly number[], record: Partial<CallRecord> = {}): ToyCall => ({ p, r, record })
const codes = (findings: readonly Finding[]): readonly string[] => findings.map(({ code }) => code)

describe('chains', () => {
  it('BD-01 keeps interleaved agents apart and each in one row', () => {
    const { rows, stats } = build([call([1, 2], [3]), call([9, 8], [7]), call([1, 2, 3, 4], [5]), call([9, 8, 7, 6], [5])])
    expect(rows).toEqual([
      { prompt: [1, 2], resp: [3, 4, 5], mask: [1, 0, 1] },
      { prompt: [9, 8], resp: [7, 6, 5], mask: [1, 0, 1] },
    ])
    expect(stats.merge_ratio).toBe(2)
  })

  it('BD-02 appends nothing to a turn cut by max_tokens and flags it', () => {
    const { rows, traces, findings } = build([
      { ...call([1, 2], [3, 4, 5], { finishReason: 'length' }), l: [-0.1, -0.2, -0.3] },
      { ...call([1, 2, 3, 4, 5, 100, 101, 6, 7], [8, 100]), l: [-0.1, -0.1] },
    ])
    expect(rows).toEqual([{ prompt: [1, 2], resp: [3, 4, 5, 100, 101, 6, 7, 8, 100], mask: [1, 1, 1, 0, 0, 0, 0, 1, 1] }])
    expect([...traces[0]!.response_logprobs!]).toEqual([-0.1, -0.2, -0.3, 0, 0, 0, 0, -0.1, -0.1].map(Math.fround))
    expect(traces[0]?.metadata).toMatchObject({
      truncated_turns: ['msg_a'],
      synthetic_logprob_spans: [{ start: 3, end: 7 }],
      turns: [{ finish_reason: 'length' }, { finish_reason: 'stop' }],
    })
    expect(codes(findings)).toContain('truncated_turn')
  })

  it.each([
    ['never delivered', 'no', [3, 5], 'retry_abandoned'],
    ['delivered after its retry began', 'yes', [3, 5], 'retry_abandoned'],
  ] as const)('BD-04 attaches the next call to the retry; the first answer, %s, is abandoned', (_, delivery, second, reason) => {
    const { rows, untrained } = build([call([1, 2], [3, 4], { delivery }), call([1, 2], second), call([1, 2, 3, 5, 6], [7])])
    expect(rows).toEqual([
      { prompt: [1, 2], resp: [3, 4], mask: [0, 0] },
      { prompt: [1, 2], resp: [3, 5, 6, 7], mask: [1, 1, 0, 1] },
    ])
    expect(untrained).toEqual([{ call_id: 'msg_a', reason, tokens: 2, emitted: true }])
  })

  it('BD-04 keeps the answer of a last turn that nobody took, as undelivered', () => {
    const lost = { delivery: 'no' } as const
    const { stats } = build([call([1], [2]), call([1, 2, 3], [4], lost), call([1, 2, 3], [5, 6], lost)])
    expect(stats.masked_tokens_by_reason).toEqual({ undelivered: 3 })
  })

  it('BD-04 of three attempts keeps the last delivered and names what each retries', () => {
    const { traces, rows } = build([
      call([1], [2]),
      call([1, 2, 3], [4]),
      call([1, 2, 3], [5]),
      call([1, 2, 3], [6]),
      call([1, 2, 3], [7], { delivery: 'no' }),
    ])
    expect(rows.filter(({ mask }) => mask.includes(1))).toEqual([{ prompt: [1], resp: [2, 3, 6], mask: [1, 0, 1] }])
    expect(traces.map(({ metadata }) => [metadata.edge, metadata.row_id])).toEqual([
      [null, 'row_msg_d'],
      ['extends', 'row_msg_b'],
      ['retry_of', 'row_msg_c'],
      ['retry_of', 'row_msg_e'],
    ])
  })

  it.each([
    ['the request digest', { digest: 'digest-a' }],
    ['the record', { retryOf: callId('a') }],
  ])('BD-04 knows a retry whose prompt differs by %s', (_, same) => {
    const { edges, stats } = build([call([1, 2], [3]), call([1, 4], [5], same)])
    expect(edges).toMatchObject([{ kind: 'retry_of', call_id: 'msg_b', of: 'msg_a' }])
    expect(stats.untrained_calls_by_reason).toEqual({ retry_abandoned: 1 })
  })

  it('BD-04 trains identical answers once', () => {
    const { rows, stats } = build([call([1, 2], [3, 5]), call([1, 2], [3, 5]), call([1, 2, 3, 5, 6], [7]), call([1, 2, 3, 5, 8], [9])])
    expect(rows.flatMap(({ mask }) => mask).filter((bit) => bit === 1)).toHaveLength(4)
    expect(stats.untrained_calls_by_reason).toEqual({ retry_abandoned: 1 })
  })

  it('BD-06 closes a call whose reasoning was stripped as its own row and says where it broke', () => {
    const { rows, edges, stats } = build([call([1, 2], [30, 31, 32, 3]), call([1, 2, 3, 4], [33, 5]), call([1, 2, 3, 4, 33, 5, 6], [7])])
    expect(rows).toEqual([
      { prompt: [1, 2], resp: [30, 31, 32, 3], mask: [1, 1, 1, 1] },
      { prompt: [1, 2, 3, 4], resp: [33, 5, 6, 7], mask: [1, 1, 0, 1] },
    ])
    expect(edges[0]).toMatchObject({ kind: 'rewrites', drift: { class: 'D2', index: 2 } })
    expect(stats.forks_by_cause).toEqual({ D2: 1 })
  })

  it('BD-06 takes a longer prompt that still tells the last answer for a rewrite, not for a compaction', () => {
    const { edges } = build([call([1, 2], [7, 5, 9]), call([1, 2, 7, 5, 9, 3], [6, 8, 9]), call([1, 2, 5, 9, 3, 6, 8, 9, 3], [4, 9])])
    expect(edges.at(-1)).toMatchObject({ kind: 'rewrites', drift: { class: 'D2', index: 2 } })
  })

  it('does not take a long common ending of two prompts for a generation prompt', () => {
    const ending = Array.from({ length: 20 }, (_, at) => 50 + at)
    const { edges } = build([call([1, ...ending], [5, 9]), call([1, 2, ...ending], [6, 9])])
    expect(edges).toEqual([])
  })

  it('BD-07 joins by ids alone, whatever the messages say', () => {
    const messages = [
      { role: 'user', content: 'u' },
      { role: 'assistant', content: 'A' },
      { role: 'user', content: 'u2' },
      { role: 'assistant', content: 'A ' },
    ]
    const told = (promptMessages: readonly number[], responseMessage: number | null) => ({ promptMessages, responseMessage })
    const { rows, edges } = build(
      [
        call([1], [2, 3, 9], told([0], 1)),
        call([1, 3, 9, 4], [5], told([0, 1, 2], null)),
        call([1, 2, 3, 9, 4], [6], told([0, 3, 2], null)),
      ],
      { messages },
    )
    expect(rows).toEqual([
      { prompt: [1], resp: [2, 3, 9, 4, 6], mask: [1, 1, 1, 0, 1] },
      { prompt: [1, 3, 9, 4], resp: [5], mask: [1] },
    ])
    expect(edges).toMatchObject([
      { kind: 'rewrites', call_id: 'msg_b', drift: { class: 'D2', index: 1 } },
      { kind: 'extends', call_id: 'msg_c', of: 'msg_a' },
    ])
  })

  it('BD-09 names task, group, session, attempt and place on every trace', () => {
    const { traces } = build([call([1], [2]), call([7], [2]), call([8], [3])])
    expect(traces.map(({ metadata }) => metadata)).toMatchObject(
      [0, 1, 2].map((at) => ({
        task_id: 'task-1',
        group_id: 'g1',
        attempt: 1,
        trace_index: at,
        trace_count: 3,
        segment_count: 3,
        rollout_weight: 1 / 3,
      })),
    )
  })

  it('BD-10 trains the summary in the old row and gives it as context in the new one', () => {
    const { rows, edges } = build([call([1, 2], [3]), call([1, 2, 3, 80], [81, 82]), call([1, 81, 82, 4], [5])])
    expect(rows).toEqual([
      { prompt: [1, 2], resp: [3, 80, 81, 82], mask: [1, 0, 1, 1] },
      { prompt: [1, 81, 82, 4], resp: [5], mask: [1] },
    ])
    expect(edges.at(-1)).toMatchObject({ kind: 'compaction_of', of: 'msg_b', drift: { class: 'D9' } })
  })
})

describe('side calls', () => {
  const system = [
    { role: 'system', content: 'coding agent' },
    { role: 'system', content: 'You write a short title only' },
    { role: 'user', content: 'hi' },
  ]
  const main = call([1, 2, 3], [4], { toolCount: 20, tools: 3, promptMessages: [0, 2] })
  const title = call([50, 51], [52, 53], { modelRequested: 'small-model-alias', promptMessages: [1, 2] })
  const probe = call([60], [61], { modelRequested: 'small-model-alias', maxTokensRequested: 1, promptMessages: [2] })
  const messages = [...system, [{ type: 'function' }]]

  it.each(['prefix_merging', 'per_request'])('CP-01 emits titles and probes with mask 0 and counts them (%s)', (strategy) => {
    const { rows, traces, stats } = build([main, title, probe], { messages, strategy })
    expect(rows.map(({ mask }) => mask)).toEqual([[1], [0, 0], [0]])
    expect(traces.map(({ metadata }) => metadata.segment_role)).toEqual(['main', 'aux', 'aux'])
    expect(stats.masked_tokens_by_reason).toEqual({ aux: 3 })
    expect(stats.untrained_calls_by_reason).toEqual({ aux: 2 })
  })

  it('CP-01 says so when every call was a side call', () => {
    const { findings, stats } = build([probe, probe], { messages })
    expect(codes(findings)).toContain('all_calls_aux')
    expect(stats.trained_tokens).toBe(0)
  })

  it.each([
    ['a model pattern, tools or not', { models: ['main-*'] }, [[0], [0, 0]]],
    ['a system text', { system: ['short title'], tool_free: false }, [[1], [0, 0]]],
    ['a larger probe limit', { max_tokens: 32, tool_free: false }, [[1], [0, 0]]],
    ["nothing but the model's name", { tool_free: false }, [[1], [0, 0]]],
  ])('classifies by %s', (_, aux, masks) => {
    const named = { ...title, record: { ...title.record, maxTokensRequested: 32 } }
    expect(build([main, named], { messages, config: { aux } }).rows.map(({ mask }) => mask)).toEqual(masks)
  })

  it('trains a tool-free session of one model', () => {
    expect(build([call([1], [2], { modelRequested: 'gpt-5-mini' }), call([1, 2, 3], [4], { modelRequested: 'gpt-5-mini' })]).rows).toEqual([
      { prompt: [1], resp: [2, 3, 4], mask: [1, 0, 1] },
    ])
  })

  it('trains a tool-free call inside the conversation, and a summary that later became the history', () => {
    const tools = { toolCount: 3, tools: 0 }
    const { rows } = build(
      [
        call([1, 2], [3], tools),
        call([1, 2, 3, 80], [81, 82]),
        call([1, 81, 82], [5, 6], tools),
        call([1, 3, 8], [7, 8, 5]),
        call([1, 7, 8, 5], [6], tools),
      ],
      { messages: [[{}]] },
    )
    expect(rows.map(({ mask }) => mask.includes(1))).toEqual([true, true, true, true])
  })
})

describe('what the boundary noted', () => {
  it('is told by code: in how many calls, and first where', () => {
    const dropped = (detail: string) => ({ code: 'field-dropped', detail })
    const calls = [
      call([1], [2]),
      call([1, 2, 3], [4], { diagnostics: [dropped('a'), { code: 'history-restored', detail: 'b' }, dropped('c')] }),
      call([1, 2, 3, 4, 5], [6], { diagnostics: [dropped('d')] }),
    ]
    for (const strategy of ['prefix_merging', 'per_request']) {
      expect(build(calls, { strategy }).trajectory.metadata.diagnostics).toEqual([
        { code: 'field-dropped', calls: 2, first: { call_id: 'msg_b', detail: 'a' } },
        { code: 'history-restored', calls: 1, first: { call_id: 'msg_b', detail: 'b' } },
      ])
    }
  })
})

describe('captured calls that may not train', () => {
  it.each<[string, Partial<CallRecord>, string]>([
    ['CP-02 aborted by a weight update', { status: 'aborted', finishReason: 'abort' }, 'aborted'],
    ['CP-02 an abort that was taken for an answer', { finishReason: 'abort' }, 'aborted'],
    ['a failed call', { status: 'failed' }, 'failed'],
    ['a cancelled call', { status: 'cancelled' }, 'cancelled'],
    ['CP-04 CP-05 ids and logprobs of different length', { captureError: { code: 'lengths-differ', detail: '3 and 2' } }, 'lengths_differ'],
    ['CP-05 missing prompt ids', { captureError: { code: 'ids-missing', detail: 'prompt_token_ids' } }, 'ids_missing'],
    ['a full arena', { captureError: { code: 'arena-full', detail: '' } }, 'arena_full'],
    ['an answer nobody took', { delivery: 'no' }, 'undelivered'],
    ['an answer taken in part', { delivery: 'partial' }, 'partly_delivered'],
  ])('%s', (_, record, reason) => {
    for (const strategy of ['prefix_merging', 'per_request']) {
      const { rows, stats, untrained } = build([call([1], [2, 3]), call([1, 2, 3, 4], [5, 6, 7], record)], { strategy })
      expect(rows.flatMap(({ mask }) => mask).filter((bit) => bit === 1)).toHaveLength(2)
      expect(stats.masked_tokens_by_reason).toEqual({ [reason]: 3 })
      expect(untrained).toMatchObject([{ call_id: 'msg_b', reason, tokens: 3 }])
    }
  })

  it.each<[string, ToyCall, string]>([
    ['no logprobs without an error of capture', { p: [1], r: [2], l: null }, 'logprobs_missing'],
    ['CP-05 fewer logprobs than ids', { p: [1], r: [2, 3], l: [-1] }, 'lengths_differ'],
    ['a positive logprob', { p: [1], r: [2], l: [0.5] }, 'logprob_not_finite'],
    ['an infinite logprob', { p: [1], r: [2], l: [Number.NEGATIVE_INFINITY] }, 'logprob_not_finite'],
  ])('%s: the call is not trained and nothing else is lost', (_, bad, reason) => {
    const { stats } = build([bad, call([7], [8])])
    expect(stats.trained_tokens).toBe(1)
    expect(Object.keys(stats.masked_tokens_by_reason)).toEqual([reason])
  })

  it.each<[string, ToyCall]>([
    ['no prompt ids', { p: [], r: [5] }],
    ['no sampled ids', { p: [5], r: [] }],
    ['no ids at all', { p: [], r: [], record: { status: 'failed' } }],
  ])('counts a call with %s without emitting a row', (_, empty) => {
    for (const strategy of ['prefix_merging', 'per_request']) {
      const { rows, untrained } = build([empty, call([1], [2])], { strategy })
      expect(rows).toHaveLength(1)
      expect(untrained).toMatchObject([{ call_id: 'msg_a', emitted: false, tokens: empty.r.length }])
    }
  })

  it('takes a continued answer for received, whatever the socket says', () => {
    expect(build([call([1], [2], { delivery: 'no' }), call([1, 2, 3], [4])]).rows).toEqual([
      { prompt: [1], resp: [2, 3, 4], mask: [1, 0, 1] },
    ])
  })

  it('CP-07 trains every sampled id by position, thoughts and markers included', () => {
    const message = { role: 'assistant', reasoning_content: 'R', content: 'A' }
    expect(build([call([1], [1, 2, 3, 4, 5, 6], { responseMessage: 0 })], { messages: [message] }).rows[0]?.mask).toEqual([
      1, 1, 1, 1, 1, 1,
    ])
  })
})

describe('findings', () => {
  it('CP-03 flags calls whose logprobs a trainer could not recompute', () => {
    const sampling = { temperature: 0.6, topP: null, topK: null, seed: null, maxTokens: null }
    const { findings } = build([
      call([1], [2], { sampling: { ...sampling, temperature: 0 } }),
      call([3], [4], { sampling: { ...sampling, topP: 0.5 } }),
      call([5], [6], { sampling, logprobMode: 'raw' }),
    ])
    const skew = findings.find(({ code }) => code === 'sampling_skew')
    expect(skew?.detail).toMatch(/3 calls: temperature 0; top_p or top_k cut the distribution; logprobs were taken before temperature/)
  })
  it('says nothing of sampling that a trainer can reproduce', () => {
    expect(codes(build([call([1], [2]), call([1, 2, 3], [4], { logprobMode: 'processed' })]).findings)).toEqual([])
  })
  it('no calls: an ERROR trajectory without traces, as in Polar', () => {
    const { trajectory, findings } = build([])
    expect(trajectory).toMatchObject({ status: 'ERROR', error: 'no completions', traces: [] })
    expect(codes(findings)).toEqual(['no_turns'])
  })
  it('an agent that asked for a tool and never came back is degenerate', () => {
    expect(
      codes(
        build([call([1], [2], { toolCount: 1, tools: 0, finishReason: 'tool_calls', responseMessage: 1 })], {
          messages: [[{}], { role: 'assistant', tool_calls: [{}] }],
        }).findings,
      ),
    ).toContain('degenerate_rollout')
  })
  it('unrelated conversations are reported', () => {
    expect(codes(build([call([1], [2]), call([3], [4])]).findings)).toContain('multiple_roots')
  })
  it.each([
    [
      'D2',
      [call([1, 2], [7, 5, 9]), call([1, 2, 5, 9, 3], [7, 6, 9]), call([1, 2, 5, 9, 3, 6, 9, 3], [8, 9])],
      /drops earlier reasoning.*splice/,
    ],
    ['D17', [call([1, 20], [7, 9]), call([1, 9, 3, 20], [7, 9]), call([1, 9, 3, 9, 3, 20], [8, 9])], /generation prompt/],
    ['D4', [call([1], [5, 6, 9]), call([1, 5, 7, 9], [5, 6, 9]), call([1, 5, 7, 9, 5, 7, 9], [8, 9])], /edits earlier turns/],
  ] as const)('a low merge ratio says what would mend %s', (_, calls, hint) => {
    const { findings, stats } = build(calls)
    expect(stats.merge_ratio).toBe(1)
    expect(findings.find(({ code }) => code === 'low_merge_ratio')?.detail).toMatch(hint)
    expect(codes(build(calls, { config: { merge_ratio_hint: 1 } }).findings)).not.toContain('low_merge_ratio')
  })
  it('per_request with broadcast warns', () => {
    const calls = [call([1], [2]), call([1, 2], [3])]
    expect(codes(build(calls, { strategy: 'per_request' }).findings)).toContain('per_request_broadcast')
    expect(codes(build(calls, { strategy: 'per_request', config: { reward_policy: 'split' } }).findings)).not.toContain(
      'per_request_broadcast',
    )
  })
  it('an ignored key of Polar is told', () => {
    expect(codes(build([call([1], [2])], { config: { tokenizer_name_or_path: 'x/y' } }).findings)).toContain('config_ignored')
  })
})

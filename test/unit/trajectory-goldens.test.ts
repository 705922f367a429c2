import { describe, expect, it } from 'vitest'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { SESSION, type ToyCall, type ToyRow, toyInput, toyRow } from './trajectory-calls.ts'

type Golden = {
  readonly name: string
  readonly calls: readonly ToyCall[]
  readonly config?: Readonly<Record<string, unknown>>
  readonly strict: readonly ToyRow[]
  readonly spliced: readonly ToyRow[]
  readonly polar: readonly ToyRow[]
  /** Kinds and drift classes of all edges, strict mode. */
  readonly edges: readonly (readonly [kind: string, from: string, of: string, drift: string | null, index: number | null])[]
}

const row = (prompt: readonly number[], resp: readonly number[], mask: readonly number[]): ToyRow => ({ prompt, resp, mask })
const cut = { record: { finishReason: 'length' } } as const
const lost = { record: { delivery: 'no' } } as const

const GOLDENS: readonly Golden[] = [
  {
    name: 'GT1 stripped reasoning',
    calls: [
      { p: [1, 2], r: [7, 7, 5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 9] },
    ],
    strict: [row([1, 2], [7, 7, 5, 9], [1, 1, 1, 1]), row([1, 2, 5, 9, 3], [6, 9], [1, 1])],
    spliced: [row([1, 2], [7, 7, 5, 9, 3, 6, 9], [1, 1, 1, 1, 0, 1, 1])],
    polar: [row([1, 2], [7, 7, 5, 9, 3, 6, 9], [1, 1, 1, 1, 0, 1, 1])],
    edges: [['rewrites', 'b', 'a', 'D2', 2]],
  },
  {
    name: 'GT2 the harness edits the assistant turn',
    calls: [
      { p: [1, 2], r: [5, 6, 9] },
      { p: [1, 2, 5, 8, 9, 3], r: [4, 9] },
    ],
    strict: [row([1, 2], [5, 6, 9], [1, 1, 1]), row([1, 2, 5, 8, 9, 3], [4, 9], [1, 1])],
    spliced: [row([1, 2], [5, 6, 9, 3, 4, 9], [1, 1, 1, 0, 1, 1])],
    polar: [row([1, 2], [5, 6, 9, 3, 4, 9], [1, 1, 1, 0, 1, 1])],
    edges: [['rewrites', 'b', 'a', 'D4', 3]],
  },
  {
    name: 'GT3 end-of-turn inside the assistant body',
    calls: [
      { p: [1, 2], r: [5, 9, 6, 9] },
      { p: [1, 2, 5, 9, 6, 9, 3], r: [4, 9] },
    ],
    strict: [row([1, 2], [5, 9, 6, 9, 3, 4, 9], [1, 1, 1, 1, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9, 6, 9, 3, 4, 9], [1, 1, 1, 1, 0, 1, 1])],
    polar: [row([1, 2], [5, 9, 6, 9, 6, 9, 3, 4, 9], [1, 1, 1, 1, 0, 0, 0, 1, 1])],
    edges: [['extends', 'b', 'a', null, null]],
  },
  {
    name: 'GT4 wrong end-of-turn from the first natural stop',
    calls: [
      { p: [1, 2], r: [4, 6, 4] },
      { p: [1, 2, 4, 6, 4, 9, 3], r: [6, 7] },
      { p: [1, 2, 4, 6, 4, 9, 3, 6, 7, 9, 3], r: [8] },
    ],
    strict: [row([1, 2], [4, 6, 4, 9, 3, 6, 7, 9, 3, 8], [1, 1, 1, 0, 0, 1, 1, 0, 0, 1])],
    spliced: [row([1, 2], [4, 6, 4, 9, 3, 6, 7, 9, 3, 8], [1, 1, 1, 0, 0, 1, 1, 0, 0, 1])],
    polar: [row([1, 2], [4, 6, 4, 6, 4, 9, 3, 6, 7], [1, 1, 1, 0, 0, 0, 0, 1, 1])],
    edges: [
      ['extends', 'b', 'a', null, null],
      ['extends', 'c', 'b', null, null],
    ],
  },
  {
    name: 'GT5 no end-of-turn in the tail',
    calls: [
      { p: [1, 2], r: [5, 6], ...cut },
      { p: [1, 2, 5, 6, 3], r: [4, 9] },
      { p: [1, 2, 5, 6, 3, 4, 9, 3], r: [8, 9] },
    ],
    config: { end_of_turn_token_id: 9 },
    strict: [row([1, 2], [5, 6, 3, 4, 9, 3, 8, 9], [1, 1, 0, 1, 1, 0, 1, 1])],
    spliced: [row([1, 2], [5, 6, 3, 4, 9, 3, 8, 9], [1, 1, 0, 1, 1, 0, 1, 1])],
    polar: [row([1, 2], [5, 6], [1, 1])],
    edges: [
      ['extends', 'b', 'a', 'D7', null],
      ['extends', 'c', 'b', null, null],
    ],
  },
  {
    name: 'GT6 retry of a turn',
    calls: [
      { id: '1a', p: [1, 2], r: [5, 9], ...lost },
      { id: '1b', p: [1, 2], r: [6, 9] },
      { id: '2', p: [1, 2, 6, 9, 3], r: [7, 9] },
      { id: '3', p: [1, 2, 6, 9, 3, 7, 9, 3], r: [8, 9] },
    ],
    strict: [row([1, 2], [5, 9], [0, 0]), row([1, 2], [6, 9, 3, 7, 9, 3, 8, 9], [1, 1, 0, 1, 1, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9], [0, 0]), row([1, 2], [6, 9, 3, 7, 9, 3, 8, 9], [1, 1, 0, 1, 1, 0, 1, 1])],
    polar: [row([1, 2], [5, 9], [1, 1])],
    edges: [
      ['retry_of', '1b', '1a', 'D12', null],
      ['extends', '2', '1b', null, null],
      ['extends', '3', '2', null, null],
    ],
  },
  {
    name: 'GT7 sub-agents with an identical preamble',
    calls: [
      { id: 'A1', p: [1, 2], r: [5, 9] },
      { id: 'B1', p: [1, 2, 9, 4], r: [6, 9] },
      { id: 'A2', p: [1, 2, 5, 9, 3], r: [7, 9] },
    ],
    strict: [row([1, 2], [5, 9, 3, 7, 9], [1, 1, 0, 1, 1]), row([1, 2, 9, 4], [6, 9], [1, 1])],
    spliced: [row([1, 2], [5, 9, 3, 7, 9], [1, 1, 0, 1, 1]), row([1, 2, 9, 4], [6, 9], [1, 1])],
    polar: [row([1, 2], [5, 9, 4, 6, 9], [1, 1, 0, 1, 1]), row([1, 2, 5, 9, 3], [7, 9], [1, 1])],
    edges: [['extends', 'A2', 'A1', null, null]],
  },
  {
    name: 'GT8 one missing logprob',
    calls: [
      { p: [1, 2], r: [5, 9], l: [-0.1, -0.2] },
      { p: [1, 2, 5, 9, 3], r: [6, 9], l: null, record: { captureError: { code: 'logprobs-missing', detail: '1 of 2' } } },
      { p: [1, 2, 5, 9, 3, 6, 9, 3], r: [7, 9], l: [-0.1, -0.1] },
    ],
    strict: [row([1, 2], [5, 9, 3, 6, 9, 3, 7, 9], [1, 1, 0, 0, 0, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9, 3, 6, 9, 3, 7, 9], [1, 1, 0, 0, 0, 0, 1, 1])],
    polar: [row([1, 2], [5, 9, 3, 6, 9, 3, 7, 9], [1, 1, 0, 1, 1, 0, 1, 1])],
    edges: [
      ['extends', 'b', 'a', null, null],
      ['extends', 'c', 'b', null, null],
    ],
  },
  {
    name: "an empty record among good ones is nobody's parent",
    calls: [
      { p: [], r: [], record: { status: 'aborted', finishReason: 'abort' } },
      { p: [1, 2], r: [5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 9] },
    ],
    strict: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    polar: [row([], [], []), row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    edges: [['extends', 'c', 'b', null, null]],
  },
  {
    name: 'a generation-prompt suffix that history drops gives two rows in every mode',
    calls: [
      { p: [1, 2, 20], r: [7, 5, 9] },
      { p: [1, 2, 5, 9, 3, 20], r: [6, 9] },
    ],
    strict: [row([1, 2, 20], [7, 5, 9], [1, 1, 1]), row([1, 2, 5, 9, 3, 20], [6, 9], [1, 1])],
    spliced: [row([1, 2, 20], [7, 5, 9], [1, 1, 1]), row([1, 2, 5, 9, 3, 20], [6, 9], [1, 1])],
    polar: [row([1, 2, 20], [7, 5, 9], [1, 1, 1]), row([1, 2, 5, 9, 3, 20], [6, 9], [1, 1])],
    edges: [['rewrites', 'b', 'a', 'D17', 2]],
  },
  {
    name: 'compaction: the summary is trained, then a new row begins',
    calls: [
      { p: [1, 2], r: [5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 7, 9] },
      { p: [1, 4, 6, 7], r: [8, 9] },
      { p: [1, 4, 6, 7, 8, 9, 3], r: [5, 9] },
    ],
    strict: [row([1, 2], [5, 9, 3, 6, 7, 9], [1, 1, 0, 1, 1, 1]), row([1, 4, 6, 7], [8, 9, 3, 5, 9], [1, 1, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9, 3, 6, 7, 9], [1, 1, 0, 1, 1, 1]), row([1, 4, 6, 7], [8, 9, 3, 5, 9], [1, 1, 0, 1, 1])],
    polar: [row([1, 2], [5, 9, 3, 6, 7, 9], [1, 1, 0, 1, 1, 1]), row([1, 4, 6, 7], [8, 9, 3, 5, 9], [1, 1, 0, 1, 1])],
    edges: [
      ['extends', 'b', 'a', null, null],
      ['compaction_of', 'c', 'b', 'D9', 1],
      ['extends', 'd', 'c', null, null],
    ],
  },
  {
    name: 'a retry of the last call, the second delivered',
    calls: [
      { p: [1, 2], r: [5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 9], ...lost },
      { p: [1, 2, 5, 9, 3], r: [7, 9] },
    ],
    strict: [row([1, 2], [5, 9, 3, 7, 9], [1, 1, 0, 1, 1]), row([1, 2], [5, 9, 3, 6, 9], [0, 0, 0, 0, 0])],
    spliced: [row([1, 2], [5, 9, 3, 7, 9], [1, 1, 0, 1, 1]), row([1, 2], [5, 9, 3, 6, 9], [0, 0, 0, 0, 0])],
    polar: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    edges: [
      ['extends', 'b', 'a', null, null],
      ['extends', 'c', 'a', null, null],
      ['retry_of', 'c', 'b', 'D12', null],
    ],
  },
  {
    name: 'a retry of the last call, none delivered',
    calls: [
      { p: [1, 2], r: [5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 9], ...lost },
      { p: [1, 2, 5, 9, 3], r: [7, 9], ...lost },
    ],
    strict: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 0, 0]), row([1, 2], [5, 9, 3, 7, 9], [0, 0, 0, 0, 0])],
    spliced: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 0, 0]), row([1, 2], [5, 9, 3, 7, 9], [0, 0, 0, 0, 0])],
    polar: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    edges: [
      ['extends', 'b', 'a', null, null],
      ['extends', 'c', 'a', null, null],
      ['retry_of', 'c', 'b', 'D12', null],
    ],
  },
  {
    name: 'a sampled turn with two continuing branches is trained once, in the longer one',
    calls: [
      { p: [1, 2], r: [5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 9] },
      { p: [1, 2, 5, 9, 4], r: [7, 9] },
      { p: [1, 2, 5, 9, 4, 7, 9, 3], r: [8, 9] },
    ],
    strict: [row([1, 2], [5, 9, 4, 7, 9, 3, 8, 9], [1, 1, 0, 1, 1, 0, 1, 1]), row([1, 2], [5, 9, 3, 6, 9], [0, 0, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9, 4, 7, 9, 3, 8, 9], [1, 1, 0, 1, 1, 0, 1, 1]), row([1, 2], [5, 9, 3, 6, 9], [0, 0, 0, 1, 1])],
    polar: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1]), row([1, 2, 5, 9, 4], [7, 9, 3, 8, 9], [1, 1, 0, 1, 1])],
    edges: [
      ['extends', 'b', 'a', null, null],
      ['extends', 'c', 'a', null, null],
      ['extends', 'd', 'c', null, null],
    ],
  },
  {
    name: 'a tool list that changes',
    calls: [
      { p: [1, 2, 3], r: [5, 9], record: { tools: 0, toolCount: 1 } },
      { p: [1, 4, 3, 5, 9, 3], r: [6, 9], record: { tools: 1, toolCount: 1 } },
    ],
    strict: [row([1, 2, 3], [5, 9], [1, 1]), row([1, 4, 3, 5, 9, 3], [6, 9], [1, 1])],
    spliced: [row([1, 2, 3], [5, 9], [1, 1]), row([1, 4, 3, 5, 9, 3], [6, 9], [1, 1])],
    polar: [row([1, 2, 3], [5, 9], [1, 1]), row([1, 4, 3, 5, 9, 3], [6, 9], [1, 1])],
    edges: [['rewrites', 'b', 'a', 'D11', 1]],
  },
  {
    name: 'a weight update inside a chain',
    calls: [
      { p: [1, 2], r: [5, 9] },
      { p: [1, 2, 5, 9, 3], r: [6, 9], record: { weightVersion: 'w2' } },
    ],
    strict: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    spliced: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    polar: [row([1, 2], [5, 9, 3, 6, 9], [1, 1, 0, 1, 1])],
    edges: [['extends', 'b', 'a', null, null]],
  },
]

const TOOLS = [[{ type: 'function', function: { name: 'one' } }], [{ type: 'function', function: { name: 'two' } }]]

function build(golden: Golden, config: Readonly<Record<string, unknown>>) {
  const built = assemble(
    toyInput(golden.calls, TOOLS),
    { strategy: 'prefix_merging', config: { ...golden.config, ...config } },
    buildPrefixMerging,
  )
  if (!built.ok) throw new Error(built.error)
  return built.trajectory
}

describe('golden cases', () => {
  it.each(GOLDENS)('$name: strict rows', (golden) => {
    expect(build(golden, {}).traces.map(toyRow)).toEqual(golden.strict)
  })
  it.each(GOLDENS)('$name: spliced rows', (golden) => {
    expect(build(golden, { splice: true }).traces.map(toyRow)).toEqual(golden.spliced)
  })
  it.each(GOLDENS)("$name: rows of Polar's own rule", (golden) => {
    expect(build(golden, { splice: 'polar' }).traces.map(toyRow)).toEqual(golden.polar)
  })
  it.each(GOLDENS)('$name: edges and drift', (golden) => {
    const edges = build(golden, {}).metadata.edges as {
      kind: string
      call_id: string
      of: string
      drift: { class: string; index: number } | null
    }[]
    expect(edges.map(({ kind, call_id, of, drift }) => [kind, call_id, of, drift?.class ?? null, drift?.index ?? null])).toEqual(
      golden.edges.map(([kind, from, of, drift, index]) => [kind, `msg_${from}`, `msg_${of}`, drift, index]),
    )
  })
  it.each(GOLDENS)('$name: nothing disappears', (golden) => {
    for (const config of [{}, { splice: true }, { splice: 'polar' }]) {
      const stats = build(golden, config).metadata.reconstruction_stats as {
        captured_tokens: number
        trained_tokens: number
        masked_tokens_by_reason: object
      }
      const masked = Object.values(stats.masked_tokens_by_reason).reduce((sum, tokens) => sum + tokens, 0)
      expect(stats.trained_tokens + masked).toBe(stats.captured_tokens)
      expect(stats.captured_tokens).toBe(golden.calls.reduce((sum, call) => sum + call.r.length, 0))
    }
  })
})

describe('what the golden rows carry', () => {
  const named = (name: string): Golden => GOLDENS.find((golden) => golden.name.startsWith(name))!

  it('GT1 shows both sides of the break', () => {
    expect(build(named('GT1'), {}).traces[1]?.metadata.drift).toMatchObject({
      class: 'D2',
      index: 2,
      window: { start: 0, common: [1, 2], earlier: [7, 7, 5, 9], later: [5, 9, 3] },
    })
  })
  it('GT1 spliced measures the context that the engine never reported', () => {
    const [trace] = build(named('GT1'), { splice: true }).traces
    // Two thoughts among the seven tokens before the second turn.
    expect(trace?.metadata).toMatchObject({ unreported_context_tokens: 2, unreported_context_share: 2 / 7 })
    expect(trace?.metadata.turns).toMatchObject([{ trained: true }, { trained: true, spliced_context: true }])
  })
  it('GT1 stays two rows where the unreported share is bounded', () => {
    expect(build(named('GT1'), { splice: true, splice_max_unreported: 0.2 }).traces).toHaveLength(2)
  })
  it('GT5 marks the truncated turn', () => {
    expect(build(named('GT5'), {}).traces[0]?.metadata.truncated_turns).toEqual(['msg_a'])
  })
  it('GT6 names the abandoned attempt and its successor', () => {
    const [abandoned, kept] = build(named('GT6'), {}).traces
    expect(abandoned?.metadata).toMatchObject({
      segment_role: 'discarded',
      turns: [{ call_id: 'msg_1a', trained: false, reason: 'retry_abandoned' }],
    })
    expect(kept?.metadata).toMatchObject({ edge: 'retry_of', parent_row_id: abandoned?.metadata.row_id, segment_role: 'main' })
  })
  it("GT8 keeps the other turns' logprobs and marks the missing ones", () => {
    const [trace] = build(named('GT8'), {}).traces
    expect([...trace!.response_logprobs!]).toEqual([-0.1, -0.2, 0, 0, 0, 0, -0.1, -0.1].map(Math.fround))
    expect(trace?.metadata.synthetic_logprob_spans).toEqual([{ start: 2, end: 6 }])
    expect(trace?.metadata.turns).toMatchObject([{ trained: true }, { trained: false, reason: 'logprobs_missing' }, { trained: true }])
    expect(build(named('GT8'), { splice: 'polar' }).traces[0]?.response_logprobs).toBeNull()
  })
  it('D17 says how long the suffix is', () => {
    expect(build(named('a generation-prompt'), {}).traces[1]?.metadata.drift).toMatchObject({ generation_prompt_tokens: 1 })
  })
  it('a weight update is told by spans', () => {
    expect(build(named('a weight update'), {}).traces[0]?.metadata.weight_versions).toEqual([
      { start: 0, end: 2, version: 'w1' },
      { start: 3, end: 5, version: 'w2' },
    ])
  })
  it('a weight update inside a turn is told where it was, and the turn has no one version', () => {
    const weightSpans = [
      { start: 0, end: 1, version: 'w1' },
      { start: 1, end: 2, version: 'w2' },
    ]
    const first: ToyCall = { p: [1, 2], r: [5, 9], record: { weightVersion: null, weightSpans } }
    const next: ToyCall = { p: [1, 2, 5, 9, 3], r: [6, 9], record: { weightVersion: 'w2' } }
    const { metadata } =
      build({ name: 'a turn of two', calls: [first, next], strict: [], spliced: [], polar: [], edges: [] }, {}).traces[0] ?? {}
    expect(metadata?.weight_versions).toEqual([
      { start: 0, end: 1, version: 'w1' },
      { start: 1, end: 5, version: 'w2' },
    ])
    expect(metadata?.turns).toMatchObject([{ weight_version: null }, { weight_version: 'w2' }])
  })
  it('a shared turn names its reason where it is context only', () => {
    expect(build(named('a sampled turn'), {}).traces[1]?.metadata.turns).toMatchObject([
      { call_id: 'msg_a', trained: false, reason: 'shared' },
      { trained: true },
    ])
  })
  it("Polar's own counters tell what its rule dropped", () => {
    expect(build(named('GT6'), { splice: 'polar' }).metadata.reconstruction_stats).toMatchObject({
      chains_total: 1,
      chains_reconstructed_full: 0,
      chains_reconstructed_truncated: 1,
      completions_total: 4,
      completions_merged: 1,
    })
  })
  it('every row names its session, task, attempt, group and place', () => {
    expect(build(named('GT6'), {}).traces.map(({ metadata }) => metadata)).toMatchObject([
      {
        session_id: SESSION,
        task_id: 'task-1',
        attempt: 1,
        group_id: 'g1',
        trace_index: 0,
        trace_count: 2,
        segment_count: 1,
        rollout_weight: 0,
        reward_index: null,
      },
      {
        session_id: SESSION,
        task_id: 'task-1',
        attempt: 1,
        group_id: 'g1',
        trace_index: 1,
        trace_count: 2,
        segment_count: 1,
        rollout_weight: 1,
        reward_index: 7,
      },
    ])
  })
})

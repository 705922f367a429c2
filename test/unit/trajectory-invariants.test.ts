// Every invariant, broken on purpose: a build that would give a wrong row fails by the invariant's name.
import { describe, expect, it } from 'vitest'
import type { Trace } from '../../src/contract/result.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import type { Builder } from '../../src/trajectory/builder.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { turnsOf } from '../../src/trajectory/rows.ts'
import { type ToyCall, toyInput } from './trajectory-calls.ts'

const CALLS: readonly ToyCall[] = [
  { p: [1, 2], r: [5, 9] },
  { p: [1, 2, 5, 9, 3], r: [6, 9] },
  { p: [7], r: [8], record: { status: 'aborted' } },
]

const set = <T extends Int32Array | Uint8Array | Float32Array>(array: T, at: number, value: number): T => {
  const copy = array.slice() as T
  copy[at] = value
  return copy
}
const turn = (trace: Trace, at: number, more: object): Trace => ({
  ...trace,
  metadata: { ...trace.metadata, turns: turnsOf(trace).map((own, index) => (index === at ? { ...own, ...more } : own)) },
})

/** Rows of the sound build: the merged row, and the aborted call's. */
type Spoil = (merged: Trace, aborted: Trace) => readonly Trace[]

const BROKEN: readonly (readonly [invariant: string, spoil: Spoil])[] = [
  ['equal-lengths', (row) => [{ ...row, loss_mask: row.loss_mask.subarray(1) }]],
  ['equal-lengths', (row) => [{ ...row, response_logprobs: row.response_logprobs!.subarray(1) }]],
  ['ids-valid', (row) => [{ ...row, prompt_ids: set(row.prompt_ids, 0, -1) }]],
  ['ids-valid', (row) => [{ ...row, response_ids: set(row.response_ids, 2, -1) }]],
  ['mask-binary', (row) => [{ ...row, loss_mask: set(row.loss_mask, 0, 2) }]],
  ['logprobs-finite', (row) => [{ ...row, response_logprobs: set(row.response_logprobs!, 2, Number.NaN) }]],
  ['trained-is-sampled', (row) => [{ ...row, loss_mask: set(row.loss_mask, 2, 1) }]],
  ['trained-is-sampled', (row) => [{ ...row, metadata: { ...row.metadata, turns: turnsOf(row).slice(0, 1) } }]],
  ['trained-is-sampled', (row) => [{ ...row, metadata: {} }]],
  ['trained-is-sampled', (row) => [{ ...row, metadata: { turns: [{ call_id: 'msg_a', start: 'x' }] } }]],
  ['turn-known', (row) => [turn(row, 0, { call_id: 'msg_zz' })]],
  ['turn-spans', (row) => [turn(row, 1, { end: 99 })]],
  ['turn-spans', (row) => [turn(row, 1, { start: 1 })]],
  ['tokens-as-sampled', (row) => [{ ...row, response_ids: set(row.response_ids, 0, 6) }]],
  ['mask-as-stated', (row) => [{ ...row, loss_mask: set(row.loss_mask, 1, 0) }]],
  ['mask-as-stated', (row) => [turn(row, 0, { trained: false, reason: 'aux' })]],
  ['masked-with-reason', (row) => [turn({ ...row, loss_mask: Uint8Array.of(0, 0, 0, 1, 1) }, 0, { trained: false })]],
  ['logprobs-present', (row) => [{ ...row, response_logprobs: null }]],
  ['logprobs-as-sampled', (row) => [{ ...row, response_logprobs: set(row.response_logprobs!, 3, -0.25) }]],
  ['logprobs-as-sampled', (row) => [{ ...row, response_logprobs: set(row.response_logprobs!, 3, 0.5) }]],
  ['context-as-reported', (row) => [{ ...row, prompt_ids: set(row.prompt_ids, 0, 3) }]],
  ['context-as-reported', (row) => [{ ...row, response_ids: set(row.response_ids, 2, 4) }]],
  ['trained-once', (row) => [row, row]],
  ['untrainable-call', (_, aborted) => [turn({ ...aborted, loss_mask: Uint8Array.of(1) }, 0, { trained: true })]],
]

const build = (spoil: Spoil) => {
  const builder: Builder = (input, config) => {
    const { traces, metadata } = buildPrefixMerging(input, config)
    return { traces: spoil(traces[0]!, traces[1]!), metadata }
  }
  return assemble(toyInput(CALLS), { strategy: 'custom', config: {} }, builder)
}

describe('invariants', () => {
  it('hold of the sound build', () => {
    expect(build((merged, aborted) => [merged, aborted])).toMatchObject({ ok: true, trainableTokens: 4, capturedTokens: 5 })
  })
  it.each(BROKEN)('%s (%#)', (invariant, spoil) => {
    expect(build(spoil)).toEqual({
      ok: false,
      error: expect.stringMatching(new RegExp(`builder custom: invariant ${invariant} is broken in row [01]`)),
    })
  })
  it('name the call', () => {
    expect(build((row) => [row, row])).toMatchObject({
      error: 'builder custom: invariant trained-once is broken in row 1, call msg_a: also trained in row 0',
    })
  })
  it("a custom builder cannot lift them by calling itself Polar's", () => {
    const builder: Builder = (input, config) => ({
      traces: buildPrefixMerging(input, { ...config, splice: 'polar' }).traces,
      metadata: { splice: 'polar' },
    })
    expect(assemble(toyInput(CALLS), { strategy: 'custom', config: {} }, builder)).toMatchObject({ ok: false })
  })
  it.each([
    [
      'throws',
      () => {
        throw new Error('bug')
      },
      /failed: bug/,
    ],
    ['gives nothing', () => undefined as never, /failed/],
    ['gives no traces', () => ({ metadata: {} }) as never, /failed/],
  ] as const)('a builder that %s is a build error', (_, builder, error) => {
    expect(assemble(toyInput(CALLS), { strategy: 'custom', config: {} }, builder)).toEqual({
      ok: false,
      error: expect.stringMatching(error),
    })
  })
})

// When splicing joins a turn to a prompt that tells it differently, where it cuts, and when it refuses.
import { describe, expect, it } from 'vitest'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { type ToyCall, type ToyRow, toyInput, toyRow } from './trajectory-calls.ts'

function build(calls: readonly ToyCall[], config: Readonly<Record<string, unknown>> = {}) {
  const built = assemble(toyInput(calls), { strategy: 'prefix_merging', config: { splice: true, ...config } }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)
  return built.trajectory
}
const rowsOf = (calls: readonly ToyCall[], config?: Readonly<Record<string, unknown>>): readonly ToyRow[] =>
  build(calls, config).traces.map(toyRow)
const call = (p: readonly number[], r: readonly number[], record: ToyCall['record'] = {}): ToyCall => ({ p, r, record })

describe('the cut', () => {
  it('lies after as many end tokens as the turn itself holds', () => {
    // The turn was sampled with an inner end token and is told with its second word changed.
    expect(rowsOf([call([1, 2], [5, 9, 6, 9]), call([1, 2, 5, 9, 7, 9, 3], [4, 9])])).toEqual([
      { prompt: [1, 2], resp: [5, 9, 6, 9, 3, 4, 9], mask: [1, 1, 1, 1, 0, 1, 1] },
    ])
  })

  it('leaves the end token in the context when the turn was cut before it', () => {
    const rows = rowsOf([call([1, 2], [5, 6], { finishReason: 'length' }), call([1, 2, 5, 9, 3], [4, 9])])
    expect(rows).toEqual([{ prompt: [1, 2], resp: [5, 6, 9, 3, 4, 9], mask: [1, 1, 0, 0, 1, 1] }])
  })

  it('counts no token twice when the told turn is shorter than it was sampled', () => {
    // Sampled 5 5 5 9, told 5 5 9: one of three equal tokens is missing.
    const [trace] = build([call([1, 2], [5, 5, 5, 9]), call([1, 2, 5, 5, 9, 3], [4, 9])]).traces
    expect(trace?.metadata.unreported_context_tokens).toBe(1)
  })

  it('marks every turn behind a spliced one, and counts each junction', () => {
    const [trace] = build([
      call([1, 2], [7, 5, 9]),
      call([1, 2, 5, 9, 3], [8, 6, 9]),
      call([1, 2, 5, 9, 3, 6, 9, 3], [4, 9]),
      call([1, 2, 5, 9, 3, 6, 9, 3, 4, 9, 3], [4, 9]),
    ]).traces
    expect(trace?.metadata).toMatchObject({
      unreported_context_tokens: 2,
      turns: [{}, { spliced_context: true }, { spliced_context: true }, { spliced_context: true }],
    })
    expect((trace!.metadata.turns as readonly object[])[0]).not.toHaveProperty('spliced_context')
  })
})

describe('the end token', () => {
  const edited = [call([1, 2], [5, 6, 9]), call([1, 2, 5, 8, 9, 3], [4, 7])]
  it('is taken from the session only where all its calls agree', () => {
    expect(rowsOf(edited)).toHaveLength(2)
    expect(rowsOf([call([30], [4, 7]), call([1, 2], [5, 6, 9]), call([1, 2, 5, 8, 9, 3], [4, 9])])).toHaveLength(3)
    expect(rowsOf(edited, { end_of_turn_token_id: 9 })).toHaveLength(1)
  })
  it('is not taken from turns that were cut', () => {
    expect(rowsOf([call([1, 2], [5, 6, 9]), call([1, 2, 5, 8, 9, 3], [4, 7], { finishReason: 'length' })])).toHaveLength(1)
  })
  it('must stand in the told turn as often as in the sampled one', () => {
    expect(rowsOf([call([1, 2], [4, 6, 4]), call([1, 2, 8, 6, 4, 3], [7, 4])])).toHaveLength(2)
  })
})

describe('the turn that is continued', () => {
  it('is the exact one where both fit', () => {
    const rows = rowsOf([call([1], [2, 9]), call([1, 2, 9, 3], [5, 9]), call([1, 2, 9, 3, 5, 9, 3], [6, 9])])
    expect(rows).toEqual([{ prompt: [1], resp: [2, 9, 3, 5, 9, 3, 6, 9], mask: [1, 1, 0, 1, 1, 0, 1, 1] }])
  })

  it('is the later one, spliced, before an earlier one that fits exactly', () => {
    const [trace, ...others] = build([call([1], [2, 9]), call([1, 2, 9, 3], [5, 6, 9]), call([1, 2, 9, 3, 5, 8, 9, 3], [6, 9])]).traces
    expect(others).toEqual([])
    expect(toyRow(trace!).resp).toEqual([2, 9, 3, 5, 6, 9, 3, 6, 9])
  })

  it('is an exact one before an earlier one that would have to be spliced', () => {
    // The retry's prompt is a prefix too, and the request tells its turn with one word changed.
    const rows = rowsOf([call([1, 2], [5, 8, 9]), call([1, 2], [5, 6, 9]), call([1, 2, 5, 8, 9, 3], [4, 9])])
    expect(rows.map(({ resp }) => resp)).toEqual([
      [5, 8, 9, 3, 4, 9],
      [5, 6, 9],
    ])
  })

  it('is the attempt asked for before, delivered, latest', () => {
    const told = [1, 2, 5, 8, 9, 3]
    const rows = rowsOf([
      call([1, 2], [5, 4, 9]),
      call([1, 2], [5, 6, 9]),
      call([1, 2], [5, 7, 9], { delivery: 'no' }),
      call(told, [4, 9]),
      call([1, 2], [5, 3, 9]),
    ])
    expect(rows.map(({ resp }) => resp)).toContainEqual([5, 6, 9, 3, 4, 9])
  })

  it('is never one whose answer nobody took', () => {
    expect(rowsOf([call([1, 2], [5, 6, 9], { delivery: 'no' }), call([1, 2, 5, 8, 9, 3], [4, 9])])).toHaveLength(2)
  })
})

describe("Polar's own rule", () => {
  const polar = (calls: readonly ToyCall[], config = {}) => rowsOf(calls, { splice: 'polar', ...config })
  it('keeps the end token in the context behind a turn that was cut', () => {
    const rows = polar([call([1, 2], [5, 6], { finishReason: 'length' }), call([1, 2, 5, 6, 9, 3], [4, 9])], { end_of_turn_token_id: 9 })
    expect(rows).toEqual([{ prompt: [1, 2], resp: [5, 6, 9, 3, 4, 9], mask: [1, 1, 0, 0, 1, 1] }])
  })
  it('takes calls in the order in which their answers were saved', () => {
    const rows = polar([call([1], [2], { startedAtMs: 0, durationMs: 900 }), call([3], [4], { startedAtMs: 100, durationMs: 100 })])
    expect(rows.map(({ prompt }) => prompt)).toEqual([[3], [1]])
  })
})

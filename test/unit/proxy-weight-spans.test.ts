// What an engine says of its weights, as spans over the sampled tokens: believed where it fits, and never guessed.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { WeightSpan } from '../../src/contract/call.ts'
import { joinedSpans, named, readWeights, soleVersion, wholeSpan } from '../../src/proxy/engines/weight-spans.ts'

const span = (start: number, end: number, version: string | null): WeightSpan => ({ start, end, version })

describe('the weights of a generation', () => {
  it.each<[string, unknown, unknown, string | null, readonly WeightSpan[]]>([
    ['one version', undefined, 'v1', 'v1', [span(0, 4, 'v1')]],
    ['a number', null, 7, '7', [span(0, 4, '7')]],
    ['none', undefined, undefined, null, [span(0, 4, null)]],
    ['an empty list', [], 'v1', 'v1', [span(0, 4, 'v1')]],
    ['a list of one, wherever it is said to end', [span(0, 3, 'v1')], 'v0', 'v1', [span(0, 4, 'v1')]],
    ['a list of two', [span(0, 1, 'v1'), span(1, 4, 'v2')], 'v2', 'v2', [span(0, 1, 'v1'), span(1, 4, 'v2')]],
    ['equal neighbours', [span(0, 1, 'v1'), span(1, 2, 'v1'), span(2, 4, 'v2')], 'v2', 'v2', [span(0, 2, 'v1'), span(2, 4, 'v2')]],
    ['a list without positions', [{ version: 'v1' }, { version: 'v2' }], 'v2', 'v2', [span(0, 4, null)]],
    ['bare versions', ['v1', 'v2'], 'v2', 'v2', [span(0, 4, null)]],
    ['a list with a hole', [span(0, 1, 'v1'), span(2, 4, 'v2')], 'v2', 'v2', [span(0, 4, null)]],
    ['a list that is too short', [span(0, 1, 'v1'), span(1, 3, 'v2')], 'v2', 'v2', [span(0, 4, null)]],
    ['a list that is too long', [span(0, 1, 'v1'), span(1, 5, 'v2')], 'v2', 'v2', [span(0, 4, null)]],
    ['a span of nothing', [span(0, 0, 'v1'), span(0, 4, 'v2')], 'v2', 'v2', [span(0, 4, null)]],
    ['a list of something else', [null, { version: {} }], 'v1', 'v1', [span(0, 4, 'v1')]],
  ])('that says %s', (_, listed, stated, latest, spans) => {
    expect(readWeights(listed, stated, 4)).toEqual({ weightVersion: latest, weightSpans: spans })
  })

  it('are no spans where nothing was sampled', () => {
    expect(readWeights([span(0, 0, 'v1')], 'v1', 0)).toEqual({ weightVersion: 'v1', weightSpans: [] })
  })

  it('cover every token once and in order, whatever the engine lists', () => {
    const version = fc.constantFrom('v1', 'v2', null)
    const entry = fc.record({ start: fc.integer({ min: -1, max: 6 }), end: fc.integer({ min: -1, max: 6 }), version })
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 4 }), version, fc.nat(6), (listed, stated, length) => {
        const { weightSpans } = readWeights(listed, stated, length)
        expectToCover(weightSpans, length)
      }),
    )
  })
})

describe('a generation that went on in another one', () => {
  it('has the weights of both, each where they sampled', () => {
    const joined = joinedSpans([span(0, 2, 'v1'), span(2, 3, 'v2')], [span(0, 4, 'v2'), span(4, 5, 'v3')])
    expect(joined).toEqual([span(0, 2, 'v1'), span(2, 7, 'v2'), span(7, 8, 'v3')])
    expectToCover(joined, 8)
    expect([soleVersion(joined), soleVersion(joined.slice(0, 1)), soleVersion([])]).toEqual([null, 'v1', null])
    expect([joinedSpans([], wholeSpan('v1', 2)), joinedSpans(wholeSpan('v1', 2), [])]).toEqual([[span(0, 2, 'v1')], [span(0, 2, 'v1')]])
  })
})

describe('weights that no answer named', () => {
  it.each<[string, readonly WeightSpan[], readonly WeightSpan[]]>([
    ['of no token before it', [span(0, 2, null), span(2, 5, 'v1')], [span(0, 2, null), span(2, 5, 'v1')]],
    ['where they are a span of their own', [span(0, 2, 'v1'), span(2, 5, null)], [span(0, 2, 'v1'), span(2, 5, 'v2')]],
    ['where the span began with tokens that nobody knows it of', [span(0, 5, null)], [span(0, 2, null), span(2, 5, 'v2')]],
    ['beside their neighbours', [span(0, 3, null), span(3, 5, 'v2')], [span(0, 2, null), span(2, 5, 'v2')]],
  ])('are the ones the server names, from the third token on: %s', (_, weightSpans, expected) => {
    expect(named({ weightVersion: null, weightSpans }, 'v2', 2).weightSpans).toEqual(expected)
    expectToCover(expected, 5)
  })
})

function expectToCover(spans: readonly WeightSpan[], length: number): void {
  expect(spans.map(({ start }) => start)).toEqual([0, ...spans.map(({ end }) => end)].slice(0, spans.length))
  expect(spans.at(-1)?.end ?? 0).toBe(length)
  expect(spans.every(({ start, end, version }, at) => end > start && (at === 0 || spans[at - 1]?.version !== version))).toBe(true)
}

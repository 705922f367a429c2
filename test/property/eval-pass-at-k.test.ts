// pass@k against what it stands for: all ways to draw k of the samples, counted one by one.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { passAtK, wilsonInterval } from '../../src/eval/pass-at-k.ts'

/** The share of k-subsets that hold a success, by looking at each of them. */
function byCounting(outcomes: readonly boolean[], k: number): number {
  let [all, passed] = [0, 0]
  for (let subset = 0; subset < 2 ** outcomes.length; subset += 1) {
    const drawn = outcomes.filter((_, at) => (subset >> at) % 2 === 1)
    if (drawn.length !== k) continue
    all += 1
    if (drawn.includes(true)) passed += 1
  }
  return passed / all
}

const drawing = fc
  .array(fc.boolean(), { minLength: 1, maxLength: 10 })
  .chain((outcomes) => fc.tuple(fc.constant(outcomes), fc.integer({ min: 1, max: outcomes.length })))

describe('pass@k', () => {
  it('is the share of draws of k samples that hold a success', () => {
    fc.assert(
      fc.property(drawing, ([outcomes, k]) => {
        const successes = outcomes.filter(Boolean).length
        expect(passAtK(outcomes.length, successes, k)).toBeCloseTo(byCounting(outcomes, k), 12)
      }),
    )
  })

  it('stays a share where the binomials are beyond every number', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4_096 }), fc.nat(), fc.nat(), (samples, a, b) => {
        const [successes, k] = [a % (samples + 1), 1 + (b % samples)]
        const value = passAtK(samples, successes, k)
        expect(value).toBeGreaterThanOrEqual(0)
        expect(value).toBeLessThanOrEqual(1)
        // Never less with one success more.
        expect(passAtK(samples, Math.min(samples, successes + 1), k)).toBeGreaterThanOrEqual(value)
      }),
    )
  })

  it.each([
    [1, 0, 1, 0],
    [1, 1, 1, 1],
    [4, 1, 1, 0.25],
    [4, 1, 2, 0.5],
    [10, 3, 5, 1 - 21 / 252],
    [8, 8, 8, 1],
  ])('of %i samples with %i successes at k = %i is %d', (samples, successes, k, value) => {
    expect(passAtK(samples, successes, k)).toBeCloseTo(value, 12)
  })
})

describe('the interval of a mean', () => {
  it.each([
    // Newcombe 1998, table I, method 3 (without continuity correction).
    [81 / 263, 263, 0.2553, 0.3662],
    [15 / 148, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1 / 29, 29, 0.0061, 0.1718],
  ])('of %d over %i is that of the literature', (mean, count, low, high) => {
    const interval = wilsonInterval(mean, count)
    expect(interval.low).toBeCloseTo(low, 4)
    expect(interval.high).toBeCloseTo(high, 4)
  })

  it('holds the mean, lies in [0, 1], and narrows with more tasks', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 1, max: 10_000 }), (mean, count) => {
        const { low, high } = wilsonInterval(mean, count)
        expect(low >= 0 && low <= mean + 1e-12 && mean - 1e-12 <= high && high <= 1).toBe(true)
        const more = wilsonInterval(mean, count * 4)
        expect(more.high - more.low).toBeLessThan(high - low)
      }),
    )
  })
})

// The scorer's parts against numbers worked out by hand: what it says of an engine is worth no more than this.
import { describe, expect, it } from 'vitest'
import { openScorer, type Weights } from '../lib/scorer.ts'
import { attend, gated, logProbability, type Matrix, multiply, normalise, rotate } from '../lib/scorer-operations.ts'

const numbers = (...values: readonly number[]): Float64Array => Float64Array.from(values)
const matrix = (...rows: readonly (readonly number[])[]): Matrix => ({
  rows: rows.length,
  columns: rows[0]!.length,
  values: numbers(...rows.flat()),
})
/** Angles are of float32. */
const FLOAT32_DIGITS = 5
const expectClose = (actual: Iterable<number>, expected: readonly number[], digits = 12): void => {
  const values = [...actual]
  expect(values).toHaveLength(expected.length)
  for (const [at, value] of values.entries()) expect(value).toBeCloseTo(expected[at]!, digits)
}

describe('the arithmetic of the scorer', () => {
  // More vectors than are worked on together, so that the last ones go another way.
  it.each([1, 4, 6])('multiplies %i vectors with every row', (count) => {
    const input = Float64Array.from({ length: 2 * count }, (_, at) => at + 1)
    const products = Array.from({ length: count }, (_, at) => [2 * at + 1, 2 * at + 2] as const)
    expectClose(
      multiply(input, matrix([1, 10], [0, -1], [0.5, 0])),
      products.flatMap(([x, y]) => [x + 10 * y, -y, x / 2]),
    )
  })

  it('divides by the root mean square and scales by the gain, run by run', () => {
    // The mean square of (3, 4) with 0.5 added is 13; that of (0, 0) is what was added.
    const [x, y] = [3 / Math.sqrt(13), 4 / Math.sqrt(13)]
    expectClose(normalise(numbers(3, 4, 0, 0), numbers(1, 2), 0.5), [x, 2 * y, 0, 0])
  })

  it('turns each half of a head against the other, by the position', () => {
    // This base turns the second pair by a quarter for each position, and the first by one radian.
    const base = (2 / Math.PI) ** 2
    const head = [1, 5, 0, 7]
    const vectors = numbers(...head, ...head, ...head)
    rotate(vectors, 1, 4, base, 0)
    expectClose(vectors, [...head, ...[Math.cos(1), -7, Math.sin(1), 5], ...[Math.cos(2), -5, Math.sin(2), -7]], FLOAT32_DIGITS)
  })

  it('turns the heads of one position alike', () => {
    const vectors = numbers(0, 0, 0, 0, 1, 0, 1, 0)
    rotate(vectors, 2, 2, 10_000, 2)
    expectClose(vectors, [0, 0, 0, 0, Math.cos(3), Math.sin(3), Math.cos(3), Math.sin(3)])
  })

  it('weighs what stands before a position, and nothing after it', () => {
    // The second query gives the first key exp(0) and the second exp(ln 3).
    const attended = attend(numbers(5, Math.log(3)), numbers(0, 1), numbers(10, 20), { queries: 1, keyValues: 1, size: 1 })
    expectClose(attended, [10, (10 + 3 * 20) / 4])
  })

  it('takes the queries for those of the last positions', () => {
    expectClose(attend(numbers(0), numbers(7, 7, 7), numbers(1, 2, 6), { queries: 1, keyValues: 1, size: 1 }), [3])
  })

  it('divides scores by the root of the head size', () => {
    const query = [2 * Math.log(3), 0, 0, 0]
    const keys = numbers(0, 0, 0, 0, 1, 0, 0, 0)
    const values = numbers(4, 4, 4, 4, 8, 8, 8, 8)
    const attended = attend(numbers(...query, ...query), keys, values, { queries: 1, keyValues: 1, size: 4 })
    expectClose(attended.subarray(4), [7, 7, 7, 7])
  })

  it('gives neighbouring query heads one key head', () => {
    const values = numbers(1, 2)
    expectClose(attend(numbers(0, 0, 0, 0), numbers(0, 0), values, { queries: 4, keyValues: 2, size: 1 }), [1, 1, 2, 2])
  })

  it('lets through what the gate lets through', () => {
    expectClose(gated(numbers(0, Math.log(3)), numbers(9, 4)), [0, 3 * Math.log(3)])
  })

  it.each([
    { temperature: 1, shares: [1 / 4, 3 / 4] },
    { temperature: 0.5, shares: [1 / 10, 9 / 10] },
  ])('takes the logarithm of the share that softmax gives at temperature $temperature', ({ temperature, shares }) => {
    // However large the logits are.
    const logits = numbers(1_000, 1_000 + Math.log(3))
    for (const [at, share] of shares.entries()) expect(logProbability(logits, at, temperature)).toBeCloseTo(Math.log(share), 9)
  })
})

/** One layer whose attention passes the mean of what was seen on and whose feed-forward part is silent. */
function averagingModel(): Weights {
  const [one, none] = [matrix([1, 0], [0, 1]), matrix([0, 0], [0, 0])]
  const gain = numbers(1, 1)
  return {
    heads: { queries: 1, keyValues: 1, size: 2 },
    ropeBase: 10_000,
    normEpsilon: 0,
    embedding: matrix([1, 1], [1, -1]),
    layers: [
      {
        attentionNorm: gain,
        query: none,
        key: none,
        value: one,
        queryNorm: gain,
        keyNorm: gain,
        attentionOutput: one,
        feedForwardNorm: gain,
        gate: none,
        up: one,
        down: one,
      },
    ],
    outputNorm: gain,
    head: matrix([1, 0], [0, 1], [0, 0]),
  }
}

describe('the whole scorer', () => {
  it('gives each asked position what its own past makes of it', () => {
    // A query of nothing has no direction: its root mean square must not be 0.
    const weights = { ...averagingModel(), normEpsilon: 1e-12 }
    // After (1, 1) the state is (2, 2); after (1, 1) and (1, -1) it is (1, -1) with their mean (1, 0): (2, -1).
    const rms = Math.sqrt(5 / 2)
    const [first, second] = [
      [1, 1, 0],
      [2 / rms, -1 / rms, 0],
    ].map((logits) => logits.map((logit) => logit - Math.log(logits.reduce((sum, other) => sum + Math.exp(other), 0))))
    const found = openScorer(weights).score([0, 1, 2], [2, 1]).logprobs(1)
    expect(found[0]).toBeCloseTo(second![2]!, 9)
    expect(found[1]).toBeCloseTo(first![1]!, 9)
  })

  it('says the same of a sequence whatever it was asked before', () => {
    const weights = { ...averagingModel(), normEpsilon: 1e-12 }
    const scorer = openScorer(weights)
    const asked = [
      { ids: [0, 1, 0, 1], positions: [3] },
      { ids: [0, 1, 1, 0, 0], positions: [3, 4] },
      { ids: [0, 1, 1, 0, 0], positions: [1, 4] },
      { ids: [1, 0], positions: [1] },
    ]
    for (const { ids, positions } of asked) {
      expect(scorer.score(ids, positions).logprobs(0.7)).toEqual(openScorer(weights).score(ids, positions).logprobs(0.7))
    }
  })
})

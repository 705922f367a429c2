import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BrokenDistributionError } from '../../src/engine/embedded/llama-errors.ts'
import type { Sampling } from '../../src/engine/embedded/model.ts'
import { Distribution, isGreedy, isUntouched, seededUniforms } from '../../src/engine/embedded/sampler.ts'

const UNTOUCHED: Sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 1 }

function sorted(probabilities: readonly number[]): ReadonlyMap<number, number> {
  return new Map([...probabilities.entries()].sort((a, b) => b[1] - a[1]))
}

/** Written for the eye: temperature, min_p, top_k, top_p, each over the whole list, then what is left is made a distribution again. */
function oracle(probabilities: ReadonlyMap<number, number>, { temperature, topK, topP, minP }: Sampling): ReadonlyMap<number, number> {
  const normal = (entries: readonly (readonly [number, number])[]): [number, number][] => {
    const sum = entries.reduce((total, [, weight]) => total + weight, 0)
    return entries.map(([id, weight]) => [id, weight / sum])
  }
  let left = normal([...probabilities].filter(([, p]) => p > 0).map(([id, p]) => [id, Math.exp(Math.log(p) / temperature)]))
  const highest = left[0]?.[1] ?? 0
  left = normal(left.filter(([, p]) => p >= minP * highest))
  if (topK > 0) left = normal(left.filter(([, p]) => p >= (left[Math.min(topK, left.length) - 1]?.[1] ?? 0)))
  if (topP < 1) {
    let before = 0
    left = normal(
      left.filter(([, p], rank) => {
        const isKept = rank === 0 || before < topP
        before += p
        return isKept
      }),
    )
  }
  return new Map(left)
}

describe('a distribution that is drawn from', () => {
  const weights = fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 40 })
  // Away from the values at which rounding decides who is kept.
  const samplings = fc.record({
    temperature: fc.constantFrom(0.3, 0.7, 1, 1.7),
    topK: fc.constantFrom(0, 1, 3, 10, 100),
    topP: fc.constantFrom(1, 0.90001, 0.50003, 0.01),
    minP: fc.constantFrom(0, 0.03001, 0.30007, 1),
    seed: fc.constant(1),
  })

  it('keeps the tokens, and gives each the logprob, that the rules written out give it', () => {
    fc.assert(
      fc.property(weights, samplings, (whole, sampling) => {
        const sum = whole.reduce((total, each) => total + each, 0)
        const probabilities = sorted(whole.map((each) => each / sum))
        const distribution = new Distribution(whole.length)
        distribution.fill(probabilities, sampling)
        const kept = distribution.alternatives(whole.length, 'processed')
        const wanted = oracle(probabilities, sampling)
        expect(kept.map(({ id }) => id)).toEqual([...wanted.keys()])
        for (const { id, logprob } of kept) expect(Math.exp(logprob)).toBeCloseTo(wanted.get(id) ?? -1, 10)
        for (const [id, probability] of probabilities) {
          expect(distribution.logprobOf(id, 'raw')).toBeCloseTo(Math.log(probability), 10)
        }
      }),
    )
  })

  it('takes min_p before top_p, as vLLM does', () => {
    const distribution = new Distribution(4)
    distribution.fill(sorted([0.5, 0.3, 0.1, 0.1]), { ...UNTOUCHED, minP: 0.4, topP: 0.65 })
    // Of all, top_p would have to keep two tokens; of the two that min_p leaves, the first holds 0.625, and two are kept as well.
    expect(distribution.alternatives(4, 'processed').map(({ id }) => id)).toEqual([0, 1])
    distribution.fill(sorted([0.5, 0.3, 0.1, 0.1]), { ...UNTOUCHED, minP: 0.4, topP: 0.6 })
    expect(distribution.alternatives(4, 'processed').map(({ id }) => id)).toEqual([0])
  })

  it('keeps tokens as probable as the last of the top k', () => {
    const distribution = new Distribution(4)
    distribution.fill(sorted([0.4, 0.2, 0.2, 0.2]), { ...UNTOUCHED, topK: 2 })
    expect(distribution.alternatives(4, 'processed')).toHaveLength(4)
  })

  it('draws each token as often as its probability says', () => {
    const probabilities = sorted([0.55, 0.25, 0.15, 0.05])
    const sampling = { ...UNTOUCHED, temperature: 1.5 }
    const distribution = new Distribution(4)
    distribution.fill(probabilities, sampling)
    const next = seededUniforms(7)
    const draws = 20_000
    const counts = new Map<number, number>()
    for (let draw = 0; draw < draws; draw += 1) {
      const id = distribution.draw(next())
      counts.set(id, (counts.get(id) ?? 0) + 1)
    }
    for (const [id, p] of oracle(probabilities, sampling)) {
      // Four standard deviations.
      expect(Math.abs((counts.get(id) ?? 0) / draws - p)).toBeLessThan(4 * Math.sqrt((p * (1 - p)) / draws))
    }
  })

  it.each([0, 0.5, 1 - 2 ** -53])('draws a kept token at %d of the mass', (uniform) => {
    const distribution = new Distribution(3)
    distribution.fill(sorted([0.7, 0.2, 0.1]), { ...UNTOUCHED, topK: 2 })
    expect([0, 1]).toContain(distribution.draw(uniform))
  })

  it.each<[Partial<Sampling>]>([[{ topK: 1 }], [{ topP: 0.6 }], [{ minP: 0.5 }], [{ topP: 0 }], [{ minP: 2 }]])(
    'never draws what %j cuts away',
    (cut) => {
      const distribution = new Distribution(3)
      distribution.fill(sorted([0.1, 0.2, 0.7]), { ...UNTOUCHED, ...cut })
      expect([0, 0.5, 1 - 2 ** -53].map((uniform) => distribution.draw(uniform))).toEqual([2, 2, 2])
    },
  )

  it('never draws a token that float32 gives no probability, and shows none', () => {
    const distribution = new Distribution(3)
    distribution.fill(sorted([1, 0, 0]), { ...UNTOUCHED, temperature: 50 })
    expect(distribution.alternatives(3, 'raw')).toEqual([{ id: 0, logprob: 0 }])
    expect(distribution.draw(1 - 2 ** -53)).toBe(0)
  })

  it('draws the same token when two that are as good as equal change places', () => {
    const distribution = new Distribution(4)
    const draw = (probabilities: readonly number[]): readonly number[] => {
      distribution.fill(sorted(probabilities), { ...UNTOUCHED, temperature: 1.3 })
      return [0.1, 0.35, 0.6, 0.9].map((uniform) => distribution.draw(uniform))
    }
    expect(draw([0.25, 0.25 + 1e-9, 0.25, 0.25])).toEqual(draw([0.25 + 1e-9, 0.25, 0.25, 0.25 + 2e-9]))
  })

  it('forgets the position before', () => {
    const distribution = new Distribution(3)
    distribution.fill(sorted([0.2, 0.3, 0.5]), UNTOUCHED)
    distribution.fill(sorted([0.9, 0.1, 0]), UNTOUCHED)
    expect(distribution.alternatives(3, 'raw').map(({ id }) => id)).toEqual([0, 1])
  })

  it.each([[[Number.NaN, Number.NaN]], [[0, 0]], [[Number.POSITIVE_INFINITY, 1]]])('is refused as %j', (probabilities) => {
    const distribution = new Distribution(2)
    expect(() => distribution.fill(new Map(probabilities.entries()), UNTOUCHED)).toThrow(BrokenDistributionError)
  })
})

describe('chance under a seed', () => {
  it('gives the same numbers for the same seed, and others for another', () => {
    const take = (seed: number): readonly number[] => Array.from({ length: 5 }, seededUniforms(seed))
    expect(take(3)).toEqual(take(3))
    expect(take(3)).not.toEqual(take(4))
    expect(take(3)).not.toEqual(take(3 + 2 ** 32))
  })
})

describe('how a sampling is drawn', () => {
  it.each<[Partial<Sampling>, boolean, boolean]>([
    [{}, true, false],
    [{ topK: -1 }, true, false],
    [{ temperature: 0 }, false, true],
    [{ temperature: 0.9 }, false, false],
    [{ topK: 5 }, false, false],
    [{ topP: 0.99 }, false, false],
    [{ minP: 0.01 }, false, false],
  ])('%j: untouched %s, greedy %s', (change, untouched, greedy) => {
    expect([isUntouched({ ...UNTOUCHED, ...change }), isGreedy({ ...UNTOUCHED, ...change })]).toEqual([untouched, greedy])
  })
})

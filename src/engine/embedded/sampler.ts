// Draws the next token from a model's whole distribution, as vLLM does: temperature, min_p, top_k, top_p, then chance under a seed.
import { seededNumbers } from '../serve/seeded.ts'
import { BrokenDistributionError } from './llama-errors.ts'
import type { Sampling } from './model.ts'

/** Below this a temperature means greedy, and engines report logprobs as at temperature 1. */
const GREEDY_TEMPERATURE = 1e-5

export function isGreedy(sampling: Sampling): boolean {
  return sampling.temperature < GREEDY_TEMPERATURE
}

/** Whether the model's own distribution is drawn from as it is. */
export function isUntouched({ temperature, topK, topP, minP }: Sampling): boolean {
  return temperature === 1 && topK <= 0 && topP >= 1 && minP <= 0
}

/** Numbers in [0, 1) with all 53 bits of a double, so that tokens of small probability are drawn as often as they should be. */
export function seededUniforms(seed: number): () => number {
  const next = seededNumbers('sampler', seed)
  return () => (Math.floor(next() * 2 ** 27) * 2 ** 26 + Math.floor(next() * 2 ** 26)) / 2 ** 53
}

/**
 * One position: every token the model gives a probability, the most probable first, and which of them may be drawn. Its arrays are
 * filled anew at each position.
 */
export class Distribution {
  /** How many tokens have a probability, and how many of the first of them may be drawn. */
  #length = 0
  #kept = 0
  readonly #ids: Int32Array
  readonly #probabilities: Float64Array
  /** Relative to the first token's, after the temperature. */
  readonly #weights: Float64Array
  #probabilitySum = 0
  #weightSum = 0

  constructor(vocabularySize: number) {
    this.#ids = new Int32Array(vocabularySize)
    this.#probabilities = new Float64Array(vocabularySize)
    this.#weights = new Float64Array(vocabularySize)
  }

  /**
   * `probabilities`: the most probable first, at temperature 1 and of the whole vocabulary. Float32 has no number below 1e-45: a token
   * less probable than that is never drawn, whatever the temperature. Throws when the first one has none, as in broken weights.
   */
  fill(probabilities: ReadonlyMap<number, number>, sampling: Sampling): void {
    let length = 0
    let sum = 0
    for (const [id, probability] of probabilities) {
      if (!(probability > 0)) break
      this.#ids[length] = id
      this.#probabilities[length] = probability
      sum += probability
      length += 1
    }
    if (!Number.isFinite(sum) || length === 0) throw new BrokenDistributionError()
    this.#length = length
    this.#probabilitySum = sum
    this.#keep(sampling)
  }

  #keep({ temperature, topK, topP, minP }: Sampling): void {
    const [probabilities, weights] = [this.#probabilities, this.#weights]
    const highest = probabilities[0] ?? 0
    const power = temperature < GREEDY_TEMPERATURE ? 1 : 1 / temperature
    // Tokens as probable as the last of the top k stay with it.
    const rarest = topK > 0 && topK < this.#length ? (probabilities[topK - 1] ?? 0) : 0
    let kept = 0
    let sum = 0
    for (; kept < this.#length; kept += 1) {
      const probability = probabilities[kept] ?? 0
      const weight = (probability / highest) ** power
      // A weight too small for a double is as good as no candidate.
      if (probability < rarest || weight < minP || weight === 0) break
      weights[kept] = weight
      sum += weight
    }
    // The smallest set that holds at least this much, the first token always among them.
    if (topP < 1) {
      const wanted = topP * sum
      let held = 0
      let count = 0
      while (count === 0 || (count < kept && held < wanted)) {
        held += weights[count] ?? 0
        count += 1
      }
      kept = count
      sum = held
    }
    this.#kept = kept
    this.#weightSum = sum
  }

  /** The rank of the token that stands at `uniform` in [0, 1) of the kept tokens' mass. */
  rankAt(uniform: number): number {
    let left = uniform * this.#weightSum
    for (let rank = 0; rank < this.#kept; rank += 1) {
      left -= this.#weights[rank] ?? 0
      if (left < 0) return rank
    }
    // Rounding may leave a rest.
    return this.#kept - 1
  }

  idAt(rank: number): number {
    return this.#ids[rank] ?? 0
  }

  /** Finite and at most 0 for a token that may be drawn. */
  logprobAt(rank: number, mode: 'raw' | 'processed'): number {
    return mode === 'raw'
      ? Math.min(0, Math.log((this.#probabilities[rank] ?? 0) / this.#probabilitySum))
      : Math.min(0, Math.log((this.#weights[rank] ?? 0) / this.#weightSum))
  }

  /** The most probable ones, of those that could have been drawn when `processed`. */
  alternatives(count: number, mode: 'raw' | 'processed'): readonly { readonly id: number; readonly logprob: number }[] {
    const shown = Math.min(count, mode === 'raw' ? this.#length : this.#kept)
    return Array.from({ length: shown }, (_, rank) => ({ id: this.idAt(rank), logprob: this.logprobAt(rank, mode) }))
  }
}

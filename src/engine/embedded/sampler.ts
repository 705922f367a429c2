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

/** One position: every token the model gives a probability, and which of them may be drawn. Its arrays are filled anew at each position. */
export class Distribution {
  /** How many tokens have a probability, and how many of the first of them may be drawn. */
  #length = 0
  #kept = 0
  /** The most probable first. */
  readonly #ids: Int32Array
  /** By id. */
  readonly #probabilities: Float64Array
  /** By id, relative to the most probable one's, after the temperature; 0 for a token that may not be drawn. */
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
    this.#probabilities.fill(0)
    this.#weights.fill(0)
    let length = 0
    let sum = 0
    for (const [id, probability] of probabilities) {
      if (!(probability > 0)) break
      this.#ids[length] = id
      this.#probabilities[id] = probability
      sum += probability
      length += 1
    }
    if (!Number.isFinite(sum) || length === 0) throw new BrokenDistributionError()
    this.#length = length
    this.#probabilitySum = sum
    this.#keep(sampling)
  }

  #keep({ temperature, topK, topP, minP }: Sampling): void {
    const highest = this.#probabilityAt(0)
    const power = temperature < GREEDY_TEMPERATURE ? 1 : 1 / temperature
    // Tokens as probable as the last of the top k stay with it.
    const rarest = topK > 0 && topK < this.#length ? this.#probabilityAt(topK - 1) : 0
    let kept = 0
    let sum = 0
    for (; kept < this.#length; kept += 1) {
      const probability = this.#probabilityAt(kept)
      const weight = (probability / highest) ** power
      // A weight too small for a double is as good as no candidate. The first token is one, whatever min_p says.
      if (kept > 0 && (probability < rarest || weight < minP || weight === 0)) break
      this.#weights[this.#ids[kept] ?? 0] = weight
      sum += weight
    }
    this.#kept = kept
    this.#weightSum = sum
    if (topP < 1) this.#cutAt(topP * sum)
  }

  /** Keeps the smallest set that holds at least this much, the first token always in it. */
  #cutAt(wanted: number): void {
    let held = 0
    let kept = 0
    for (const id of this.#ids.subarray(0, this.#kept)) {
      if (kept > 0 && held >= wanted) {
        this.#weights[id] = 0
      } else {
        held += this.#weights[id] ?? 0
        kept += 1
      }
    }
    this.#kept = kept
    this.#weightSum = held
  }

  /**
   * The token that stands at `uniform` in [0, 1) of the mass of those that may be drawn. They stand in the order of their ids: in that of
   * their probabilities, two that are as good as equal would change places with the last bits of a logit.
   */
  draw(uniform: number): number {
    let left = uniform * this.#weightSum
    let last = 0
    for (let id = 0; id < this.#weights.length; id += 1) {
      const weight = this.#weights[id] ?? 0
      if (weight === 0) continue
      left -= weight
      if (left < 0) return id
      last = id
    }
    // Rounding may leave a rest.
    return last
  }

  /** Finite and at most 0 for a token that may be drawn. */
  logprobOf(id: number, mode: 'raw' | 'processed'): number {
    const [part, sum] = mode === 'raw' ? [this.#probabilities[id], this.#probabilitySum] : [this.#weights[id], this.#weightSum]
    return Math.min(0, Math.log((part ?? 0) / sum))
  }

  /** The most probable ones, of those that could have been drawn when `processed`. */
  alternatives(count: number, mode: 'raw' | 'processed'): readonly { readonly id: number; readonly logprob: number }[] {
    const shown = Math.min(count, mode === 'raw' ? this.#length : this.#kept)
    return Array.from(this.#ids.subarray(0, shown), (id) => ({ id, logprob: this.logprobOf(id, mode) }))
  }

  #probabilityAt(rank: number): number {
    return this.#probabilities[this.#ids[rank] ?? 0] ?? 0
  }
}

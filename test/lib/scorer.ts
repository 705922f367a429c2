// An independent second opinion on log probabilities: the forward pass of a Qwen3 transformer, written from the architecture alone.
import { attend, gated, type Heads, logProbability, type Matrix, multiply, normalise, rotate } from './scorer-operations.ts'

/** What an engine's logprobs may be off by, and importance ratios from 1. */
export const TOLERANCE = 1e-3

type Layer = {
  readonly attentionNorm: Float64Array
  readonly query: Matrix
  readonly key: Matrix
  readonly value: Matrix
  readonly queryNorm: Float64Array
  readonly keyNorm: Float64Array
  readonly attentionOutput: Matrix
  readonly feedForwardNorm: Float64Array
  readonly gate: Matrix
  readonly up: Matrix
  readonly down: Matrix
}

export type Weights = {
  readonly heads: Heads
  readonly ropeBase: number
  readonly normEpsilon: number
  /** One row per token. */
  readonly embedding: Matrix
  readonly layers: readonly Layer[]
  readonly outputNorm: Float64Array
  /** The embedding itself where the model ties them. */
  readonly head: Matrix
}

type Scored = {
  /** Natural log probability of the id at each asked position, given all ids before it. */
  logprobs(temperature: number): readonly number[]
}

export type Scorer = {
  /** `positions` name ids of `ids`, none of them the first one: nothing stands before that. */
  score(ids: readonly number[], positions: readonly number[]): Scored
}

/** What every layer holds of the positions it has read, one after the other. */
type Seen = { readonly ids: readonly number[]; readonly keys: readonly Float64Array[]; readonly values: readonly Float64Array[] }

const NOTHING: Seen = { ids: [], keys: [], values: [] }

/** Sequences that are asked one after the other and begin alike are read once as far as they do. */
export function openScorer(weights: Weights): Scorer {
  let seen: Seen = NOTHING
  return {
    score(ids, positions) {
      const read = ids.slice(0, Math.max(...positions))
      const parted = seen.ids.findIndex((id, at) => id !== read[at])
      // The states that are looked at are those right before the asked positions.
      const kept = Math.min(parted === -1 ? seen.ids.length : parted, Math.min(...positions) - 1)
      const { states, ...now } = run(weights, seen, read, kept)
      seen = now
      const width = weights.embedding.columns
      const wanted = new Float64Array(positions.length * width)
      for (const [at, position] of positions.entries()) {
        const from = (position - 1 - kept) * width
        wanted.set(states.subarray(from, from + width), at * width)
      }
      const logits = multiply(normalise(wanted, weights.outputNorm, weights.normEpsilon), weights.head)
      const size = weights.head.rows
      return {
        logprobs: (temperature) =>
          positions.map((position, at) => logProbability(logits.subarray(at * size, (at + 1) * size), ids[position]!, temperature)),
      }
    },
  }
}

/** What the last layer makes of every position from `kept` on, and what all layers then hold. */
function run(weights: Weights, before: Seen, ids: readonly number[], kept: number): Seen & { readonly states: Float64Array } {
  const { heads, ropeBase, normEpsilon, embedding } = weights
  const width = embedding.columns
  const keyWidth = heads.keyValues * heads.size
  const states = new Float64Array((ids.length - kept) * width)
  for (const [at, id] of ids.slice(kept).entries()) states.set(embedding.values.subarray(id * width, (id + 1) * width), at * width)
  const [keys, values]: [Float64Array[], Float64Array[]] = [[], []]
  for (const [at, layer] of weights.layers.entries()) {
    const input = normalise(states, layer.attentionNorm, normEpsilon)
    const queries = normalise(multiply(input, layer.query), layer.queryNorm, normEpsilon)
    const ownKeys = normalise(multiply(input, layer.key), layer.keyNorm, normEpsilon)
    rotate(queries, heads.queries, heads.size, ropeBase, kept)
    rotate(ownKeys, heads.keyValues, heads.size, ropeBase, kept)
    const layerKeys = joined(before.keys[at]?.subarray(0, kept * keyWidth), ownKeys)
    const layerValues = joined(before.values[at]?.subarray(0, kept * keyWidth), multiply(input, layer.value))
    keys.push(layerKeys)
    values.push(layerValues)
    add(states, multiply(attend(queries, layerKeys, layerValues, heads), layer.attentionOutput))
    const read = normalise(states, layer.feedForwardNorm, normEpsilon)
    add(states, multiply(gated(multiply(read, layer.gate), multiply(read, layer.up)), layer.down))
  }
  return { states, ids, keys, values }
}

function joined(first: Float64Array | undefined, second: Float64Array): Float64Array {
  if (first === undefined) return second
  const whole = new Float64Array(first.length + second.length)
  whole.set(first)
  whole.set(second, first.length)
  return whole
}

function add(states: Float64Array, change: Float64Array): void {
  for (let at = 0; at < states.length; at++) states[at] = states[at]! + change[at]!
}

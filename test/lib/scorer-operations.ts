// The arithmetic of a transformer, in plain loops and double precision: many rows at a time, each a run of one array.

/** `values[row * columns + column]`; it takes vectors of `columns` numbers to vectors of `rows` numbers. */
export type Matrix = { readonly rows: number; readonly columns: number; readonly values: Float64Array }

/** Rows worked on together, so that a weight that was read is used for all of them. */
const BLOCK = 4

/** `input` holds vectors of `matrix.columns` numbers, one after the other; the products stand alike. */
export function multiply(input: Float64Array, matrix: Matrix): Float64Array {
  const { rows, columns, values } = matrix
  const count = input.length / columns
  const output = new Float64Array(count * rows)
  const whole = count - (count % BLOCK)
  for (let at = 0; at < whole; at += BLOCK) {
    const [a, b, c, d] = [at * columns, (at + 1) * columns, (at + 2) * columns, (at + 3) * columns]
    for (let row = 0; row < rows; row++) {
      const weights = row * columns
      let [sumA, sumB, sumC, sumD] = [0, 0, 0, 0]
      for (let column = 0; column < columns; column++) {
        const weight = values[weights + column]!
        sumA += weight * input[a + column]!
        sumB += weight * input[b + column]!
        sumC += weight * input[c + column]!
        sumD += weight * input[d + column]!
      }
      output[at * rows + row] = sumA
      output[(at + 1) * rows + row] = sumB
      output[(at + 2) * rows + row] = sumC
      output[(at + 3) * rows + row] = sumD
    }
  }
  for (let at = whole; at < count; at++) {
    for (let row = 0; row < rows; row++) output[at * rows + row] = dot(input, at * columns, values, row * columns, columns)
  }
  return output
}

function dot(one: Float64Array, oneFrom: number, other: Float64Array, otherFrom: number, length: number): number {
  let [sumA, sumB] = [0, 0]
  let at = 0
  // Two sums, so that no addition waits for the one before it.
  for (; at + 1 < length; at += 2) {
    sumA += one[oneFrom + at]! * other[otherFrom + at]!
    sumB += one[oneFrom + at + 1]! * other[otherFrom + at + 1]!
  }
  if (at < length) sumA += one[oneFrom + at]! * other[otherFrom + at]!
  return sumA + sumB
}

/** Divides every run of `gain.length` numbers by its root mean square, and scales it by `gain`. */
export function normalise(input: Float64Array, gain: Float64Array, epsilon: number): Float64Array {
  const width = gain.length
  const output = new Float64Array(input.length)
  for (let from = 0; from < input.length; from += width) {
    const scale = 1 / Math.sqrt(dot(input, from, input, from, width) / width + epsilon)
    for (let at = 0; at < width; at++) output[from + at] = input[from + at]! * scale * gain[at]!
  }
  return output
}

/**
 * Rotary position embedding as GPT-NeoX has it, in place: number i of a head and number i + half of it are a point, which is turned by
 * the position times base^(-2i / headSize). `heads` vectors make one position, of which the first is `from`.
 *
 * Angles are of float32, as trainers have them: far into a context their last digit is 1e-4, which a model that is sure of itself turns
 * into as much of a logprob.
 */
export function rotate(vectors: Float64Array, heads: number, headSize: number, base: number, from: number): void {
  const half = headSize / 2
  const width = heads * headSize
  const frequencies = Float32Array.from({ length: half }, (_, at) => base ** ((-2 * at) / headSize))
  for (let at = 0; at * width < vectors.length; at++) {
    for (let pair = 0; pair < half; pair++) {
      const angle = Math.fround((from + at) * frequencies[pair]!)
      const [cosine, sine] = [Math.cos(angle), Math.sin(angle)]
      for (let head = 0; head < heads; head++) {
        const first = at * width + head * headSize + pair
        const [x, y] = [vectors[first]!, vectors[first + half]!]
        vectors[first] = x * cosine - y * sine
        vectors[first + half] = x * sine + y * cosine
      }
    }
  }
}

export type Heads = { readonly queries: number; readonly keyValues: number; readonly size: number }

/**
 * Every query looks at its own position and at those before it; the queries are those of the last positions. Query heads share a key head
 * where there are fewer of those.
 */
export function attend(queries: Float64Array, keys: Float64Array, values: Float64Array, heads: Heads): Float64Array {
  const { size } = heads
  const [queryWidth, keyWidth] = [heads.queries * size, heads.keyValues * size]
  const count = queries.length / queryWidth
  const before = keys.length / keyWidth - count
  const output = new Float64Array(queries.length)
  const scale = 1 / Math.sqrt(size)
  const weights = new Float64Array(before + count)
  for (let head = 0; head < heads.queries; head++) {
    const keyHead = Math.floor((head * heads.keyValues) / heads.queries) * size
    for (let at = 0; at < count; at++) {
      const query = at * queryWidth + head * size
      let highest = -Infinity
      for (let seen = 0; seen <= before + at; seen++) {
        const score = scale * dot(queries, query, keys, seen * keyWidth + keyHead, size)
        weights[seen] = score
        if (score > highest) highest = score
      }
      let sum = 0
      for (let seen = 0; seen <= before + at; seen++) {
        const weight = Math.exp(weights[seen]! - highest)
        const value = seen * keyWidth + keyHead
        sum += weight
        for (let part = 0; part < size; part++) output[query + part] = output[query + part]! + weight * values[value + part]!
      }
      for (let part = 0; part < size; part++) output[query + part] = output[query + part]! / sum
    }
  }
  return output
}

/** SwiGLU: the gate through SiLU, times what it lets pass. */
export function gated(gate: Float64Array, passed: Float64Array): Float64Array {
  return gate.map((value, at) => (value / (1 + Math.exp(-value))) * passed[at]!)
}

/** Natural logarithm of what softmax gives `logits[chosen]` at a temperature. */
export function logProbability(logits: Float64Array, chosen: number, temperature: number): number {
  let highest = -Infinity
  for (const logit of logits) if (logit > highest) highest = logit
  let sum = 0
  for (const logit of logits) sum += Math.exp((logit - highest) / temperature)
  return (logits[chosen]! - highest) / temperature - Math.log(sum)
}

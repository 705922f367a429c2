// Training data: sequences of ids, each with the weight of having it predicted, in memory and as the file the trainer maps.

export type Sequence = {
  readonly ids: readonly number[]
  /** One per id: 0 for what was only read; 1 to learn it; an advantage where there is one, also below 0. */
  readonly weights: readonly number[]
}

/** A part of a conversation's text: all of it sampled, or none. */
export type Span = { readonly text: string; readonly weight: number }

/**
 * Spans are encoded alone, as an engine does: it reads a prompt and goes on in tokens of its own. The ids are those of the whole text as
 * long as nothing merges where two spans meet, which is at special tokens and where a line ends and a word begins.
 */
export function encodeSpans(spans: readonly Span[], encode: (text: string) => readonly number[]): Sequence {
  const ids: number[] = []
  const weights: number[] = []
  for (const span of spans) {
    for (const id of encode(span.text)) {
      ids.push(id)
      weights.push(span.weight)
    }
  }
  return { ids, weights }
}

/** Little-endian int32 and float32: the number of sequences; then of each its length, its ids, its weights. */
export function packSequences(sequences: readonly Sequence[]): Uint8Array {
  const words = sequences.reduce((sum, { ids }) => sum + 1 + 2 * ids.length, 1)
  const buffer = new ArrayBuffer(4 * words)
  const integers = new Int32Array(buffer)
  const floats = new Float32Array(buffer)
  integers[0] = sequences.length
  let at = 1
  for (const { ids, weights } of sequences) {
    if (ids.length !== weights.length) throw new Error(`${ids.length} ids, ${weights.length} weights`)
    integers[at] = ids.length
    integers.set(ids, at + 1)
    floats.set(weights, at + 1 + ids.length)
    at += 1 + 2 * ids.length
  }
  return new Uint8Array(buffer)
}

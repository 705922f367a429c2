// One fixed piece of shared token memory: its layout, how its single writer publishes into a block and recycles it.
import type { Segment } from './reference.ts'

// Layout in Int32 words: MAGIC, slab tokens, block tokens, 0; one epoch per block; one published length per block; then, on a cache
// line of its own, the tokens. Ids and logprobs are both one word, so either may stand anywhere. A slab never grows: views that
// track a growable buffer's length are about a hundred times slower.
const MAGIC = 0x504c5231
const HEADER_WORDS = 4
const LINE_WORDS = 16
const WORD_BYTES = Int32Array.BYTES_PER_ELEMENT
const FIRST_EPOCH = 1

export type SlabShape = { readonly slabTokens: number; readonly blockTokens: number }

/** Views over one shared buffer. They never leave this folder: a posted view would share the whole buffer and hide who owns it. */
export type Slab = {
  readonly id: number
  readonly buffer: SharedArrayBuffer
  readonly blockTokens: number
  /** Bumped whenever a block is recycled; a segment is valid while its epoch is the block's. */
  readonly epochs: Int32Array
  /** Tokens of each block that may be read. */
  readonly published: Int32Array
  readonly ids: Int32Array
  /** The same words as `ids`. */
  readonly logprobs: Float32Array
}

/** A new slab with every block empty, or null when the host has no memory for it. */
export function createSlab(id: number, shape: SlabShape): Slab | null {
  const blocks = shape.slabTokens / shape.blockTokens
  const buffer = allocate((dataStart(blocks) + shape.slabTokens) * WORD_BYTES)
  if (buffer === null) return null
  const header = new Int32Array(buffer, 0, HEADER_WORDS + blocks)
  header.set([MAGIC, shape.slabTokens, shape.blockTokens])
  header.fill(FIRST_EPOCH, HEADER_WORDS)
  return attachSlab(id, buffer)
}

/** Views over a slab that another thread made. */
export function attachSlab(id: number, buffer: SharedArrayBuffer): Slab {
  const [magic, slabTokens = 0, blockTokens = 0] = new Int32Array(buffer, 0, HEADER_WORDS)
  if (magic !== MAGIC) throw new TypeError(`slab ${id} does not begin with a token slab's header`)
  const blocks = slabTokens / blockTokens
  const data = dataStart(blocks) * WORD_BYTES
  return {
    id,
    buffer,
    blockTokens,
    epochs: new Int32Array(buffer, HEADER_WORDS * WORD_BYTES, blocks),
    published: new Int32Array(buffer, (HEADER_WORDS + blocks) * WORD_BYTES, blocks),
    ids: new Int32Array(buffer, data, slabTokens),
    logprobs: new Float32Array(buffer, data, slabTokens),
  }
}

/** Writes token ids behind the `used` tokens of a block and publishes them. They must fit in the block. */
export function appendIds(slab: Slab, block: number, used: number, source: Int32Array): Segment {
  const segment = segmentAt(slab, block, used, source.length)
  slab.ids.set(source, segment.offset)
  Atomics.store(slab.published, block, used + source.length)
  return segment
}

/** As `appendIds`, for logprobs. */
export function appendLogprobs(slab: Slab, block: number, used: number, source: Float32Array): Segment {
  const segment = segmentAt(slab, block, used, source.length)
  slab.logprobs.set(source, segment.offset)
  Atomics.store(slab.published, block, used + source.length)
  return segment
}

/** Invalidates every segment of a block. The epoch goes first, so that no reader finds new tokens under an old epoch. */
export function recycleBlock(slab: Slab, block: number): void {
  Atomics.add(slab.epochs, block, 1)
  Atomics.store(slab.published, block, 0)
}

// Loading the epoch before the tokens are written also orders those plain writes behind the recycling that came before.
function segmentAt(slab: Slab, block: number, used: number, length: number): Segment {
  const epoch = Atomics.load(slab.epochs, block)
  if (used + length > slab.blockTokens) throw new RangeError(`${length} tokens do not fit behind ${used} in a block of ${slab.blockTokens}`)
  return { slab: slab.id, offset: block * slab.blockTokens + used, length, epoch }
}

function dataStart(blocks: number): number {
  return Math.ceil((HEADER_WORDS + 2 * blocks) / LINE_WORDS) * LINE_WORDS
}

function allocate(bytes: number): SharedArrayBuffer | null {
  try {
    return new SharedArrayBuffer(bytes)
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

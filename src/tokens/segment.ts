// Copying published segments out of shared memory, with proof that they were not recycled meanwhile.
import { StaleSegmentError } from './errors.ts'
import type { Segment } from './reference.ts'
import type { Slab } from './slab.ts'

type SlabOf = (id: number) => Slab

/** Copies segments one behind the other into ordinary memory, from `at`. Throws `stale-segment` when any was recycled. */
export function copyIds(slabOf: SlabOf, segments: readonly Segment[], into: Int32Array, at: number): void {
  let position = at
  for (const segment of segments) {
    const slab = slabOf(segment.slab)
    copyChecked(slab, slab.ids, segment, into, position)
    position += segment.length
  }
}

/** As `copyIds`, for logprobs. */
export function copyLogprobs(slabOf: SlabOf, segments: readonly Segment[], into: Float32Array, at: number): void {
  let position = at
  for (const segment of segments) {
    const slab = slabOf(segment.slab)
    copyChecked(slab, slab.logprobs, segment, into, position)
    position += segment.length
  }
}

// The reader's half of a seqlock. `subarray` and `set`, never `slice`: slicing a shared view is some seventy times slower.
function copyChecked<Words extends Int32Array | Float32Array>(slab: Slab, words: Words, segment: Segment, into: Words, at: number): void {
  const block = Math.floor(segment.offset / slab.blockTokens)
  const end = segment.offset - block * slab.blockTokens + segment.length
  if (Atomics.load(slab.epochs, block) !== segment.epoch || Atomics.load(slab.published, block) < end) throw stale(segment)
  into.set(words.subarray(segment.offset, segment.offset + segment.length), at)
  // Adding nothing instead of loading: a load would not keep the plain reads above from being satisfied after it.
  if (Atomics.add(slab.epochs, block, 0) !== segment.epoch) throw stale(segment)
}

function stale(segment: Segment): StaleSegmentError {
  return new StaleSegmentError(`tokens ${segment.offset}..${segment.offset + segment.length} of slab ${segment.slab} were recycled`)
}

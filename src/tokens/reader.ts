// Reads leased calls on any thread: lays their tokens out in ordinary memory, whole prompts again.
import type { CallTokens, SlabReference } from './reference.ts'
import { copyIds, copyLogprobs } from './segment.ts'
import { openSlabCache } from './slab-cache.ts'

export type ReadCall = { readonly promptIds: Int32Array; readonly sampledIds: Int32Array; readonly logprobs: Float32Array | null }

/** Kept for the thread's life: piscina workers see the same few slabs again and again. */
const cache = openSlabCache(64)

/**
 * The calls of a reference, in order, in memory that is not shared between threads. Throws `stale-segment` when the lease was released
 * and a block recycled, before or while reading. Calls that extend one another are views of one array, so a long session takes about the
 * room of its last call: treat the arrays as read-only, and mind `byteOffset` when reaching for a `buffer`. `logprobs` is null when
 * the engine's were unusable; a call that sampled nothing lacks none.
 */
export function readCalls(reference: SlabReference): ReadCall[] {
  const slabs = new Map(reference.slabs.map((entry) => [entry.id, cache.attach(entry)]))
  const slabOf = (id: number) => {
    const slab = slabs.get(id)
    if (slab === undefined) throw new Error(`lease ${reference.lease} does not carry slab ${id}`)
    return slab
  }

  const layout = layOut(reference.calls)
  const sequences: Int32Array[] = []
  return reference.calls.map((call, index) => {
    const { chainLength = 0, continues = false } = layout[index] ?? {}
    const parent = sequences[call.parent]
    const sequence = continues && parent !== undefined ? parent : new Int32Array(chainLength)
    if (sequence !== parent && parent !== undefined) sequence.set(parent.subarray(0, call.shared))
    sequences.push(sequence)

    copyIds(slabOf, call.suffix, sequence, call.shared)
    copyIds(slabOf, call.sampled, sequence, call.promptLength)
    let logprobs: Float32Array | null = null
    if (call.logprobs.length > 0 || call.sampledLength === 0) {
      logprobs = new Float32Array(call.sampledLength)
      copyLogprobs(slabOf, call.logprobs, logprobs, 0)
    }
    return {
      promptIds: sequence.subarray(0, call.promptLength),
      sampledIds: sequence.subarray(call.promptLength, call.promptLength + call.sampledLength),
      logprobs,
    }
  })
}

type Place = {
  /** The room for this call and all that continue it. */
  readonly chainLength: number
  /** True when the call stands in its parent's array, behind the parent. */
  readonly continues: boolean
}

/** Decides which call continues its parent's array: the first of those that extend the parent's whole sequence. */
function layOut(calls: readonly CallTokens[]): readonly Place[] {
  const lengths = calls.map((call) => call.promptLength + call.sampledLength)
  const chains = [...lengths]
  const heirs = new Map<number, number>()
  // Children follow their parents, so going backwards every chain is complete before it is handed up.
  for (const [index, call] of [...calls.entries()].reverse()) {
    const chain = chains[index] ?? 0
    if (call.parent < 0 || call.shared !== lengths[call.parent]) continue
    chains[call.parent] = chain
    heirs.set(call.parent, index)
  }
  return calls.map((call, index) => ({ chainLength: chains[index] ?? 0, continues: heirs.get(call.parent) === index }))
}

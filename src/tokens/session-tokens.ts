// One session's calls in token memory: each stored as what its prompt adds to the longest prefix the session already holds.
import type { Block, BlockPool } from './block-pool.ts'
import { ClosedSessionError, UnknownLeaseError } from './errors.ts'
import { commonPrefix } from './prefix.ts'
import type { CallTokens, Segment, SlabReference } from './reference.ts'
import type { openIdScratch, openLogprobScratch } from './scratch.ts'
import { copyIds, copyLogprobs } from './segment.ts'
import { appendIds, appendLogprobs } from './slab.ts'

/** A call's tokens as the engine reported them. `logprobs` is null when they were unusable, else one per sampled id. */
type NewCall = {
  readonly promptIds: Int32Array | readonly number[]
  readonly sampledIds: Int32Array | readonly number[]
  readonly logprobs: Float32Array | readonly number[] | null
}

type Appended =
  | { readonly ok: true; readonly tokens: CallTokens; readonly index: number }
  | { readonly ok: false; readonly error: 'arena-full' }

export type SessionTokens = {
  /** Stores one call, or nothing at all; a call without tokens needs no room. Throws on logprobs that do not match the sampled ids and on ids that are no int32. */
  append(call: NewCall): Appended
  /** Reads into the beginning of `into`, which must be long enough, or into a new array. Throws on an index never appended. */
  readPrompt(index: number, into?: Int32Array): Int32Array
  readSampled(index: number, into?: Int32Array): Int32Array
  /** Null when the engine's were unusable; a call that sampled nothing lacks none. */
  readLogprobs(index: number, into?: Float32Array): Float32Array | null
  /** The calls so far, readable on any thread of this process until `release`. */
  lease(): SlabReference
  /** Throws `unknown-lease` when the reference was released before or is another session's. */
  release(reference: SlabReference): void
  /** Frees the session's blocks, at once or with its last lease. Idempotent; nothing but `release` may follow. */
  close(): void
}

/** What the sessions of one arena have in common. */
export type SessionHost = {
  readonly pool: BlockPool
  /** A session that would have more is told that the arena is full. */
  readonly maxSessionBlocks: number
  readonly nextLease: () => number
  readonly promptScratch: ReturnType<typeof openIdScratch>
  readonly sampledScratch: ReturnType<typeof openIdScratch>
  readonly logprobScratch: ReturnType<typeof openLogprobScratch>
}

export function openSessionTokens(host: SessionHost): SessionTokens {
  const { pool } = host
  const calls: CallTokens[] = []
  /** Filled one behind the other: word `filled` lies in block `filled / blockTokens`. */
  const blocks: Block[] = []
  let filled = 0
  const leases = new Set<number>()
  let isClosed = false
  /** By call: how much of the prompt being appended its sequence shares. Kept to allocate nothing per append. */
  const common: number[] = []

  function assertOpen(): void {
    if (isClosed) throw new ClosedSessionError('these tokens belong to a session that was closed')
  }

  function callAt(index: number): CallTokens {
    assertOpen()
    const call = calls[index]
    if (call === undefined) throw new RangeError(`call ${index} was never appended; the session has ${calls.length}`)
    return call
  }

  // A sequence is its parent's up to `shared`, so the parent's answer settles most comparisons: each stored token is compared at most
  // once, and a branch the prompt left earlier costs one look. On a tie the newest call wins.
  function longestKnownPrefix(prompt: Int32Array): { readonly parent: number; readonly shared: number } {
    let parent = -1
    let shared = 0
    for (const [index, call] of calls.entries()) {
      const inherited = call.parent < 0 ? 0 : (common[call.parent] ?? 0)
      const length = inherited < call.shared ? inherited : countOwn(call, prompt)
      common[index] = length
      if (length > 0 && length >= shared) {
        parent = index
        shared = length
      }
    }
    return { parent, shared }
  }

  /** How far the prompt follows a call's sequence, given that it follows the inherited part. */
  function countOwn(call: CallTokens, prompt: Int32Array): number {
    let position = call.shared
    for (const segments of [call.suffix, call.sampled]) {
      for (const segment of segments) {
        const length = Math.min(segment.length, prompt.length - position)
        const same = commonPrefix(pool.slab(segment.slab).ids, segment.offset, prompt, position, length)
        position += same
        if (same < segment.length) return position
      }
    }
    return position
  }

  /** Writes into blocks that were claimed before, so it cannot fail halfway. One segment never crosses a block: it has one epoch. */
  function store<Words extends Int32Array | Float32Array>(
    source: Words,
    write: (block: Block, used: number, piece: Words) => Segment,
  ): readonly Segment[] {
    const segments: Segment[] = []
    let from = 0
    while (from < source.length) {
      const block = blocks[Math.floor(filled / pool.blockTokens)]
      if (block === undefined) throw new Error('a call needed more blocks than were claimed for it')
      const used = filled % pool.blockTokens
      const length = Math.min(source.length - from, pool.blockTokens - used)
      // `subarray` of a Words is a Words again; the type of the standard library only says so per class.
      segments.push(write(block, used, source.subarray(from, from + length) as Words))
      filled += length
      from += length
    }
    return segments
  }

  const storeIds = (ids: Int32Array) => store(ids, (block, used, piece) => appendIds(block.slab, block.index, used, piece))
  const storeLogprobs = (logprobs: Float32Array) =>
    store(logprobs, (block, used, piece) => appendLogprobs(block.slab, block.index, used, piece))

  function freeBlocks(): void {
    pool.free(blocks)
    blocks.length = 0
  }

  return {
    append(call) {
      assertOpen()
      const prompt = host.promptScratch(call.promptIds)
      const sampled = host.sampledScratch(call.sampledIds)
      const logprobs = call.logprobs === null ? null : host.logprobScratch(call.logprobs)
      if (logprobs !== null && logprobs.length !== sampled.length) {
        throw new RangeError(`${logprobs.length} logprobs do not belong to ${sampled.length} sampled tokens`)
      }
      if (pool.isClosed()) return { ok: false, error: 'arena-full' }

      const { parent, shared } = longestKnownPrefix(prompt)
      const words = prompt.length - shared + sampled.length + (logprobs?.length ?? 0)
      const needed = Math.ceil((filled + words) / pool.blockTokens)
      const claimed = needed > host.maxSessionBlocks ? null : pool.claim(needed - blocks.length)
      if (claimed === null) return { ok: false, error: 'arena-full' }
      blocks.push(...claimed)

      const tokens: CallTokens = {
        parent,
        shared,
        suffix: storeIds(prompt.subarray(shared)),
        promptLength: prompt.length,
        sampled: storeIds(sampled),
        sampledLength: sampled.length,
        logprobs: logprobs === null ? [] : storeLogprobs(logprobs),
      }
      calls.push(tokens)
      return { ok: true, tokens, index: calls.length - 1 }
    },

    readPrompt(index, into) {
      const { promptLength } = callAt(index)
      const ids = into?.subarray(0, promptLength) ?? new Int32Array(promptLength)
      // From the end: what a call shares is in turn the beginning of its parent's sequence.
      let end = promptLength
      let at = index
      while (end > 0) {
        const call = callAt(at)
        copyIds(pool.slab, clip(call.suffix, end - call.shared), ids, call.shared)
        copyIds(pool.slab, clip(call.sampled, end - call.promptLength), ids, call.promptLength)
        end = Math.min(end, call.shared)
        at = call.parent
      }
      return ids
    },

    readSampled(index, into) {
      const call = callAt(index)
      const ids = into?.subarray(0, call.sampledLength) ?? new Int32Array(call.sampledLength)
      copyIds(pool.slab, call.sampled, ids, 0)
      return ids
    },

    readLogprobs(index, into) {
      const call = callAt(index)
      if (call.logprobs.length === 0 && call.sampledLength > 0) return null
      const logprobs = into?.subarray(0, call.sampledLength) ?? new Float32Array(call.sampledLength)
      copyLogprobs(pool.slab, call.logprobs, logprobs, 0)
      return logprobs
    },

    lease() {
      assertOpen()
      const lease = host.nextLease()
      leases.add(lease)
      const buffers = new Map(blocks.map((block) => [block.slab.id, block.slab.buffer]))
      return { lease, slabs: [...buffers].map(([id, buffer]) => ({ id, buffer })), calls: [...calls] }
    },

    release(reference) {
      if (!leases.delete(reference.lease)) throw new UnknownLeaseError(`lease ${reference.lease} is not one this session waits for`)
      if (isClosed && leases.size === 0) freeBlocks()
    },

    close() {
      isClosed = true
      if (leases.size === 0) freeBlocks()
    },
  }
}

/** The segments that cover the first `length` tokens. */
function clip(segments: readonly Segment[], length: number): readonly Segment[] {
  const clipped: Segment[] = []
  let left = length
  for (const segment of segments) {
    if (left <= 0) break
    clipped.push(segment.length <= left ? segment : { ...segment, length: left })
    left -= segment.length
  }
  return clipped
}

// The blocks of one thread's slabs: which are free, how many are leased, and when that becomes pressure.
import { threadId } from 'node:worker_threads'
import type { ArenaStats } from './arena.ts'
import { createSlab, recycleBlock, type Slab, type SlabShape } from './slab.ts'

export type Block = { readonly slab: Slab; readonly index: number }

export type BlockPoolOptions = SlabShape & {
  readonly maxSlabs: number
  readonly pressureAt: number
  readonly onPressure: (high: boolean) => void
}

export type BlockPool = {
  readonly blockTokens: number
  /** All of `count` blocks or, when they are not to be had, null and no change. */
  claim(count: number): readonly Block[] | null
  /** Recycles blocks; every handle into them is stale from here on. */
  free(blocks: readonly Block[]): void
  slab(id: number): Slab
  stats(): ArenaStats
  /** Then nothing may be claimed or looked up any more. */
  isClosed(): boolean
  /** Recycles every block and lets go of the slabs. Idempotent. */
  close(): void
}

/** Pressure ends only well below where it begins, and only with a session's end, so that one on the edge does not make READY flap. */
const EASED_SHARE = 7 / 8

/** Slabs of one thread are counted here and never share an id within the process, so a reader's cache cannot mistake one for another. */
const IDS_PER_THREAD = 2 ** 32
let slabsMade = 0

export function openBlockPool(options: BlockPoolOptions): BlockPool {
  const { slabTokens, blockTokens, maxSlabs, pressureAt, onPressure } = options
  const blocksPerSlab = slabTokens / blockTokens
  const capacity = maxSlabs * blocksPerSlab
  // Whole blocks: shares compared as fractions would be off by one block at the edges.
  const highFrom = Math.max(1, Math.round(pressureAt * capacity))
  const easedBelow = Math.max(1, Math.floor(highFrom * EASED_SHARE))
  const slabs = new Map<number, Slab>()
  // A stack: the block freed last is claimed first, while it is warm.
  const freeBlocks: Block[] = []
  let leased = 0
  let isHigh = false
  let isClosed = false

  function grow(): boolean {
    const slab = createSlab(threadId * IDS_PER_THREAD + slabsMade, options)
    if (slab === null) return false
    slabsMade++
    slabs.set(slab.id, slab)
    for (let index = blocksPerSlab - 1; index >= 0; index--) freeBlocks.push({ slab, index })
    return true
  }

  function signal(high: boolean): void {
    if (high === isHigh) return
    isHigh = high
    onPressure(high)
  }

  return {
    blockTokens,
    claim(count) {
      // Within the capacity there is always a slab left to make while blocks are missing.
      const isPossible = leased + count <= capacity
      while (isPossible && freeBlocks.length < count && grow());
      if (freeBlocks.length < count) {
        // A refusal is pressure whatever the share: more sessions would only be refused too.
        signal(true)
        return null
      }
      const claimed = count === 0 ? [] : freeBlocks.splice(-count).reverse()
      leased += count
      if (leased >= highFrom) signal(true)
      return claimed
    },
    free(blocks) {
      if (isClosed) return
      for (const block of blocks) {
        recycleBlock(block.slab, block.index)
        freeBlocks.push(block)
      }
      leased -= blocks.length
      if (leased < easedBelow) signal(false)
    },
    slab(id) {
      const slab = slabs.get(id)
      if (slab === undefined) throw new Error(`slab ${id} is not of this arena, or the arena was closed`)
      return slab
    },
    stats: () => ({
      allocatedBlocks: slabs.size * blocksPerSlab,
      freeBlocks: freeBlocks.length,
      leasedBlocks: leased,
      pressure: isHigh,
    }),
    isClosed: () => isClosed,
    close() {
      if (isClosed) return
      isClosed = true
      for (const slab of slabs.values()) {
        for (let index = 0; index < blocksPerSlab; index++) recycleBlock(slab, index)
      }
      slabs.clear()
      freeBlocks.length = 0
      leased = 0
    },
  }
}

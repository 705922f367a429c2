// The slabs a reading thread has attached, so that a task does not make views anew for every reference.
import type { SlabReference } from './reference.ts'
import { attachSlab, type Slab } from './slab.ts'

export type SlabCache = {
  attach(entry: SlabReference['slabs'][number]): Slab
  size(): number
}

/** Keeps the `limit` slabs used last. A slab's id is unique within the process, so an entry is never out of date. */
export function openSlabCache(limit: number): SlabCache {
  const slabs = new Map<number, Slab>()
  return {
    attach({ id, buffer }) {
      const slab = slabs.get(id) ?? attachSlab(id, buffer)
      // A Map iterates in order of insertion: putting the slab in anew makes the first one the one unused for longest.
      slabs.delete(id)
      slabs.set(id, slab)
      for (const oldest of slabs.keys()) {
        if (slabs.size <= limit) break
        slabs.delete(oldest)
      }
      return slab
    },
    size: () => slabs.size,
  }
}

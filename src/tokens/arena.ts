// One thread's token memory: opens sessions on it, answers how full it is, and gives it all back at the end.
import { openBlockPool } from './block-pool.ts'
import { openIdScratch, openLogprobScratch } from './scratch.ts'
import { openSessionTokens, type SessionTokens } from './session-tokens.ts'

export type ArenaOptions = {
  /** Tokens in one slab; 4 MiB of them unless told otherwise. A multiple of `blockTokens`. */
  readonly slabTokens?: number
  /** What a session takes at a time, so half of it is what a session wastes on average. */
  readonly blockTokens?: number
  /** The bound on the arena's memory. Slabs are made when first needed and kept until `close`. */
  readonly maxSlabs: number
  /** The part of it that one session may take, all of it unless told otherwise. A session that has its part is no pressure. */
  readonly sessionShare?: number
  /** The leased share of all blocks at which pressure begins. It ends with a session, once an eighth less is leased. */
  readonly pressureAt?: number
  /** Told on every change. A refused append is pressure too. Must not throw. */
  readonly onPressure?: (high: boolean) => void
}

/** Always `allocatedBlocks = freeBlocks + leasedBlocks`. */
export type ArenaStats = {
  readonly allocatedBlocks: number
  readonly freeBlocks: number
  readonly leasedBlocks: number
  readonly pressure: boolean
}

export type Arena = {
  openSession(): SessionTokens
  stats(): ArenaStats
  /** Every handle is stale and every append is refused from here on. Sessions may still be closed and leases released. Idempotent. */
  close(): void
}

/** Opens token memory whose single writer is the calling thread. Throws a RangeError on options that make no arena. */
export function openArena(options: ArenaOptions): Arena {
  const { slabTokens = 2 ** 20, blockTokens = 2 ** 12, maxSlabs, sessionShare = 1, pressureAt = 0.8, onPressure = () => {} } = options
  checkCount('slabTokens', slabTokens)
  checkCount('blockTokens', blockTokens)
  checkCount('maxSlabs', maxSlabs)
  if (slabTokens % blockTokens !== 0) throw new RangeError(`slabTokens (${slabTokens}) must be a multiple of blockTokens (${blockTokens})`)
  checkShare('pressureAt', pressureAt)
  checkShare('sessionShare', sessionShare)

  const pool = openBlockPool({ slabTokens, blockTokens, maxSlabs, pressureAt, onPressure })
  let leasesMade = 0
  const host = {
    pool,
    maxSessionBlocks:
      sessionShare === 1 ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor((sessionShare * maxSlabs * slabTokens) / blockTokens)),
    nextLease: () => ++leasesMade,
    promptScratch: openIdScratch(),
    sampledScratch: openIdScratch(),
    logprobScratch: openLogprobScratch(),
  }
  return { openSession: () => openSessionTokens(host), stats: pool.stats, close: pool.close }
}

function checkShare(name: string, value: number): void {
  if (!(value > 0 && value <= 1)) throw new RangeError(`${name} must lie in (0, 1], not ${value}`)
}

function checkCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) throw new RangeError(`${name} must be a positive whole number, not ${value}`)
}

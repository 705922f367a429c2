// The arena's bounds: what it refuses, when it calls that pressure, and what it gives back.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type ArenaOptions, openArena } from '../../src/tokens/arena.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import type { SessionTokens } from '../../src/tokens/session-tokens.ts'

/** Four blocks of four tokens in two slabs. */
const SMALL = { blockTokens: 4, slabTokens: 8, maxSlabs: 2 }
let nextToken = 0

/** Appends tokens that no sequence knows yet, so that they fill exactly `blocks` blocks. */
function fill(session: SessionTokens, blocks: number, blockTokens = 4): string {
  const promptIds = Array.from({ length: blocks * blockTokens }, () => nextToken++)
  const appended = session.append({ promptIds, sampledIds: [], logprobs: null })
  return appended.ok ? 'stored' : appended.error
}

afterEach(() => vi.unstubAllGlobals())

describe('a full arena', () => {
  it('answers arena-full, changes nothing, and serves again what others give back', () => {
    const arena = openArena(SMALL)
    const [a, b] = [arena.openSession(), arena.openSession()]
    expect([fill(a, 3), fill(b, 2)]).toEqual(['stored', 'arena-full'])
    expect(arena.stats()).toMatchObject({ allocatedBlocks: 4, freeBlocks: 1, leasedBlocks: 3 })
    expect(fill(b, 1)).toBe('stored')
    a.close()
    expect(fill(b, 3)).toBe('stored')
    expect(arena.stats()).toMatchObject({ allocatedBlocks: 4, freeBlocks: 0, leasedBlocks: 4 })
  })

  it('is full for the session that has its part of it, and for no other', () => {
    const arena = openArena({ ...SMALL, sessionShare: 0.5 })
    const [greedy, other] = [arena.openSession(), arena.openSession()]
    expect([fill(greedy, 2), fill(greedy, 1), fill(other, 2)]).toEqual(['stored', 'arena-full', 'stored'])
    greedy.close()
    expect(fill(arena.openSession(), 2)).toBe('stored')
  })

  it('makes no slab for a call that can never fit', () => {
    const arena = openArena(SMALL)
    expect(fill(arena.openSession(), 5)).toBe('arena-full')
    expect(arena.stats().allocatedBlocks).toBe(0)
  })

  it('still takes what fits in the blocks a session has', () => {
    const arena = openArena({ blockTokens: 4, slabTokens: 4, maxSlabs: 1 })
    const session = arena.openSession()
    const append = (promptIds: number[]) => session.append({ promptIds, sampledIds: [], logprobs: null })
    expect(append([1, 2, 3]).ok).toBe(true)
    expect(append([1, 2, 3, 4]).ok).toBe(true)
    expect(append([1, 2, 3, 4, 5])).toEqual({ ok: false, error: 'arena-full' })
    // An identical prompt needs no room at all.
    expect(append([1, 2, 3, 4]).ok).toBe(true)
  })

  it('still numbers a call without tokens, so that a record and its tokens keep the same index', () => {
    const arena = openArena(SMALL)
    const session = arena.openSession()
    expect([fill(session, 4), fill(session, 1)]).toEqual(['stored', 'arena-full'])
    expect(session.append({ promptIds: [], sampledIds: [], logprobs: null })).toMatchObject({ ok: true, index: 1 })
  })

  it('is what a host without memory looks like', () => {
    const arena = openArena(SMALL)
    vi.stubGlobal(
      'SharedArrayBuffer',
      class {
        constructor() {
          throw new RangeError('Array buffer allocation failed')
        }
      },
    )
    const session = arena.openSession()
    expect(fill(session, 1)).toBe('arena-full')
    expect(arena.stats()).toEqual({ allocatedBlocks: 0, freeBlocks: 0, leasedBlocks: 0, pressure: true })
    vi.unstubAllGlobals()
    expect(fill(session, 1)).toBe('stored')
  })
})

describe('pressure', () => {
  function openWatched(pressureAt?: number) {
    const heard: boolean[] = []
    const options: ArenaOptions = { blockTokens: 1, slabTokens: 10, maxSlabs: 2, onPressure: (high) => heard.push(high) }
    const arena = openArena(pressureAt === undefined ? options : { ...options, pressureAt })
    const holders = Array.from({ length: 20 }, () => arena.openSession())
    let held = 0
    return {
      arena,
      heard,
      /** Moves the number of leased blocks, one at a time. */
      holdBlocks(count: number) {
        while (held < count) fill(holders[held++]!, 1, 1)
        while (held > count) {
          holders[--held]!.close()
          holders[held] = arena.openSession()
        }
      },
    }
  }

  it('begins at 80 % and ends only below 70 %, whatever happens in between', () => {
    const { arena, heard, holdBlocks } = openWatched()
    const steps = [15, 16, 20, 14, 16, 14, 13, 15, 16].map((count) => {
      holdBlocks(count)
      return { count, pressure: arena.stats().pressure, told: heard.length }
    })
    expect(steps).toEqual([
      { count: 15, pressure: false, told: 0 },
      { count: 16, pressure: true, told: 1 },
      { count: 20, pressure: true, told: 1 },
      { count: 14, pressure: true, told: 1 },
      { count: 16, pressure: true, told: 1 },
      { count: 14, pressure: true, told: 1 },
      { count: 13, pressure: false, told: 2 },
      { count: 15, pressure: false, told: 2 },
      { count: 16, pressure: true, told: 3 },
    ])
    expect(heard).toEqual([true, false, true])
  })

  it.each([
    { pressureAt: 0.01, begins: 1 },
    { pressureAt: 0.5, begins: 10 },
    { pressureAt: 1, begins: 20 },
  ])('begins at $begins of 20 blocks when told $pressureAt, and always ends', ({ pressureAt, begins }) => {
    const { arena, heard, holdBlocks } = openWatched(pressureAt)
    arena.openSession().close()
    holdBlocks(begins - 1)
    expect(heard).toEqual([])
    holdBlocks(begins)
    expect(heard).toEqual([true])
    holdBlocks(0)
    expect(heard).toEqual([true, false])
  })

  it('begins with a refusal, and ends when the refused session closes, even one that holds nothing', () => {
    const { arena, heard } = openWatched()
    const refused = arena.openSession()
    expect(fill(refused, 21, 1)).toBe('arena-full')
    expect(heard).toEqual([true])
    expect([fill(refused, 0), fill(arena.openSession(), 1, 1)]).toEqual(['stored', 'stored'])
    expect(heard).toEqual([true])
    refused.close()
    expect(heard).toEqual([true, false])
  })
})

describe('a closed arena', () => {
  it('has made every handle stale and refuses to store, while sessions still end in order', () => {
    const arena = openArena(SMALL)
    const session = arena.openSession()
    fill(session, 1)
    const reference = session.lease()
    arena.close()
    arena.close()
    expect(() => readCalls(reference)).toThrow(expect.objectContaining({ code: 'stale-segment' }))
    expect(fill(session, 1)).toBe('arena-full')
    expect(fill(arena.openSession(), 0)).toBe('arena-full')
    session.close()
    session.release(reference)
    expect(arena.stats()).toEqual({ allocatedBlocks: 0, freeBlocks: 0, leasedBlocks: 0, pressure: false })
  })
})

describe('the options', () => {
  it.each([
    { options: { maxSlabs: 0 }, message: 'maxSlabs must be a positive whole number, not 0' },
    { options: { maxSlabs: 1.5 }, message: 'maxSlabs must be a positive whole number' },
    { options: { maxSlabs: 1, blockTokens: -1 }, message: 'blockTokens must be a positive whole number' },
    { options: { maxSlabs: 1, slabTokens: Number.NaN }, message: 'slabTokens must be a positive whole number' },
    { options: { maxSlabs: 1, slabTokens: 10, blockTokens: 4 }, message: 'slabTokens (10) must be a multiple of blockTokens (4)' },
    { options: { maxSlabs: 1, pressureAt: 0 }, message: 'pressureAt must lie in (0, 1], not 0' },
    { options: { maxSlabs: 1, pressureAt: 1.1 }, message: 'pressureAt must lie in (0, 1], not 1.1' },
    { options: { maxSlabs: 1, sessionShare: 0 }, message: 'sessionShare must lie in (0, 1], not 0' },
  ])('$options are refused: $message', ({ options, message }) => {
    expect(() => openArena(options)).toThrow(message)
  })

  it('default to slabs of 4 MiB in blocks of 4,096 tokens', () => {
    const arena = openArena({ maxSlabs: 1 })
    const session = arena.openSession()
    session.append({ promptIds: [1], sampledIds: [], logprobs: null })
    expect(arena.stats()).toMatchObject({ allocatedBlocks: 256, leasedBlocks: 1 })
    const [slab] = session.lease().slabs
    expect(slab!.buffer.byteLength).toBeGreaterThan(4 * 2 ** 20)
    expect(slab!.buffer.growable).toBe(false)
  })
})

// What a reading thread keeps, and what it hands out.
import { describe, expect, it } from 'vitest'
import { openArena } from '../../src/tokens/arena.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { createSlab } from '../../src/tokens/slab.ts'
import { openSlabCache } from '../../src/tokens/slab-cache.ts'

function slabEntry(id: number) {
  const slab = createSlab(id, { slabTokens: 4, blockTokens: 4 })
  if (slab === null) throw new Error('no memory')
  return { id, buffer: slab.buffer }
}

describe('the slab cache', () => {
  it('attaches a slab once and keeps no more than its limit, the last used', () => {
    const cache = openSlabCache(2)
    const [a, b, c] = [slabEntry(1), slabEntry(2), slabEntry(3)]
    const attached = cache.attach(a)
    cache.attach(b)
    expect(cache.attach(a)).toBe(attached)
    cache.attach(c)
    expect(cache.size()).toBe(2)
    expect(cache.attach(a)).toBe(attached)
  })
})

describe('readCalls', () => {
  it('reads references that span more slabs than the cache keeps', () => {
    const session = openArena({ blockTokens: 1, slabTokens: 1, maxSlabs: 300 }).openSession()
    const promptIds = Array.from({ length: 300 }, (_, index) => index)
    session.append({ promptIds, sampledIds: [], logprobs: null })
    const [call] = readCalls(structuredClone(session.lease()))
    expect([...call!.promptIds]).toEqual(promptIds)
  })

  it('never mistakes the slab of one arena for that of another', () => {
    const read = [1, 2, 3].map((token) => {
      const session = openArena({ maxSlabs: 1 }).openSession()
      session.append({ promptIds: [token], sampledIds: [], logprobs: null })
      return [...readCalls(structuredClone(session.lease()))[0]!.promptIds]
    })
    expect(read).toEqual([[1], [2], [3]])
  })

  it('lays out in memory that is not shared between threads', () => {
    const session = openArena({ maxSlabs: 1 }).openSession()
    session.append({ promptIds: [1], sampledIds: [2], logprobs: [-1] })
    const [call] = readCalls(session.lease())
    const buffers = [call!.promptIds, call!.sampledIds, call!.logprobs!].map(({ buffer }) => buffer)
    expect(buffers.every((buffer) => buffer instanceof ArrayBuffer)).toBe(true)
  })

  it('gives branches of one call arrays of their own', () => {
    const session = openArena({ maxSlabs: 1 }).openSession()
    for (const promptIds of [[1], [1, 2, 3], [1, 2, 4, 5, 6]]) {
      session.append({ promptIds, sampledIds: promptIds.length === 1 ? [2] : [], logprobs: null })
    }
    expect(readCalls(session.lease()).map(({ promptIds, sampledIds }) => [[...promptIds], [...sampledIds]])).toEqual([
      [[1], [2]],
      [[1, 2, 3], []],
      [[1, 2, 4, 5, 6], []],
    ])
  })

  it('keeps calls that extend one another in one array, and only those', () => {
    const session = openArena({ maxSlabs: 1 }).openSession()
    const prompts = [[1], [1, 2], [1, 3], [1, 3, 4], [1, 3, 4, 5, 6], [1, 2, 7]]
    for (const promptIds of prompts) session.append({ promptIds, sampledIds: [], logprobs: null })
    const buffers = readCalls(session.lease()).map(({ promptIds }) => promptIds.buffer)
    expect(buffers.map((buffer) => buffers.indexOf(buffer))).toEqual([0, 0, 2, 2, 2, 0])
    expect(buffers.map(({ byteLength }) => byteLength / 4)).toEqual([3, 3, 5, 5, 5, 3])
  })

  it('reads the same whichever of several fitting parents a call names', () => {
    const session = openArena({ maxSlabs: 1 }).openSession()
    const prompts = [[1], [1, 2], [1, 3, 4]]
    for (const promptIds of prompts) session.append({ promptIds, sampledIds: [], logprobs: null })
    const reference = session.lease()
    const renamed = reference.calls.map((call, index) => (index === 2 ? { ...call, parent: 0 } : call))
    expect(readCalls({ ...reference, calls: renamed }).map(({ promptIds }) => [...promptIds])).toEqual(prompts)
  })

  it('refuses a reference that lacks a slab', () => {
    const session = openArena({ maxSlabs: 1 }).openSession()
    session.append({ promptIds: [1], sampledIds: [], logprobs: null })
    expect(() => readCalls({ ...session.lease(), slabs: [] })).toThrow(/does not carry slab/)
  })
})

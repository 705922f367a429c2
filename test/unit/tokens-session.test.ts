// One session's tokens: what a call costs, what a misuse throws, and how long its blocks live.
import { describe, expect, it } from 'vitest'
import { openArena } from '../../src/tokens/arena.ts'
import { ClosedSessionError, UnknownLeaseError } from '../../src/tokens/errors.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import type { SessionTokens } from '../../src/tokens/session-tokens.ts'

const SMALL = { blockTokens: 4, slabTokens: 8, maxSlabs: 8 }

function append(session: SessionTokens, promptIds: readonly number[], sampledIds: readonly number[] = []) {
  const appended = session.append({ promptIds, sampledIds, logprobs: sampledIds.map(() => -1) })
  if (!appended.ok) throw new Error(appended.error)
  return appended.tokens
}

describe('a call', () => {
  const base = { prompt: [1, 2, 3], sampled: [4, 5] }
  it.each([
    { name: 'the next turn', prompt: [1, 2, 3, 4, 5, 6], parent: 0, shared: 5 },
    { name: 'a retry', prompt: [1, 2, 3], parent: 0, shared: 3 },
    { name: 'the sequence itself', prompt: [1, 2, 3, 4, 5], parent: 0, shared: 5 },
    { name: 'a turn that lost the end of the answer', prompt: [1, 2, 3, 4, 9], parent: 0, shared: 4 },
    { name: 'a shorter prompt', prompt: [1, 2], parent: 0, shared: 2 },
    { name: 'a compaction', prompt: [9, 1, 2, 3], parent: -1, shared: 0 },
    { name: 'an empty prompt', prompt: [], parent: -1, shared: 0 },
  ])('that is $name shares $shared tokens with call $parent', ({ prompt, parent, shared }) => {
    const session = openArena(SMALL).openSession()
    append(session, base.prompt, base.sampled)
    const stored = append(session, prompt)
    expect(stored).toMatchObject({ parent, shared, promptLength: prompt.length })
    expect(stored.suffix.reduce((sum, { length }) => sum + length, 0)).toBe(prompt.length - shared)
    expect([...session.readPrompt(1)]).toEqual(prompt)
  })

  it('shares with the newest of those that serve as well', () => {
    const session = openArena(SMALL).openSession()
    append(session, [1, 2], [3])
    append(session, [1, 2], [3])
    expect(append(session, [1, 2, 3, 4])).toMatchObject({ parent: 1, shared: 3 })
  })

  it('goes back to an older branch when that one is longer', () => {
    const session = openArena(SMALL).openSession()
    append(session, [1, 2, 3, 4], [5])
    append(session, [1, 2], [9])
    expect(append(session, [1, 2, 3, 4, 5, 6])).toMatchObject({ parent: 0, shared: 5 })
  })

  it('runs on over the end of a block and of a slab, in one segment for each block', () => {
    const session = openArena(SMALL).openSession()
    append(session, [1, 2, 3])
    const stored = append(session, [9, 8, 7, 6, 5, 4, 3], [10])
    expect(stored.suffix.map(({ length }) => length)).toEqual([1, 4, 2])
    expect(new Set(stored.suffix.map(({ slab }) => slab)).size).toBe(2)
    expect([...session.readPrompt(1)]).toEqual([9, 8, 7, 6, 5, 4, 3])
  })

  it('keeps null logprobs apart from those of a call that sampled nothing', () => {
    const session = openArena(SMALL).openSession()
    session.append({ promptIds: [1], sampledIds: [2], logprobs: null })
    session.append({ promptIds: [1], sampledIds: [], logprobs: null })
    const expected = [null, new Float32Array(0)]
    expect([0, 1].map((index) => session.readLogprobs(index))).toEqual(expected)
    expect(readCalls(session.lease()).map(({ logprobs }) => logprobs)).toEqual(expected)
  })

  it.each([
    { name: 'too few logprobs', call: { promptIds: [1], sampledIds: [1, 2], logprobs: [-1] } },
    { name: 'too many logprobs', call: { promptIds: [1], sampledIds: [1], logprobs: Float32Array.of(-1, -2) } },
    { name: 'a prompt id that is no int32', call: { promptIds: [0.5], sampledIds: [1], logprobs: [-1] } },
    { name: 'a sampled id that is no int32', call: { promptIds: [1], sampledIds: [2 ** 40], logprobs: [-1] } },
  ])('with $name throws and leaves nothing behind', ({ call }) => {
    const arena = openArena(SMALL)
    const session = arena.openSession()
    expect(() => session.append(call)).toThrow(RangeError)
    expect(arena.stats().leasedBlocks).toBe(0)
    expect(session.lease().calls).toEqual([])
  })

  it('that was refused leaves the session as it was', () => {
    const session = openArena({ ...SMALL, maxSlabs: 1 }).openSession()
    append(session, [1, 2, 3], [4])
    const refused = session.append({ promptIds: [1, 2, 3, 4, 5, 6, 7, 8], sampledIds: [], logprobs: null })
    expect(refused).toEqual({ ok: false, error: 'arena-full' })
    expect(append(session, [1, 2, 3, 4, 5])).toMatchObject({ parent: 0, shared: 4 })
    expect(readCalls(session.lease()).map(({ promptIds }) => [...promptIds])).toEqual([
      [1, 2, 3],
      [1, 2, 3, 4, 5],
    ])
  })
})

describe('a long session', () => {
  it('takes memory linear in its final length: 100 turns that end at 64,000 tokens', () => {
    const arena = openArena({ maxSlabs: 4 })
    const session = arena.openSession()
    let prompt = Int32Array.from({ length: 4_000 }, (_, index) => index)
    let sampledTokens = 0
    for (let turn = 0; turn < 100; turn++) {
      const sampled = Int32Array.from({ length: 200 }, (_, index) => turn * 1_000 + index)
      const appended = session.append({ promptIds: prompt, sampledIds: sampled, logprobs: new Float32Array(200).fill(-1) })
      expect(appended.ok).toBe(true)
      sampledTokens += sampled.length
      // The tool's answer: 400 tokens, and each turn all of them again.
      prompt = Int32Array.from([...prompt, ...sampled, ...sampled.map((id) => id + 500), ...sampled])
    }
    const finalTokens = 4_000 + 100 * 200 + 99 * 400
    const expectedBlocks = Math.ceil((finalTokens + sampledTokens) / 4_096)
    expect(arena.stats().leasedBlocks).toBe(expectedBlocks)

    const calls = readCalls(session.lease())
    expect(calls.at(-1)!.promptIds.length + 200).toBe(finalTokens)
    const buffers = new Set(calls.map(({ promptIds }) => promptIds.buffer))
    expect([...buffers].map(({ byteLength }) => byteLength)).toEqual([finalTokens * 4])
  })
})

describe('a reader on the owner’s side', () => {
  it('fills the array it is given and returns the filled part', () => {
    const session = openArena(SMALL).openSession()
    append(session, [1, 2, 3], [4, 5])
    const ids = new Int32Array(10)
    expect(session.readPrompt(0, ids)).toEqual(Int32Array.of(1, 2, 3))
    expect(session.readPrompt(0, ids).buffer).toBe(ids.buffer)
    expect(session.readSampled(0, ids)).toEqual(Int32Array.of(4, 5))
    expect(session.readLogprobs(0, new Float32Array(9))).toEqual(Float32Array.of(-1, -1))
    expect(() => session.readPrompt(0, new Int32Array(2))).toThrow(RangeError)
  })

  it.each([-1, 1, 0.5])('throws on call %s, which was never appended', (index) => {
    const session = openArena(SMALL).openSession()
    append(session, [1])
    expect(() => session.readPrompt(index)).toThrow(/never appended/)
  })
})

describe('a lease', () => {
  it('keeps the blocks after the session closed, until the last one is released', () => {
    const arena = openArena(SMALL)
    const session = arena.openSession()
    append(session, [1, 2, 3], [4])
    const [first, second] = [session.lease(), session.lease()]
    session.close()
    session.close()
    session.release(first)
    expect(readCalls(second)).toHaveLength(1)
    expect(arena.stats().leasedBlocks).toBe(2)
    session.release(second)
    expect(arena.stats().leasedBlocks).toBe(0)
    expect(() => readCalls(second)).toThrow(expect.objectContaining({ code: 'stale-segment' }))
  })

  it('shows the calls there were when it was taken', () => {
    const session = openArena(SMALL).openSession()
    append(session, [1])
    const reference = session.lease()
    append(session, [1, 2])
    expect(readCalls(reference)).toHaveLength(1)
  })

  it('carries the slabs of its own session only', () => {
    const arena = openArena(SMALL)
    const [a, b] = [arena.openSession(), arena.openSession()]
    append(a, [1, 2, 3, 4, 5, 6, 7, 8])
    append(b, [1])
    const slabs = [a, b].map((session) => session.lease().slabs.map(({ id }) => id))
    expect(slabs.map(({ length }) => length)).toEqual([1, 1])
    expect(slabs[0]).not.toEqual(slabs[1])
  })

  it.each(['twice', 'to another session'])('released %s throws unknown-lease and frees nothing', (how) => {
    const arena = openArena(SMALL)
    const [session, other] = [arena.openSession(), arena.openSession()]
    append(session, [1])
    const reference = session.lease()
    session.lease()
    other.lease()
    if (how === 'twice') session.release(reference)
    session.close()
    const again = how === 'twice' ? session : other
    expect(() => again.release(reference)).toThrow(UnknownLeaseError)
    expect(() => again.release(reference)).toThrow(expect.objectContaining({ code: 'unknown-lease' }))
    expect(arena.stats().leasedBlocks).toBe(1)
  })
})

describe('a closed session', () => {
  it.each([
    ['append', (session: SessionTokens) => session.append({ promptIds: [1], sampledIds: [], logprobs: null })],
    ['readPrompt', (session: SessionTokens) => session.readPrompt(0)],
    ['readSampled', (session: SessionTokens) => session.readSampled(0)],
    ['readLogprobs', (session: SessionTokens) => session.readLogprobs(0)],
    ['lease', (session: SessionTokens) => session.lease()],
  ])('throws on %s', (_, use) => {
    const session = openArena(SMALL).openSession()
    append(session, [1])
    session.close()
    expect(() => use(session)).toThrow(ClosedSessionError)
  })

  it('gives its blocks to others, whose tokens its old references never show', () => {
    const arena = openArena({ ...SMALL, maxSlabs: 1 })
    const session = arena.openSession()
    append(session, [1, 2, 3, 4, 5, 6, 7, 8])
    const old = session.lease()
    session.close()
    session.release(old)
    const next = arena.openSession()
    append(next, [11, 12, 13, 14, 15, 16, 17, 18])
    expect(() => readCalls(old)).toThrow(expect.objectContaining({ code: 'stale-segment' }))
    expect([...next.readPrompt(0)]).toEqual([11, 12, 13, 14, 15, 16, 17, 18])
  })
})

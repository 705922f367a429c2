// Numbers become typed arrays without a silent change.
import { describe, expect, it } from 'vitest'
import { openIdScratch, openLogprobScratch } from '../../src/tokens/scratch.ts'

describe('the id scratch', () => {
  it('keeps what fits in an int32', () => {
    const ids = [0, 1, 151_643, 2 ** 31 - 1, -(2 ** 31)]
    expect([...openIdScratch()(ids)]).toEqual(ids)
  })

  it.each([[1.5], [2 ** 31], [-(2 ** 31) - 1], [Number.NaN], [Number.POSITIVE_INFINITY], [2 ** 32]])(
    'refuses %s, which a typed array would wrap',
    (wrong) => {
      expect(() => openIdScratch()([1, 2, wrong, 3])).toThrow(/token 2 is .*, not an int32/)
    },
  )

  it('returns typed arrays as they are', () => {
    const ids = Int32Array.of(1, 2)
    expect(openIdScratch()(ids)).toBe(ids)
  })

  it('reuses its memory for calls of ordinary size, and lets go of a giant one', () => {
    const scratch = openIdScratch()
    const first = scratch(new Array(10_000).fill(1))
    expect(scratch([2]).buffer).toBe(first.buffer)
    const giant = scratch(new Array(300_000).fill(3))
    expect(giant.length).toBe(300_000)
    expect(scratch([4]).buffer).toBe(first.buffer)
  })
})

describe('the logprob scratch', () => {
  it('rounds to float32', () => {
    expect([...openLogprobScratch()([-0.1, 0, -1e-9])]).toEqual([Math.fround(-0.1), 0, Math.fround(-1e-9)])
  })

  it('reuses its memory for calls of ordinary size, and lets go of a giant one', () => {
    const scratch = openLogprobScratch()
    const first = scratch(new Array(10_000).fill(-1))
    expect(scratch([-2]).buffer).toBe(first.buffer)
    expect(scratch(new Array(300_000).fill(-1)).length).toBe(300_000)
    expect(scratch([-2]).buffer).toBe(first.buffer)
  })
})

// Where the common prefix ends, at every seam of its blockwise search.
import { describe, expect, it } from 'vitest'
import { commonPrefix, isPrefix } from '../../src/tokens/prefix.ts'

const counted = (length: number) => Int32Array.from({ length }, (_, index) => index)

describe('commonPrefix', () => {
  it.each([0, 1, 63, 64, 65, 127, 128, 129, 1_087, 1_088, 1_089, 2_047, 2_048, 4_094, 4_095])('finds a difference at token %i', (at) => {
    const other = counted(4_096)
    other[at] = -1
    expect(commonPrefix(counted(4_096), 0, other, 0, 4_096)).toBe(at)
  })

  it.each([0, 1, 64, 65, 1_088, 3_000])('counts %i equal tokens and never looks past the length', (length) => {
    const other = counted(4_096)
    other.fill(-1, length)
    expect(commonPrefix(counted(4_096), 0, other, 0, length)).toBe(length)
  })

  it.each([
    { aOffset: 3, bOffset: 0, length: 8 },
    { aOffset: 0, bOffset: 3, length: 8 },
    { aOffset: -1, bOffset: 0, length: 2 },
    { aOffset: 0, bOffset: 0, length: -1 },
  ])('refuses a range outside its array: $aOffset, $bOffset, $length', ({ aOffset, bOffset, length }) => {
    expect(() => commonPrefix(counted(10), aOffset, counted(10), bOffset, length)).toThrow(RangeError)
  })
})

describe('isPrefix', () => {
  it.each([
    { prefix: [], whole: [], expected: true },
    { prefix: [], whole: [1], expected: true },
    { prefix: [1, 2], whole: [1, 2], expected: true },
    { prefix: [1, 2], whole: [1, 2, 3], expected: true },
    { prefix: [1, 3], whole: [1, 2, 3], expected: false },
    { prefix: [1, 2, 3], whole: [1, 2], expected: false },
  ])('$prefix begins $whole: $expected', ({ prefix, whole, expected }) => {
    expect(isPrefix(Int32Array.from(prefix), Int32Array.from(whole))).toBe(expected)
  })
})

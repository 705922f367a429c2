// The fast common prefix against the naive one, for every place a difference can be and every alignment it can have.
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { commonPrefix, isPrefix } from '../../src/tokens/prefix.ts'
import { naiveCommonPrefix } from './prefix-naive.ts'

/** An array whose own byteOffset is not zero, over ordinary or shared memory. */
function place(tokens: readonly number[], lead: number, isShared: boolean): Int32Array {
  const bytes = (lead + tokens.length) * 4
  const view = new Int32Array(isShared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes), lead * 4)
  view.set(tokens)
  return view
}

const wide = fc.integer({ min: 0, max: 5_000 })
const small = fc.nat({ max: 70 })

describe('the common prefix', () => {
  it('equals the naive one on arrays that agree up to a random place', () => {
    const example = fc.record({
      length: wide,
      differAt: fc.option(wide),
      aOffset: small,
      bOffset: small,
      lead: small,
      tail: small,
      isShared: fc.boolean(),
    })
    fc.assert(
      fc.property(example, ({ length, differAt, aOffset, bOffset, lead, tail, isShared }) => {
        const body = Array.from({ length: length + tail }, (_, index) => (index * 2_654_435_761) | 0)
        const other = [...body]
        // One bit of one byte, so that a comparison that skips bytes is caught.
        if (differAt !== null && differAt < other.length) other[differAt]! ^= 1 << (differAt % 32)
        const a = place([...new Array(aOffset).fill(7), ...body], lead, isShared)
        const b = place([...new Array(bOffset).fill(9), ...other], 1, !isShared)
        expect(commonPrefix(a, aOffset, b, bOffset, length)).toBe(naiveCommonPrefix(a, aOffset, b, bOffset, length))
      }),
      { numRuns: 400 },
    )
  })

  it('equals the naive one on arrays of few tokens', () => {
    const tokens = fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 200 })
    fc.assert(
      fc.property(tokens, tokens, small, small, (a, b, aOffset, bOffset) => {
        const length = Math.max(0, Math.min(a.length - aOffset, b.length - bOffset))
        const left = Int32Array.from(a)
        const right = Int32Array.from(b)
        const expected = naiveCommonPrefix(a, aOffset, b, bOffset, length)
        if (length > 0) expect(commonPrefix(left, aOffset, right, bOffset, length)).toBe(expected)
        expect(isPrefix(left, right)).toBe(a.length <= b.length && a.every((token, index) => token === b[index]))
      }),
      { numRuns: 400 },
    )
  })
})

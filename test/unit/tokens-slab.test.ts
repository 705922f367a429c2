// A slab's publishing and recycling as a reader on another thread may meet them, at each step of a copy.
import { describe, expect, it } from 'vitest'
import { StaleSegmentError } from '../../src/tokens/errors.ts'
import { copyIds, copyLogprobs } from '../../src/tokens/segment.ts'
import { appendIds, appendLogprobs, attachSlab, createSlab, recycleBlock, type Slab } from '../../src/tokens/slab.ts'

const ID = 7

function openSlab(): { owner: Slab; reader: (id: number) => Slab } {
  const owner = createSlab(ID, { slabTokens: 12, blockTokens: 4 })
  if (owner === null) throw new Error('no memory')
  const attached = attachSlab(ID, owner.buffer)
  return { owner, reader: () => attached }
}

const ids = (...tokens: number[]) => Int32Array.from(tokens)

/** Lets `between` happen when the tokens have been copied but not yet been checked again. */
class InterruptedCopy extends Int32Array {
  between: () => void = () => {}
  override set(tokens: ArrayLike<number>, at?: number): void {
    super.set(tokens, at)
    this.between()
  }
}

describe('a slab', () => {
  it('shows another view of its buffer what was appended, ids and logprobs side by side', () => {
    const { owner, reader } = openSlab()
    const first = appendIds(owner, 1, 0, ids(10, 11))
    const second = appendIds(owner, 2, 0, ids(12))
    const third = appendLogprobs(owner, 1, 2, Float32Array.of(-0.5, -2))
    const into = new Int32Array(4)
    copyIds(reader, [first, second], into, 1)
    expect([...into]).toEqual([0, 10, 11, 12])
    const logprobs = new Float32Array(2)
    copyLogprobs(reader, [third], logprobs, 0)
    expect([...logprobs]).toEqual([-0.5, -2])
  })

  it('refuses what does not fit in a block, and publishes none of it', () => {
    const { owner } = openSlab()
    expect(() => appendIds(owner, 0, 3, ids(1, 2))).toThrow(RangeError)
    expect(owner.published[0]).toBe(0)
  })

  it('is null when the host has no memory for it', () => {
    expect(createSlab(1, { slabTokens: 2 ** 50, blockTokens: 2 ** 49 })).toBeNull()
  })

  it('is attached only when it is one', () => {
    expect(() => attachSlab(1, new SharedArrayBuffer(4096))).toThrow(/slab 1 does not begin/)
  })
})

describe('a stale segment', () => {
  it('throws once its block was recycled, although the tokens still lie there', () => {
    const { owner, reader } = openSlab()
    const segment = appendIds(owner, 0, 0, ids(1, 2))
    recycleBlock(owner, 0)
    expect(() => copyIds(reader, [segment], new Int32Array(2), 0)).toThrow(StaleSegmentError)
  })

  it('throws when another holder filled the block again', () => {
    const { owner, reader } = openSlab()
    const segment = appendIds(owner, 0, 0, ids(1, 2))
    recycleBlock(owner, 0)
    appendIds(owner, 0, 0, ids(3, 4, 5))
    const into = new Int32Array(2)
    expect(() => copyIds(reader, [segment], into, 0)).toThrow(expect.objectContaining({ code: 'stale-segment' }))
    expect([...into]).toEqual([0, 0])
  })

  it('throws when the block is recycled while its tokens are being copied', () => {
    const { owner, reader } = openSlab()
    const segment = appendIds(owner, 0, 0, ids(1, 2))
    const into = new InterruptedCopy(2)
    into.between = () => recycleBlock(owner, 0)
    expect(() => copyIds(reader, [segment], into, 0)).toThrow(StaleSegmentError)
  })

  it('throws for tokens that were never published', () => {
    const { owner, reader } = openSlab()
    const segment = appendIds(owner, 0, 0, ids(1, 2))
    expect(() => copyIds(reader, [{ ...segment, length: 3 }], new Int32Array(3), 0)).toThrow(StaleSegmentError)
  })

  it('throws for what a block held further back before it was recycled', () => {
    const { owner, reader } = openSlab()
    appendIds(owner, 0, 0, ids(1, 2, 3))
    recycleBlock(owner, 0)
    const segment = appendIds(owner, 0, 0, ids(4))
    expect(() => copyIds(reader, [{ ...segment, length: 3 }], new Int32Array(3), 0)).toThrow(StaleSegmentError)
  })

  it('throws for a recycled block that nobody has filled since', () => {
    const { owner, reader } = openSlab()
    const segment = appendIds(owner, 0, 0, ids(1, 2))
    recycleBlock(owner, 0)
    expect(() => copyIds(reader, [{ ...segment, epoch: segment.epoch + 1 }], new Int32Array(2), 0)).toThrow(StaleSegmentError)
  })

  it('leaves its neighbours alone', () => {
    const { owner, reader } = openSlab()
    appendIds(owner, 0, 0, ids(1))
    const neighbour = appendIds(owner, 1, 0, ids(2))
    recycleBlock(owner, 0)
    const into = new Int32Array(1)
    copyIds(reader, [neighbour], into, 0)
    expect(into[0]).toBe(2)
  })
})

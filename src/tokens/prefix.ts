// How many tokens two sequences share from given positions: the one question behind both storing a call and merging calls.

const INT32_BYTES = Int32Array.BYTES_PER_ELEMENT
/** One memcmp per block: large enough to amortise the call, small enough that narrowing is cheap (bench/micro/tokens.ts). */
const BLOCK_TOKENS = 1_024
/** Up to this many tokens a loop beats making two byte views. */
const LOOP_TOKENS = 64

/**
 * Counts equal tokens of `a` from `aOffset` and `b` from `bOffset`, at most `length`. Works on ordinary and shared arrays alike.
 * Throws a RangeError when either range reaches past its array.
 */
export function commonPrefix(a: Int32Array, aOffset: number, b: Int32Array, bOffset: number, length: number): number {
  checkRange(a, aOffset, length)
  checkRange(b, bOffset, length)
  const head = countEqual(a, aOffset, b, bOffset, Math.min(length, LOOP_TOKENS))
  if (head < LOOP_TOKENS || head === length) return head

  const aBytes = bytesOf(a)
  const bBytes = bytesOf(b)
  let same = head
  while (same < length) {
    const block = Math.min(BLOCK_TOKENS, length - same)
    if (!isEqual(aBytes, aOffset + same, bBytes, bOffset + same, block)) break
    same += block
  }

  // Invariant: everything before `same` is equal, and the first difference lies before `end`, or there is none.
  let end = Math.min(length, same + BLOCK_TOKENS)
  while (end - same > LOOP_TOKENS) {
    const half = (end - same) >> 1
    if (isEqual(aBytes, aOffset + same, bBytes, bOffset + same, half)) same += half
    else end = same + half
  }
  return same + countEqual(a, aOffset + same, b, bOffset + same, end - same)
}

/** True when `whole` begins with all of `prefix`. */
export function isPrefix(prefix: Int32Array, whole: Int32Array): boolean {
  return prefix.length <= whole.length && commonPrefix(prefix, 0, whole, 0, prefix.length) === prefix.length
}

function countEqual(a: Int32Array, aOffset: number, b: Int32Array, bOffset: number, length: number): number {
  let same = 0
  while (same < length && a[aOffset + same] === b[bOffset + same]) same++
  return same
}

function isEqual(a: Buffer, aOffset: number, b: Buffer, bOffset: number, length: number): boolean {
  const aStart = aOffset * INT32_BYTES
  const bStart = bOffset * INT32_BYTES
  const bytes = length * INT32_BYTES
  return a.compare(b, bStart, bStart + bytes, aStart, aStart + bytes) === 0
}

function bytesOf(tokens: Int32Array): Buffer {
  return Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength)
}

function checkRange(tokens: Int32Array, offset: number, length: number): void {
  if (offset < 0 || length < 0 || offset + length > tokens.length) {
    throw new RangeError(`tokens ${offset}..${offset + length} lie outside an array of ${tokens.length}`)
  }
}

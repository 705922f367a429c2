// Chance under a seed: the same words give the same numbers in every process.
import { createHash } from 'node:crypto'

/** Numbers in [0, 1), fixed by the words. */
export function seededNumbers(...words: readonly (string | number)[]): () => number {
  const digest = createHash('sha256').update(words.join('\u0000')).digest()
  let [a, b, c, d] = [digest.readUInt32LE(0), digest.readUInt32LE(4), digest.readUInt32LE(8), digest.readUInt32LE(12)]
  // sfc32, a small fast counting generator.
  return () => {
    const sum = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return (sum >>> 0) / 0x1_0000_0000
  }
}

export function seededHex(characters: number, ...words: readonly (string | number)[]): string {
  return createHash('sha256').update(words.join('\u0000')).digest('hex').slice(0, characters)
}

/** A word that stands for these ids. */
export function idsDigest(ids: readonly number[]): string {
  return createHash('sha256').update(Int32Array.from(ids)).digest('hex')
}

/** A whole number in [low, high]. */
export function wholeBetween(next: () => number, low: number, high: number): number {
  return low + Math.floor(next() * (high - low + 1))
}

export function shuffled<T>(next: () => number, items: readonly T[]): T[] {
  const result = [...items]
  for (let last = result.length - 1; last > 0; last -= 1) {
    const other = wholeBetween(next, 0, last)
    const [moved, kept] = [result[other], result[last]]
    if (moved === undefined || kept === undefined) continue
    result[last] = moved
    result[other] = kept
  }
  return result
}

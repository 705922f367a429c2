// The dumb common prefix: the oracle of the fast one, and its baseline in the benchmarks.

export function naiveCommonPrefix(a: ArrayLike<number>, aOffset: number, b: ArrayLike<number>, bOffset: number, length: number): number {
  let same = 0
  while (same < length && a[aOffset + same] === b[bOffset + same]) same++
  return same
}

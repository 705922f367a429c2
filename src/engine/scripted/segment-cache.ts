// Ids of text segments already encoded, least recently used first to go.

export type SegmentCache = { get(segment: string): readonly number[] }

/** Keeps segments of together at most `maxCharacters`; a longer one is encoded and not kept. */
export function openSegmentCache(maxCharacters: number, encode: (segment: string) => readonly number[]): SegmentCache {
  const entries = new Map<string, readonly number[]>()
  let characters = 0
  return {
    get(segment) {
      const known = entries.get(segment)
      if (known !== undefined) {
        entries.delete(segment)
        entries.set(segment, known)
        return known
      }
      const ids = encode(segment)
      if (segment.length > maxCharacters) return ids
      entries.set(segment, ids)
      characters += segment.length
      for (const oldest of entries.keys()) {
        if (characters <= maxCharacters) break
        entries.delete(oldest)
        characters -= oldest.length
      }
      return ids
    },
  }
}

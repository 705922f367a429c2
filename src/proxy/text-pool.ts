// Every message text of a session once: an agent sends its whole history with each call.

export type TextPool = {
  /** The text's index; equal texts share one. */
  add(text: string): number
  all(): readonly string[]
  bytes(): number
}

export function openTextPool(): TextPool {
  const indexes = new Map<string, number>()
  let bytes = 0
  return {
    add(text) {
      const known = indexes.get(text)
      if (known !== undefined) return known
      const index = indexes.size
      indexes.set(text, index)
      bytes += Buffer.byteLength(text)
      return index
    },
    // A Map keeps the order of insertion, which is the order of the indexes.
    all: () => [...indexes.keys()],
    bytes: () => bytes,
  }
}

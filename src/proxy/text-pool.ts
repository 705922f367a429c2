// Every message text of a session once: an agent sends its whole history with each call.

export type TextPool = {
  /** The text's index; equal texts share one. */
  add(text: string): number
  at(index: number): string | undefined
  all(): readonly string[]
  bytes(): number
}

export function openTextPool(): TextPool {
  const indexes = new Map<string, number>()
  const texts: string[] = []
  let bytes = 0
  return {
    add(text) {
      const known = indexes.get(text)
      if (known !== undefined) return known
      const index = indexes.size
      indexes.set(text, index)
      texts.push(text)
      bytes += Buffer.byteLength(text)
      return index
    },
    at: (index) => texts[index],
    all: () => [...texts],
    bytes: () => bytes,
  }
}

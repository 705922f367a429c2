// A persistent list of fixed length: a change copies one small chunk, so an event of one session costs the same in a big task as in a small one.

const CHUNK = 32

export type Roster<T> = { readonly length: number; readonly chunks: readonly (readonly T[])[] }

export function rosterOf<T>(items: readonly T[]): Roster<T> {
  const chunks = Array.from({ length: Math.ceil(items.length / CHUNK) }, (_, i) => items.slice(i * CHUNK, (i + 1) * CHUNK))
  return { length: items.length, chunks }
}

export function itemAt<T>(roster: Roster<T>, index: number): T | undefined {
  return roster.chunks[Math.floor(index / CHUNK)]?.[index % CHUNK]
}

export function withItem<T>(roster: Roster<T>, index: number, item: T): Roster<T> {
  const at = Math.floor(index / CHUNK)
  const chunk = roster.chunks[at]
  if (chunk === undefined) throw new RangeError(`a roster of ${roster.length} has no item ${index}`)
  return { ...roster, chunks: roster.chunks.with(at, chunk.with(index % CHUNK, item)) }
}

export function mapItems<T>(roster: Roster<T>, change: (item: T) => T): Roster<T> {
  return { ...roster, chunks: roster.chunks.map((chunk) => chunk.map(change)) }
}

export function itemsOf<T>(roster: Roster<T>): readonly T[] {
  return roster.chunks.flat()
}

// What an engine says of a conversation that is too long for it: the two lengths, however it words them.

export type OverflowLengths = { readonly tokens: number; readonly maximum: number }

/** Null where it does not name both. */
export function overflowLengths(told: string): OverflowLengths | null {
  const maximum = Number(/(?:context|model|allowed) (?:length|size)\D{0,40}(\d+)/i.exec(told)?.[1])
  const needed = (told.match(/\d+/g) ?? []).map(Number).filter((count) => count > maximum)
  const [tokens] = needed.sort((one, other) => one - other)
  return tokens === undefined ? null : { tokens, maximum }
}

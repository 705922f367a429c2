// Which ArrayBuffers of a message move to the other thread instead of being copied.

const NOTHING: readonly ArrayBuffer[] = []

/** Those at the top level and one level deep. An array is looked into only when it begins with one: token lists are long. */
export function buffersIn(message: unknown): readonly ArrayBuffer[] {
  let found: ArrayBuffer[] | null = null
  const take = (value: unknown): void => {
    if (!(value instanceof ArrayBuffer)) return
    found ??= []
    // Listing a buffer twice is an error of structured clone.
    if (!found.includes(value)) found.push(value)
  }
  if (typeof message !== 'object' || message === null) return NOTHING
  take(message)
  for (const value of fieldsOf(message)) {
    take(value)
    if (typeof value === 'object' && value !== null) for (const inner of fieldsOf(value)) take(inner)
  }
  return found ?? NOTHING
}

function fieldsOf(value: object): readonly unknown[] {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return NOTHING
  if (Array.isArray(value)) return value[0] instanceof ArrayBuffer ? value : NOTHING
  return Object.values(value)
}

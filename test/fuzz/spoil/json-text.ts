// JSON text that a JavaScript value cannot stand for: numbers beyond double, nesting beyond the stack, a field written twice.

const MARKED = /"@@raw:((?:[^"\\]|\\.)*)@@"/g

/** Stands in a value for what `writeJson` is to write there, word for word. */
export function rawText(text: string): string {
  return `@@raw:${text}@@`
}

/** As `rawText`, for arrays or objects within each other. */
export function nested(kind: 'arrays' | 'objects', depth: number): string {
  return rawText(`nest-${kind}-${depth}`)
}

export function writeJson(value: unknown): string {
  return JSON.stringify(value).replace(MARKED, (_whole, escaped: string) => {
    const raw: string = JSON.parse(`"${escaped}"`)
    const [, kind, depth] = /^nest-(arrays|objects)-(\d+)$/.exec(raw) ?? []
    if (depth === undefined) return raw
    return kind === 'arrays'
      ? '['.repeat(Number(depth)) + ']'.repeat(Number(depth))
      : `${'{"a":'.repeat(Number(depth))}1${'}'.repeat(Number(depth))}`
  })
}

/** The object with one of its fields written a second time, with another value. */
export function withFieldTwice(object: string, name: string, second: unknown): string {
  return `${object.slice(0, -1)},${JSON.stringify(name)}:${writeJson(second)}}`
}

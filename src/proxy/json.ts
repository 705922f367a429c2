// JSON as the boundary meets it: reading bodies, naming places in them, comparing values.

export type JsonObject = { readonly [key: string]: unknown }

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export type Parsed = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly detail: string }

const decoder = new TextDecoder('utf-8', { fatal: true })

/** Strict UTF-8 and strict JSON; the detail is the parser's own sentence. */
export function parseJson(bytes: Uint8Array): Parsed {
  try {
    const value: unknown = JSON.parse(decoder.decode(bytes))
    return { ok: true, value }
  } catch (error) {
    return { ok: false, detail: error instanceof Error ? error.message : String(error) }
  }
}

/** What a caller sees when a value has the wrong type: `a number`, `null`, `an array`. */
export function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  const type = typeof value
  return type === 'object' ? 'an object' : `a ${type}`
}

/** The same value always gives the same text: keys sorted, at every depth. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key])}`)
  return `{${members.join(',')}}`
}

// JSON as the boundary meets it: reading bodies, naming places in them, comparing values.

export type JsonObject = { readonly [key: string]: unknown }

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export type Parsed = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly detail: string }

const decoder = new TextDecoder('utf-8', { fatal: true })

/** No client nests its requests this far, and what is nested deeper by some thousands overflows the stack of whoever prints it. */
const MAX_DEPTH = 512

/** Strict UTF-8 and strict JSON; the detail is the parser's own sentence. */
export function parseJson(bytes: Uint8Array): Parsed {
  try {
    return parseJsonText(decoder.decode(bytes))
  } catch (error) {
    return { ok: false, detail: error instanceof Error ? error.message : String(error) }
  }
}

export function parseJsonText(text: string): Parsed {
  try {
    const value: unknown = JSON.parse(text)
    return isDeeper(value, MAX_DEPTH) ? { ok: false, detail: `nested deeper than ${MAX_DEPTH} levels` } : { ok: true, value }
  } catch (error) {
    return { ok: false, detail: error instanceof Error ? error.message : String(error) }
  }
}

/** The object that a text of JSON says; null where it says anything else. */
export function parseObject(text: string): JsonObject | null {
  const parsed = parseJsonText(text)
  return parsed.ok && isObject(parsed.value) ? parsed.value : null
}

function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth === 0) return true
  for (const inner of Array.isArray(value) ? value : Object.values(value)) if (isDeeper(inner, depth - 1)) return true
  return false
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

// Texts that hold half a surrogate pair, as clients send them that cut a text by its length: no engine takes one.
import { isObject, type JsonObject } from './json.ts'

/** UTF-8 has no half of a pair: only an escape can say one. */
const ESCAPES = ['\\ud', '\\uD']

/** The value with U+FFFD in place of every half, and whether there was one; `text` is the JSON it came from. */
export function wellFormed(value: JsonObject, text: Uint8Array): { readonly value: JsonObject; readonly isMended: boolean } {
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength)
  const isMended = ESCAPES.some((half) => bytes.includes(half)) && !isWell(value)
  return { value: isMended ? mendedMembers(value) : value, isMended }
}

function isWell(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (Array.isArray(value)) return value.every(isWell)
  return !isObject(value) || Object.entries(value).every(([name, member]) => name.isWellFormed() && isWell(member))
}

function mended(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (Array.isArray(value)) return value.map(mended)
  return isObject(value) ? mendedMembers(value) : value
}

function mendedMembers(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name.toWellFormed(), mended(member)]))
}

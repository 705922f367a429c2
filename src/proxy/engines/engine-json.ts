// JSON as engines write it: Python's encoder lets NaN and Infinity through.
import { isObject, type JsonObject, type Parsed, parseJson, parseJsonText } from '../json.ts'
import type { HttpRequest, HttpResponse } from './engine.ts'

/** An answer must not be lost to one bad logprob: bare NaN and Infinity become null, which is found out where numbers are read. */
export function parseEngineJson(bytes: Uint8Array): Parsed {
  const parsed = parseJson(bytes)
  return parsed.ok ? parsed : repaired(new TextDecoder().decode(bytes), parsed)
}

/** The same for one event of a stream. */
export function parseEngineText(text: string): Parsed {
  const parsed = parseJsonText(text)
  return parsed.ok ? parsed : repaired(text, parsed)
}

function repaired(text: string, parsed: Parsed): Parsed {
  let isInString = false
  const mended = text.replace(/\\.|"|-?\b(?:NaN|Infinity)\b/gs, (token) => {
    if (token === '"') isInString = !isInString
    return isInString || token === '"' || token.startsWith('\\') ? token : 'null'
  })
  return mended === text ? parsed : parseJsonText(mended)
}

/** The body as an object; null when it is none. */
export function bodyOf(response: HttpResponse): JsonObject | null {
  const parsed = parseEngineJson(response.body)
  return parsed.ok && isObject(parsed.value) ? parsed.value : null
}

export function isSuccess(response: HttpResponse): boolean {
  return response.status >= 200 && response.status <= 299
}

export function post(path: string, body: object): HttpRequest {
  return { method: 'POST', path, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

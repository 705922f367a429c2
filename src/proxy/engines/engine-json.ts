// JSON as engines write it: Python's encoder lets NaN and Infinity through.
import { isObject, type JsonObject, type Parsed, parseJson } from '../json.ts'
import type { HttpRequest, HttpResponse } from './engine.ts'

/** An answer must not be lost to one bad logprob: bare NaN and Infinity become null, which is found out where numbers are read. */
export function parseEngineJson(bytes: Uint8Array): Parsed {
  const parsed = parseJson(bytes)
  if (parsed.ok) return parsed
  const text = new TextDecoder().decode(bytes)
  let isInString = false
  const repaired = text.replace(/\\.|"|-?\b(?:NaN|Infinity)\b/gs, (token) => {
    if (token === '"') isInString = !isInString
    return isInString || token === '"' || token.startsWith('\\') ? token : 'null'
  })
  return repaired === text ? parsed : parseJson(Buffer.from(repaired))
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

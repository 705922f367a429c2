// The headers of a failure, in which all vendors agree: JSON, and how long to stay away.
import type { Failure } from '../failure.ts'

export function failureHeaders(failure: Failure): Readonly<Record<string, string>> {
  return {
    'content-type': 'application/json',
    // Whole seconds, at least one: a client told to wait zero seconds comes back at once.
    ...(failure.retryAfterMs === null ? {} : { 'retry-after': String(Math.max(1, Math.ceil(failure.retryAfterMs / 1000))) }),
    ...(failure.status === 426 ? { connection: 'close', upgrade: 'HTTP/1.1' } : {}),
  }
}

// The headers of a failure, the same for all vendors: JSON, how long to stay away, and when not to come back.
import type { Failure } from '../failure.ts'

export function failureHeaders(failure: Failure): Readonly<Record<string, string>> {
  return {
    'content-type': 'application/json',
    // Whole seconds, at least one: a client told to wait zero seconds comes back at once.
    ...(failure.retryAfterMs === null ? {} : { 'retry-after': String(Math.max(1, Math.ceil(failure.retryAfterMs / 1000))) }),
    // Heeded by the SDKs of OpenAI and Anthropic and by Claude Code, which repeats a bare 400 five times in ever poorer forms.
    ...(failure.isFinal ? { 'x-should-retry': 'false' } : {}),
    ...(failure.status === 426 ? { connection: 'close', upgrade: 'HTTP/1.1' } : {}),
  }
}

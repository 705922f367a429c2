// Failures in Anthropic's envelope: `{type: "error", error: {type, message}}`, and the headers its clients obey.
import type { Failure } from '../../failure.ts'
import type { HttpReply } from '../dialect.ts'
import { failureHeaders } from '../failure-headers.ts'

export function writeAnthropicFailure(failure: Failure): HttpReply {
  return {
    status: failure.status,
    headers: { ...failureHeaders(failure), ...(isFinal(failure) ? { 'x-should-retry': 'false' } : {}) },
    body: JSON.stringify(errorBody(failure, null)),
  }
}

/** Also what an `error` event of a stream carries. */
export function errorBody(failure: Failure, requestId: string | null): object {
  const message = failure.code === 'context-overflow' ? overflowMessage(failure.message) : failure.message
  // The SDK's tool runner asks for a kept conversation first and does without one only for this code.
  const details = failure.param === 'thread' ? { details: { error_code: 'thread_unsupported_request' } } : {}
  return { type: 'error', error: { type: typeOf(failure), message, ...details }, request_id: requestId }
}

/** Claude Code repeats most refusals up to ten times, and a 400 five times in ever poorer forms, unless it is told not to. */
function isFinal(failure: Failure): boolean {
  const { status, code } = failure
  if (code === 'budget-exhausted') return true
  return status >= 400 && status < 500 && status !== 408 && status !== 409 && status !== 429
}

function typeOf({ status, code }: Failure): string {
  if (code === 'overloaded' && status !== 429) return 'overloaded_error'
  switch (status) {
    case 401:
      return 'authentication_error'
    case 403:
      return 'permission_error'
    case 404:
      return 'not_found_error'
    case 409:
      return 'conflict_error'
    case 413:
      return 'request_too_large'
    case 429:
      return 'rate_limit_error'
    case 504:
      return 'timeout_error'
    case 529:
      return 'overloaded_error'
    default:
      return status >= 500 ? 'api_error' : 'invalid_request_error'
  }
}

/** The sentence by which Claude Code knows that it must compact; both numbers, where the engine tells them. */
function overflowMessage(told: string): string {
  const maximum = Number(/(?:context|model) length\D{0,40}(\d+)/i.exec(told)?.[1])
  const needed = (told.match(/\d+/g) ?? []).map(Number).filter((count) => count > maximum)
  const [tokens] = needed.sort((one, other) => one - other)
  return tokens === undefined ? `prompt is too long: ${told}` : `prompt is too long: ${tokens} tokens > ${maximum} maximum`
}

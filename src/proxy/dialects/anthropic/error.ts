// Failures in Anthropic's envelope: `{type: "error", error: {type, message}}`, whole and as an event of a stream.
import type { Failure } from '../../failure.ts'
import type { HttpReply } from '../dialect.ts'
import { failureHeaders } from '../failure-headers.ts'
import { overflowLengths } from '../overflow.ts'

export function writeAnthropicFailure(failure: Failure): HttpReply {
  return {
    status: failure.status,
    headers: failureHeaders(failure),
    body: JSON.stringify(errorBody(failure, typeOf(failure), null)),
  }
}

/**
 * As an `error` event after the head. Without its fallback to plain requests, Claude Code asks again after an `overloaded_error` and after no
 * other: every failure that may pass is one.
 */
export function streamedError(failure: Failure, requestId: string): object {
  return errorBody(failure, failure.isFinal ? typeOf(failure) : 'overloaded_error', requestId)
}

function errorBody(failure: Failure, type: string, requestId: string | null): object {
  const message = failure.code === 'context-overflow' ? overflowMessage(failure.message) : failure.message
  // The SDK's tool runner asks for a kept conversation first and does without one only for this code.
  const details = failure.param === 'thread' ? { details: { error_code: 'thread_unsupported_request' } } : {}
  return { type: 'error', error: { type, message, ...details }, request_id: requestId }
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
  const lengths = overflowLengths(told)
  return lengths === null ? `prompt is too long: ${told}` : `prompt is too long: ${lengths.tokens} tokens > ${lengths.maximum} maximum`
}

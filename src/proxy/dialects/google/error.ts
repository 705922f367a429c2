// Failures in Google's envelope: status, `{error: {code, message, status}}`, and when to come back.
import type { Failure } from '../../failure.ts'
import type { HttpReply } from '../dialect.ts'
import { failureHeaders } from '../failure-headers.ts'
import { overflowLengths } from '../overflow.ts'

export function writeGoogleFailure(failure: Failure): HttpReply {
  return { status: failure.status, headers: failureHeaders(failure), body: JSON.stringify(errorOf(failure)) }
}

/** The error object, alone in a body as well as inside a stream. */
export function errorOf(failure: Failure): object {
  return {
    error: {
      code: failure.status,
      message: failure.code === 'context-overflow' ? overflowMessage(failure.message) : failure.message,
      status: statusOf(failure.status),
      ...(failure.retryAfterMs === null
        ? {}
        : { details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${failure.retryAfterMs / 1000}s` }] }),
    },
  }
}

/** Google has no code for it: agents know a prompt that is too long by this sentence, and count by its numbers. */
function overflowMessage(told: string): string {
  const lengths = overflowLengths(told)
  return lengths === null
    ? `The input token count exceeds the maximum number of tokens allowed: ${told}`
    : `The input token count (${lengths.tokens}) exceeds the maximum number of tokens allowed (${lengths.maximum}).`
}

/** The canonical names of google.rpc.Code, by the HTTP status that stands for them. */
function statusOf(status: number): string {
  switch (status) {
    case 401:
      return 'UNAUTHENTICATED'
    case 403:
      return 'PERMISSION_DENIED'
    case 404:
      return 'NOT_FOUND'
    case 409:
      return 'ABORTED'
    case 426:
      return 'FAILED_PRECONDITION'
    case 429:
      return 'RESOURCE_EXHAUSTED'
    case 499:
      return 'CANCELLED'
    case 502:
    case 503:
      return 'UNAVAILABLE'
    case 504:
      return 'DEADLINE_EXCEEDED'
    default:
      return status >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT'
  }
}

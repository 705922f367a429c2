// Failures in OpenAI's envelope, which chat completions and Responses share: status, `{error: {message, type, param, code}}`, headers.
import type { Failure, FailureCode } from '../failure.ts'
import type { HttpReply } from './dialect.ts'
import { failureHeaders } from './failure-headers.ts'

/** Codes that clients know by OpenAI's name; ours are told as they are. */
const KNOWN_CODES: { readonly [code in FailureCode]?: string } = {
  unauthenticated: 'invalid_api_key',
  'context-overflow': 'context_length_exceeded',
  'model-unknown': 'model_not_found',
  'previous-response-unknown': 'previous_response_not_found',
  overloaded: 'rate_limit_exceeded',
  'budget-exhausted': 'insufficient_quota',
}

export function writeOpenaiFailure(failure: Failure): HttpReply {
  const body = {
    error: {
      message: failure.message,
      type: typeOf(failure.status),
      param: failure.param,
      code: openaiCode(failure.code),
    },
  }
  return {
    status: failure.status,
    headers: failureHeaders(failure),
    body: JSON.stringify(body),
  }
}

export function openaiCode(code: FailureCode): string {
  return KNOWN_CODES[code] ?? code.replaceAll('-', '_')
}

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 404) return 'not_found_error'
  if (status === 429) return 'rate_limit_error'
  return status >= 500 ? 'server_error' : 'invalid_request_error'
}

// Failures in OpenAI's envelope, which chat completions and Responses share: status, `{error: {message, type, param, code}}`, headers.
import type { Failure, FailureCode } from '../failure.ts'
import type { HttpReply } from './dialect.ts'
import { failureHeaders } from './failure-headers.ts'
import { overflowLengths } from './overflow.ts'

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
      message: openaiMessage(failure),
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

/** Agents that do not look at the code know a prompt that is too long by one of the vendor's sentences, and count by its numbers. */
export function openaiMessage({ code, message }: Failure): string {
  if (code !== 'context-overflow') return message
  const lengths = overflowLengths(message)
  return lengths === null
    ? `Your input exceeds the context window of this model: ${message}`
    : `This model's maximum context length is ${lengths.maximum} tokens. However, your messages resulted in ${lengths.tokens} tokens.`
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

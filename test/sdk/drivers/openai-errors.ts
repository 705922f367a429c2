// The openai SDK's error classes by status: two dialects throw them.
import OpenAI from 'openai'

const CLASSES: { readonly [status: number]: new (...parameters: never) => InstanceType<typeof OpenAI.APIError> } = {
  400: OpenAI.BadRequestError,
  401: OpenAI.AuthenticationError,
  403: OpenAI.PermissionDeniedError,
  404: OpenAI.NotFoundError,
  429: OpenAI.RateLimitError,
  500: OpenAI.InternalServerError,
  503: OpenAI.InternalServerError,
}

export function isOpenaiStatus(error: unknown, status: number): boolean {
  return error instanceof (CLASSES[status] ?? OpenAI.APIError) && error.status === status
}

export function isOpenaiAbort(error: unknown): boolean {
  return error instanceof OpenAI.APIUserAbortError
}

export function openaiRetryAfter(error: unknown): string | null {
  return error instanceof OpenAI.APIError ? (error.headers?.get('retry-after') ?? null) : null
}

export function openaiErrorWord(error: unknown): string | null {
  return error instanceof OpenAI.APIError ? (error.type ?? null) : null
}

/** The envelope's `type` by status. */
export const OPENAI_ERROR_WORDS = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'invalid_request_error',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
} as const

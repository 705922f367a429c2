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

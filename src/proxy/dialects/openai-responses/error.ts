// Failures of Responses: OpenAI's envelope before the head, `response.failed` after it.
import type { Failure } from '../../failure.ts'
import type { HttpReply } from '../dialect.ts'
import { openaiCode, writeOpenaiFailure } from '../openai-failure.ts'

/** The conversation, which a chat engine calls messages, is this vendor's input. */
export function writeResponsesFailure(failure: Failure): HttpReply {
  return writeOpenaiFailure(failure.param === 'messages' ? { ...failure, param: 'input' } : failure)
}

export type StreamedError = { readonly code: string; readonly message: string }

/**
 * The error of a `response.failed` event. Codex gives up on `invalid_prompt`, `insufficient_quota` and `context_length_exceeded`,
 * comes back after the time that stands in the message of `rate_limit_exceeded`, and tries again soon on everything else.
 */
export function streamedError(failure: Failure): StreamedError {
  const { code, status, message, retryAfterMs } = failure
  if (code === 'context-overflow') return { code: openaiCode(code), message }
  if (code === 'budget-exhausted') return { code: 'insufficient_quota', message }
  if (status === 429) return { code: 'rate_limit_exceeded', message: retryAfterMs === null ? message : withDelay(message, retryAfterMs) }
  if (status >= 400 && status < 500) return { code: 'invalid_prompt', message }
  return { code: 'server_error', message }
}

function withDelay(message: string, retryAfterMs: number): string {
  return `${message} (please try again in ${Math.max(0.1, retryAfterMs / 1000)}s)`
}

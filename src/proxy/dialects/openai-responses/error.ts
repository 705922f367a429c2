// Failures of Responses: OpenAI's envelope before the head, `response.failed` after it.
import type { Failure } from '../../failure.ts'
import type { HttpReply } from '../dialect.ts'
import { openaiCode, openaiMessage, writeOpenaiFailure } from '../openai-failure.ts'

export function writeResponsesFailure(failure: Failure): HttpReply {
  // The conversation, which a chat engine calls messages, is this vendor's input.
  const param = failure.param === 'messages' ? 'input' : failure.param
  // Codex asks again after any refusal but a 400.
  return writeOpenaiFailure({ ...failure, param, status: failure.code === 'engine-rejected' ? 400 : failure.status })
}

export type StreamedError = { readonly code: string; readonly message: string }

/**
 * The error of a `response.failed` event. Codex gives up on `invalid_prompt`, `insufficient_quota` and `context_length_exceeded`,
 * comes back after the time that stands in the message of `rate_limit_exceeded`, and tries again soon on everything else.
 */
export function streamedError(failure: Failure): StreamedError {
  const { code, status, message, retryAfterMs, isFinal } = failure
  if (code === 'context-overflow' || code === 'budget-exhausted') return { code: openaiCode(code), message: openaiMessage(failure) }
  if (isFinal) return { code: 'invalid_prompt', message }
  if (status === 429) return { code: 'rate_limit_exceeded', message: retryAfterMs === null ? message : withDelay(message, retryAfterMs) }
  return { code: 'server_error', message }
}

function withDelay(message: string, retryAfterMs: number): string {
  return `${message} (please try again in ${Math.max(0.1, retryAfterMs / 1000)}s)`
}

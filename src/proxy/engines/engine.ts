// What an inference engine is to the boundary: a writer of requests and a strict reader of answers.
import type { CaptureError, EngineKind } from '../../contract/call.ts'
import type { ChatAnswer, ChatMessage, Tool } from '../chat.ts'
import type { JsonObject } from '../json.ts'

type EnginePrompt =
  | { readonly kind: 'messages'; readonly messages: readonly ChatMessage[]; readonly tools: readonly Tool[] | null }
  /** Rendered by the gateway, so that no turn can drift. */
  | {
      readonly kind: 'token-ids'
      readonly ids: readonly number[]
      readonly messages: readonly ChatMessage[]
      readonly tools: readonly Tool[] | null
    }

type EngineRequest = { readonly prompt: EnginePrompt; readonly parameters: JsonObject; readonly model: string }

export type HttpRequest = {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

export type HttpResponse = { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: Uint8Array }

/** Ids and logprobs as the engine gave them, by position; `error` says why they cannot be trained. Never padded, never re-tokenised. */
export type CapturedTokens = {
  readonly promptIds: readonly number[]
  readonly sampledIds: readonly number[]
  readonly logprobs: readonly number[] | null
  readonly error: CaptureError | null
}

export type EngineReply =
  | { readonly type: 'answer'; readonly answer: ChatAnswer; readonly tokens: CapturedTokens; readonly weightVersion: string | null }
  /** The engine gave up: a partial text that must never be taken for an answer. */
  | {
      readonly type: 'aborted'
      readonly finishReason: 'abort' | 'unknown'
      readonly tokens: CapturedTokens
      readonly weightVersion: string | null
      readonly detail: string
    }
  /** `fittingMaxTokens`: the engine named the budget that would have fitted. */
  | {
      readonly type: 'rejected'
      readonly status: number
      readonly reason: 'context-overflow' | 'other'
      readonly message: string
      readonly retryAfterMs: number | null
      readonly fittingMaxTokens: number | null
    }
  /** Status 200 with a body that is no completion. */
  | { readonly type: 'garbled'; readonly detail: string }

export type Engine = {
  readonly kind: EngineKind
  /** What its logprobs mean in its default configuration. */
  readonly logprobMode: 'raw' | 'processed' | 'unknown'
  /** Refused when this engine has no route for that kind of prompt. */
  write(request: EngineRequest): { readonly ok: true; readonly http: HttpRequest } | { readonly ok: false; readonly detail: string }
  read(response: HttpResponse): EngineReply
}

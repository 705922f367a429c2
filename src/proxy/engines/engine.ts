// What an inference engine is to the boundary: a writer of requests and a strict reader of answers.
import type { CaptureError, Diagnostic, EngineKind } from '../../contract/call.ts'
import type { AnswerFormat } from '../answer-text/answer-text.ts'
import type { ChatAnswer, ChatMessage, Countable, Tool } from '../chat.ts'
import type { JsonObject } from '../json.ts'
import type { Tell } from '../live/answer-delta.ts'
import type { Follow, TransportReply } from './transport.ts'
import type { Weights } from './weight-spans.ts'

type EnginePrompt =
  | { readonly kind: 'messages'; readonly messages: readonly ChatMessage[]; readonly tools: readonly Tool[] | null }
  /** Rendered by the gateway, so that no turn can drift. */
  | {
      readonly kind: 'token-ids'
      readonly ids: readonly number[]
      readonly messages: readonly ChatMessage[]
      readonly tools: readonly Tool[] | null
    }

export type EngineRequest = {
  readonly prompt: EnginePrompt
  readonly parameters: JsonObject
  readonly model: string
  /** Alternatives wanted at each position; 0 asks for the sampled token's logprob alone. */
  readonly topLogprobs: number
  /** How the model writes its answers, for engines that give back bare text. */
  readonly format: AnswerFormat
}

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
  | (Weights & {
      readonly type: 'answer'
      readonly answer: ChatAnswer
      readonly tokens: CapturedTokens
      /** What was odd about reading it. */
      readonly diagnostics: readonly Diagnostic[]
    })
  /** The engine gave up: a partial text that must never be taken for an answer. */
  | (Weights & {
      readonly type: 'aborted'
      readonly finishReason: 'abort' | 'unknown'
      readonly tokens: CapturedTokens
      readonly detail: string
    })
  /** `fittingMaxTokens`: what the lengths that the engine names leave; vLLM counts a prompt only as far as the asked budget lets it be. */
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

/** One exchange with the engine's server, within the call's own deadline; never rejects. */
export type Send = (request: HttpRequest, follow?: Follow) => Promise<TransportReply>

export type EngineOutcome =
  | EngineReply
  /** An exchange broke: nothing is known of the generation. */
  | { readonly type: 'broken'; readonly reply: Extract<TransportReply, { ok: false }> }
  /** This engine has no route for that kind of prompt; nothing was sent. */
  | { readonly type: 'unserved'; readonly detail: string }

export type Engine = {
  readonly kind: EngineKind
  /** Where it says whether it sleeps, since a generation can be the end of one that does (vllm#15483); null: it has no such route. */
  readonly sleepPath: string | null
  /** Where it says which weights it has; null: it has no such route, or its answers say so themselves. */
  readonly weightsPath: string | null
  /** One generation, by as many exchanges as it takes. Never rejects. */
  generate(request: EngineRequest, send: Send): Promise<EngineOutcome>
  /**
   * The same generation as a stream: what is certain of the answer is told as it comes, in order, and the outcome is that of `generate`.
   * Null for an engine whose streams lose what is captured. Never rejects.
   */
  readonly stream: ((request: EngineRequest, send: Send, tell: Tell) => Promise<EngineOutcome>) | null
  /** Length of the prompt by the engine's own tokenizer; null when it does not say. Never rejects. */
  countTokens(countable: Countable, model: string, send: Send): Promise<number | null>
}

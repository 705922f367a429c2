// The wire shapes an engine of ours can take, behind one face.
import type { ChatRequest } from './chat-request.ts'
import type { Generation } from './generation.ts'
import { llamacpp } from './llamacpp.ts'
import { sglang } from './sglang.ts'
import { vllm } from './vllm.ts'

export type ShapeName = 'vllm' | 'sglang' | 'llamacpp'

/** One server-sent event of a streamed answer. */
export type StreamChunk = {
  /** The chunk waits until this many tokens have been sampled; 0 waits for nothing. */
  readonly afterTokens: number
  readonly data: object
}

export type Complaint = {
  readonly status: number
  readonly message: string
  readonly param: string | null
  /** For an error that the engine names by a type of its own, with its particulars. */
  readonly kind?: { readonly type: string; readonly [particular: string]: unknown }
}

export type WireShape = {
  /** `raw`: logprobs before temperature; `processed`: as sampled. */
  readonly defaultLogprobMode: 'raw' | 'processed'
  readonly toolCallPrefix: string
  /** Alternatives that come with logprobs when the request names no number. */
  readonly defaultTopLogprobs: number
  /** False for an engine that ends at its context instead of refusing a budget that does not fit. */
  readonly refusesBudget: boolean
  /** Why the engine refuses a request that is well-formed; null when it serves it. */
  complaint(request: ChatRequest, model: string): Complaint | null
  tooLong(tokens: { readonly limit: number; readonly prompt: number; readonly output: number }): Complaint
  error(complaint: Complaint): object
  completion(generation: Generation, request: ChatRequest): object
  /** All chunks in order, without the closing `[DONE]`. */
  chunks(generation: Generation, request: ChatRequest, tokensPerChunk: number): Iterable<StreamChunk>
}

export const SHAPES: { readonly [K in ShapeName]: WireShape } = { vllm, sglang, llamacpp }

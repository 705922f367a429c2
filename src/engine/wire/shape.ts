// The wire shapes an engine of ours can take, behind one face.
import type { ChatRequest } from './chat-request.ts'
import type { AnswerDelta } from './deltas.ts'
import type { GeneratedChoice, Generation } from './generation.ts'
import { llamacpp } from './llamacpp.ts'
import { sglang } from './sglang.ts'
import { vllm } from './vllm.ts'

export type ShapeName = 'vllm' | 'sglang' | 'llamacpp'

/** Writes the server-sent events of one answer while it grows. */
export type StreamWriter = {
  /** The stream closes with `[DONE]`. */
  readonly saysDone: boolean
  /** Before any token. Of the choices only their number counts. */
  opening(generation: Generation): readonly object[]
  /** What some tokens of a choice have added; the choice holds these and all before. */
  delta(generation: Generation, choice: GeneratedChoice, delta: AnswerDelta): readonly object[]
  /** After the last token of all choices. */
  closing(generation: Generation): readonly object[]
}

/** What the engine's sampler does unasked. */
export type SamplingDefaults = { readonly temperature: number; readonly topP: number; readonly topK: number; readonly minP: number }

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
  readonly defaultSampling: SamplingDefaults
  /** Alternatives that come with logprobs when the request names no number. */
  readonly defaultTopLogprobs: number
  /** False for an engine that ends at its context instead of refusing a budget that does not fit. */
  readonly refusesBudget: boolean
  /** Why the engine refuses a request that is well-formed; null when it serves it. */
  complaint(request: ChatRequest, model: string): Complaint | null
  tooLong(tokens: { readonly limit: number; readonly prompt: number; readonly output: number }): Complaint
  error(complaint: Complaint): object
  completion(generation: Generation, request: ChatRequest): object
  stream(request: ChatRequest): StreamWriter
}

export const SHAPES: { readonly [K in ShapeName]: WireShape } = { vllm, sglang, llamacpp }

// What a request asks of the engine, whichever route it came by, and the form its answer takes.
import type { Generation } from '../wire/generation.ts'
import type { Complaint, StreamChunk, WireShape } from '../wire/shape.ts'
import type { Conversation } from './conversation.ts'
import type { Qwen } from './qwen.ts'

export type Asked = {
  readonly promptIds: readonly number[]
  readonly conversation: Conversation
  /** They show in the prompt's ids as placeholders only. */
  readonly imageUrls: readonly string[]
  readonly model: string | null
  readonly maxTokens: number
  readonly choices: number
  readonly seed: number | null
  readonly temperature: number
  /** Alternatives at each position; 0 when none, or no logprobs at all, were asked for. */
  readonly topLogprobs: number
  readonly stops: readonly string[]
  readonly stopTokenIds: readonly number[]
  readonly parsesTools: boolean
}

export type AnswerForm =
  | { readonly type: 'whole'; whole(generation: Generation): unknown }
  /** All chunks in order, without the closing `[DONE]`. */
  | { readonly type: 'stream'; chunks(generation: Generation, tokensPerChunk: number): Iterable<StreamChunk> }

export type Reading =
  | { readonly ok: true; readonly asked: Asked; readonly form: AnswerForm }
  | { readonly ok: false; readonly complaint: Complaint }

/** What reading a request needs to know of the engine. */
export type Reader = {
  readonly shape: WireShape
  readonly model: string
  readonly maxModelLen: number
  readonly takesImages: boolean
  readonly qwen: Qwen
}

/** Reads the body of one generation route. */
export type ReadRequest = (reader: Reader, body: unknown) => Reading

export function bad(message: string, param: string | null): { readonly ok: false; readonly complaint: Complaint } {
  return { ok: false, complaint: { status: 400, message, param } }
}

/** How many tokens may follow the prompt, or why none do. */
export function budgetOf(
  { shape, maxModelLen }: Reader,
  promptTokens: number,
  asked: number | null,
): { readonly ok: true; readonly maxTokens: number } | { readonly ok: false; readonly complaint: Complaint } {
  const room = maxModelLen - promptTokens
  if (room < 1 || (shape.refusesBudget && room < (asked ?? 1))) {
    return { ok: false, complaint: shape.tooLong({ limit: maxModelLen, prompt: promptTokens, output: asked ?? 0 }) }
  }
  return { ok: true, maxTokens: Math.min(asked ?? room, room) }
}

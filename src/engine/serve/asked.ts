// What a request asks of the engine, whichever route it came by, and the form its answer takes.
import type { ChatMessage, ChatTool } from '../wire/chat-request.ts'
import type { Generation } from '../wire/generation.ts'
import type { Complaint, SamplingDefaults, StreamWriter, WireShape } from '../wire/shape.ts'
import type { Language } from './language.ts'

export type Asked = {
  readonly promptIds: readonly number[]
  /** Null when the prompt came as text or ids. */
  readonly chat: { readonly messages: readonly ChatMessage[]; readonly tools: readonly ChatTool[] } | null
  /** They show in the prompt's ids as placeholders only. */
  readonly imageUrls: readonly string[]
  readonly model: string | null
  readonly maxTokens: number
  readonly choices: number
  readonly seed: number | null
  /** 0 takes the most probable token. */
  readonly temperature: number
  readonly topP: number
  /** 0 keeps every candidate. */
  readonly topK: number
  readonly minP: number
  /** The model's own end tokens end nothing. */
  readonly ignoresEnd: boolean
  /** Alternatives at each position; 0 when none, or no logprobs at all, were asked for. */
  readonly topLogprobs: number
  readonly stops: readonly string[]
  readonly stopTokenIds: readonly number[]
  readonly parsesTools: boolean
  /** The prompt ends inside a thought, which the model only closes. */
  readonly beginsInThought: boolean
  /** What is asked for and would change which tokens are drawn, by name: an engine that cannot must not ignore it. */
  readonly otherSampling: readonly string[]
}

export type AnswerForm =
  | { readonly type: 'whole'; whole(generation: Generation): unknown }
  | { readonly type: 'stream'; readonly writer: StreamWriter }

export type Reading =
  | { readonly ok: true; readonly asked: Asked; readonly form: AnswerForm }
  | { readonly ok: false; readonly complaint: Complaint }

/** What reading a request needs to know of the engine. One request is read with one reader, whatever is loaded meanwhile. */
export type Reader = {
  readonly shape: WireShape
  readonly model: string
  readonly maxModelLen: number
  readonly takesImages: boolean
  readonly language: Language
}

/** Reads the body of one generation route. */
export type ReadRequest = (reader: Reader, body: unknown) => Reading

export function bad(message: string, param: string | null): { readonly ok: false; readonly complaint: Complaint } {
  return { ok: false, complaint: { status: 400, message, param } }
}

/** More characters than a token has. */
const LONGEST_TOKEN = 128

const longestText = ({ maxModelLen }: Reader): number => (maxModelLen + 1) * LONGEST_TOKEN

/** A text's ids, read as far as the context reaches and a token further: no more is needed to refuse it, and all that is asked meanwhile waits. */
export function encodePrompt(reader: Reader, text: string): readonly number[] {
  return reader.language.encode(text.slice(0, longestText(reader)))
}

/** The same of a text that no template has written. */
export function encodePlain(reader: Reader, text: string): readonly number[] {
  const ids = encodePrompt(reader, text)
  const { textStartId } = reader.language
  return textStartId === null || ids[0] === textStartId ? ids : [textStartId, ...ids]
}

/** All ids of a text that may be no prompt; a complaint where it is longer than any prompt. */
export function encodeText(
  reader: Reader,
  text: string,
): { readonly ok: true; readonly ids: readonly number[] } | { readonly ok: false; readonly complaint: Complaint } {
  const limit = reader.maxModelLen
  if (text.length > longestText(reader)) return { ok: false, complaint: reader.shape.tooLong({ limit, prompt: limit + 1, output: 0 }) }
  return { ok: true, ids: reader.language.encode(text) }
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

/** Why these ids are no prompt of the model's, or null. */
export function promptProblem({ language }: Reader, ids: readonly number[], param: string): Complaint | null {
  if (ids.length === 0) return { status: 400, message: 'The prompt is empty.', param }
  const strange = ids.find((id) => id >= language.vocabularySize)
  if (strange === undefined) return null
  return { status: 400, message: `Token id ${strange} is out of vocabulary: ids are less than ${language.vocabularySize}.`, param }
}

/** Fields that all three engines name alike. */
type SamplingFields = {
  readonly temperature?: number | null | undefined
  readonly top_p?: number | null | undefined
  readonly top_k?: number | null | undefined
  readonly min_p?: number | null | undefined
  readonly ignore_eos?: boolean | null | undefined
}

/** What is asked for, else what the engine does unasked. */
export function samplingOf(
  fields: SamplingFields,
  unasked: SamplingDefaults,
): Pick<Asked, 'temperature' | 'topP' | 'topK' | 'minP' | 'ignoresEnd'> {
  return {
    temperature: Math.max(0, fields.temperature ?? unasked.temperature),
    topP: fields.top_p ?? unasked.topP,
    // Engines write "all of them" as 0, as -1 or as any negative number.
    topK: Math.max(0, fields.top_k ?? unasked.topK),
    minP: fields.min_p ?? unasked.minP,
    ignoresEnd: fields.ignore_eos === true,
  }
}

/** Sampling parameters that change what is drawn, each with the value at which it does not. */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  presence_penalty: [0],
  frequency_penalty: [0],
  repetition_penalty: [1],
  repeat_penalty: [1],
  min_tokens: [0],
  min_new_tokens: [0],
  allowed_token_ids: [],
  bad_words: [],
  regex: [],
  stop_regex: [],
  ebnf: [],
  json_schema: [],
  grammar: [''],
  structural_tag: [],
  structured_outputs: [],
  guided_json: [],
  guided_regex: [],
  guided_choice: [],
  guided_grammar: [],
}

/** Names of what is asked for and not neutral. */
export function otherSampling(fields: Readonly<Record<string, unknown>>): readonly string[] {
  const named = Object.entries(NEUTRAL).flatMap(([name, neutral]) => {
    const value = fields[name]
    const isEmpty = value === undefined || value === null || (Array.isArray(value) && value.length === 0)
    return isEmpty || neutral.includes(value) ? [] : [name]
  })
  const { logit_bias: bias, response_format: format, tool_choice: choice } = fields
  const isBiased = typeof bias === 'object' && bias !== null && Object.keys(bias).length > 0
  const isFormed = typeof format === 'object' && format !== null && 'type' in format && format.type !== 'text'
  // A call that must come is written under a grammar.
  const isForced = choice === 'required' || (typeof choice === 'object' && choice !== null)
  return [...named, ...(isBiased ? ['logit_bias'] : []), ...(isFormed ? ['response_format'] : []), ...(isForced ? ['tool_choice'] : [])]
}

// Why a prompt does not contain the turn that was sampled before it: drift classes that can be told from ids and records alone.
import type { BuilderCall } from './builder.ts'
import type { Conversation, Message } from './conversation.ts'

/**
 * D1 retokenised, D2 reasoning stripped, D4 turn edited, D5 white space changed, D7 truncated turn, D8 system prompt changed, D9 compaction,
 * D11 tool list changed, D12 retry, D17 generation-prompt suffix dropped.
 */
export type DriftClass = 'D1' | 'D2' | 'D4' | 'D5' | 'D7' | 'D8' | 'D9' | 'D11' | 'D12' | 'D17' | 'unclassified'

export type Drift = {
  readonly class: DriftClass
  /** First differing index, in the later call's prompt; null where no two sequences differ, or none are compared. */
  readonly index: number | null
  readonly reason: string
  /** Ids around `index`, or around the end of a turn that was cut: the common ones before it, then what the earlier call has and what this prompt has. */
  readonly window: {
    readonly start: number
    readonly common: readonly number[]
    readonly earlier: readonly number[]
    readonly later: readonly number[]
  } | null
  /** D17: tokens the engine was prompted with that history does not repeat. */
  readonly generation_prompt_tokens?: number
}

const WINDOW_TOKENS = 8
/** A generation prompt ends in a few tokens such as `<think>` and a newline. */
const MAX_GENERATION_SUFFIX = 16

export type Break = {
  readonly class: DriftClass
  readonly reason: string
  readonly generationPromptTokens?: number
  /** True when the later prompt certainly tells the same conversation, messages aside. */
  readonly isRewrite: boolean
}

/**
 * Classifies the break between `later` and the line that ends in `line[0]` (its ancestors follow), which share `shared` tokens.
 * `endToken` is the end-of-turn token where it is known.
 */
export function classifyBreak(
  line: readonly BuilderCall[],
  later: BuilderCall,
  shared: number,
  conversation: Conversation,
  endToken: number | null,
): Break {
  const turn = line.find((call) => call.promptIds.length <= shared)
  const boundary = line.findLast((call) => call.promptIds.length > shared)

  const suffix = boundary === undefined ? 0 : generationSuffix(boundary.promptIds, later.promptIds, shared)
  if (suffix > 0) {
    const reason = 'the generation prompt ends in tokens that history does not repeat'
    return { class: 'D17', reason, generationPromptTokens: suffix, isRewrite: true }
  }
  const sampledBefore = turn === undefined ? 0 : shared - turn.promptIds.length
  if (turn !== undefined && sampledBefore < turn.sampledIds.length) return classifyTurn(turn, later, sampledBefore, conversation, endToken)
  return { class: 'unclassified', reason: 'the prompts differ outside every sampled turn', isRewrite: false }
}

/** The break lies inside the sampled span of `turn`, after `kept` of its tokens. */
export function classifyTurn(
  turn: BuilderCall,
  later: BuilderCall,
  kept: number,
  conversation: Conversation,
  endToken: number | null,
): Break {
  const isRewrite = kept > 0
  const lostBeginning = kept === 0 && startsWithRestOf(later.promptIds, turn.promptIds.length, turn.sampledIds, endToken)
  if (turn.record.finishReason === 'length') return { class: 'D7', reason: 'the turn was cut by its token limit', isRewrite }
  const told = toldAs(turn, later, conversation)
  if (told !== null) return { ...compareMessages(told.sampled, told.told, lostBeginning), isRewrite: true }
  if (lostBeginning) return { class: 'D2', reason: 'the beginning of the turn, its reasoning, is missing from history', isRewrite: true }
  return { class: 'D4', reason: 'the turn was edited after it was sampled', isRewrite }
}

function compareMessages(sampled: Message, told: Message, lostBeginning: boolean): Omit<Break, 'isRewrite'> {
  if (reasoningOf(sampled) !== '' && reasoningOf(told) === '') return { class: 'D2', reason: "the request leaves out the turn's reasoning" }
  const same = (read: (message: Message) => string) => read(sampled) === read(told)
  if (same(contentOf) && same(callsOf)) {
    return reasoningOf(sampled) !== '' || lostBeginning
      ? { class: 'D2', reason: 'the chat template leaves out reasoning' }
      : { class: 'D1', reason: 'the same message was turned into other tokens' }
  }
  if (same(callsOf) && collapse(contentOf(sampled)) === collapse(contentOf(told)))
    return { class: 'D5', reason: 'white space of the turn was changed' }
  return { class: 'D4', reason: 'the turn was edited after it was sampled' }
}

/** The answer as it was given and as the later request tells it, when both are known. */
function toldAs(
  turn: BuilderCall,
  later: BuilderCall,
  conversation: Conversation,
): { readonly sampled: Message; readonly told: Message } | null {
  const { responseMessage, promptMessages } = turn.record
  const place = later.record.promptMessages[promptMessages.length]
  if (responseMessage === null || promptMessages.length === 0 || place === undefined || conversation.role(place) !== 'assistant')
    return null
  return { sampled: conversation.message(responseMessage), told: conversation.message(place) }
}

const contentOf = (message: Message): string => (message.content == null ? '' : JSON.stringify(message.content))
const callsOf = (message: Message): string => (Array.isArray(message.tool_calls) ? JSON.stringify(message.tool_calls) : '[]')
const collapse = (text: string): string => text.replaceAll(/\\[nrt]|\s+/g, ' ').replaceAll(/^"\s*|\s*"$/g, '')

function reasoningOf(message: Message): string {
  const reasoning = message.reasoning_content ?? message.reasoning
  return typeof reasoning === 'string' ? reasoning : ''
}

/** Length of the tail of `earlier` from `from` when `later` ends in the same tail: both end in the template's generation prompt. */
function generationSuffix(earlier: Int32Array, later: Int32Array, from: number): number {
  const length = earlier.length - from
  if (length <= 0 || length > MAX_GENERATION_SUFFIX || later.length - from < length) return 0
  for (let offset = 1; offset <= length; offset++) {
    if (earlier[earlier.length - offset] !== later[later.length - offset]) return 0
  }
  return length
}

/** True when `prompt` from `at` goes on with a tail of `sampled`, whose beginning it lacks, and that tail holds more than the end-of-turn token. */
function startsWithRestOf(prompt: Int32Array, at: number, sampled: Int32Array, endToken: number | null): boolean {
  const pattern = prompt.subarray(at, at + sampled.length)
  const matched = longestTail(sampled, pattern)
  return matched > 1 || (matched === 1 && pattern[0] !== endToken)
}

/** Length of the longest tail of `text` that begins `pattern` (Knuth, Morris, Pratt: linear however repetitive the turn). */
function longestTail(text: Int32Array, pattern: Int32Array): number {
  const fallback = new Int32Array(pattern.length)
  for (let at = 1, length = 0; at < pattern.length; at++) {
    while (length > 0 && pattern[at] !== pattern[length]) length = fallback[length - 1] ?? 0
    if (pattern[at] === pattern[length]) length++
    fallback[at] = length
  }
  let length = 0
  for (let at = 0; at < text.length; at++) {
    while (length > 0 && (length === pattern.length || text[at] !== pattern[length])) length = fallback[length - 1] ?? 0
    if (text[at] === pattern[length]) length++
  }
  return length
}

/** Ids around the first difference between an earlier call's whole sequence and a later prompt. */
export function windowAt(earlier: BuilderCall, later: BuilderCall, index: number): Drift['window'] {
  const start = Math.max(0, index - WINDOW_TOKENS)
  const sampledFrom = earlier.promptIds.length
  const whole = (from: number, to: number): number[] => [
    ...earlier.promptIds.subarray(from, Math.min(to, sampledFrom)),
    ...earlier.sampledIds.subarray(Math.max(0, from - sampledFrom), Math.max(0, to - sampledFrom)),
  ]
  return {
    start,
    common: [...later.promptIds.subarray(start, index)],
    earlier: whole(index, index + WINDOW_TOKENS),
    later: [...later.promptIds.subarray(index, index + WINDOW_TOKENS)],
  }
}

// An answer whose generation was cut off, gone on with from the token ids that it had: one answer in parts, each token as it was drawn.
import type { EngineKind, WeightSpan } from '../../contract/call.ts'
import type { JsonObject } from '../json.ts'
import type { CapturedTokens, Engine, EngineOutcome, EngineReply, EngineRequest, Send } from './engine.ts'
import { bodyOf, isSuccess, post } from './engine-json.ts'
import { llamacpp } from './llamacpp.ts'
import { answerOf } from './own-answer.ts'
import { unservable } from './own-prompt.ts'
import { sglangNative } from './sglang-native.ts'
import { completeIds } from './vllm-completions.ts'
import { joinedSpans } from './weight-spans.ts'

/** What was drawn of an answer before its engine gave it up. */
export type AnswerPart = {
  readonly promptIds: readonly number[]
  readonly sampledIds: readonly number[]
  readonly logprobs: readonly number[]
  readonly weightSpans: readonly WeightSpan[]
}

/** Each server's way from token ids to more of them, and from token ids to their text. */
type TokenIn = {
  readonly generate: Engine['generate']
  readonly spell: { readonly path: string; readonly field: string; readonly wishes: JsonObject }
  /** Whether it samples as far as the context reaches when no budget is named. */
  readonly isOpenEnded: boolean
}

/** Special tokens are part of a text: where calls and thoughts begin is read from it. */
const SGLANG: TokenIn = {
  generate: sglangNative.generate,
  spell: { path: '/detokenize', field: 'text', wishes: { skip_special_tokens: false } },
  isOpenEnded: true,
}
const TOKEN_IN: { readonly [kind in EngineKind]: TokenIn } = {
  vllm: { generate: completeIds, spell: { path: '/detokenize', field: 'prompt', wishes: {} }, isOpenEnded: false },
  sglang: SGLANG,
  'sglang-native': SGLANG,
  llamacpp: { generate: llamacpp.generate, spell: { path: '/detokenize', field: 'content', wishes: {} }, isOpenEnded: true },
}

/** What a sampler remembers of an answer that it has drawn a part of, by parameter: those under which it remembers nothing. */
const FORGETFUL: { readonly [name: string]: (value: unknown) => boolean } = {
  // A match may lie across the cut.
  stop: (value) => Array.isArray(value) && value.length === 0,
  // They look at what was sampled, not at the prompt; SGLang's penalty of repetitions does so, too (penaltylib/repetition_penalty.py).
  presence_penalty: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  repetition_penalty: (value) => value === 1,
  min_tokens: (value) => value === 0,
  include_stop_str_in_output: (value) => value === false,
}
const FREE: ReadonlySet<string> = new Set([
  'max_tokens',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'stop_token_ids',
  'ignore_eos',
  'skip_special_tokens',
  'spaces_between_special_tokens',
  'reasoning_effort',
  'chat_template_kwargs',
  'add_generation_prompt',
  'continue_final_message',
  'cache_salt',
  'logit_bias',
  'tool_choice',
  'parallel_tool_calls',
])

/** Enough of a prompt's end to see whether it opens a thought. */
const OPENING_TOKENS = 8

/** Null when nothing was drawn, when it could not be trained, and when it may be the whole: an end that was not said is not an abort. */
export function answerPartOf({ finishReason, tokens, weightSpans }: Extract<EngineReply, { type: 'aborted' }>): AnswerPart | null {
  const { promptIds, sampledIds, logprobs, error } = tokens
  return finishReason === 'abort' && error === null && logprobs !== null && sampledIds.length > 0
    ? { promptIds, sampledIds, logprobs, weightSpans }
    : null
}

/** Why an answer must be drawn anew instead; null when it can be gone on with. */
export function whyAnew(kind: EngineKind, request: EngineRequest, part: AnswerPart, contextTokens: number | null): string | null {
  if (unservable(request) !== null) return 'its prompt cannot be sent as token ids'
  const [remembered] = Object.entries(request.parameters).find(
    ([name, value]) => value !== undefined && value !== null && !FREE.has(name) && FORGETFUL[name]?.(value) !== true,
  ) ?? [null]
  if (remembered !== null) return `${remembered} would not hold across the cut`
  const left = leftOf(kind, request, part, contextTokens)
  if (left === null) return 'nobody knows how much may follow'
  return left === 'all' || left > 0 ? null : 'nothing may follow'
}

/** How much may follow; `all` is what the context holds. Null: not known. */
function leftOf(kind: EngineKind, { parameters }: EngineRequest, part: AnswerPart, contextTokens: number | null): number | 'all' | null {
  const { max_tokens: budget } = parameters
  const sampled = part.sampledIds.length
  if (typeof budget === 'number') return budget - sampled
  if (TOKEN_IN[kind].isOpenEnded) return 'all'
  return contextTokens === null ? null : contextTokens - part.promptIds.length - sampled
}

/** The outcome is that of the whole answer: all tokens, the text of all of them, the weights of each. Never rejects. */
export async function goOn(
  kind: EngineKind,
  request: EngineRequest,
  part: AnswerPart,
  contextTokens: number | null,
  send: Send,
): Promise<EngineOutcome> {
  const { prompt, parameters } = request
  const left = leftOf(kind, request, part, contextTokens)
  const ids = [...part.promptIds, ...part.sampledIds]
  const { messages, tools } = prompt
  const rest = await TOKEN_IN[kind].generate(
    {
      ...request,
      prompt: { kind: 'token-ids', ids, messages, tools },
      parameters: typeof left === 'number' ? { ...parameters, max_tokens: left } : parameters,
    },
    send,
  )
  if (rest.type === 'answer') return wholeAnswer(kind, request, part, rest, send)
  return rest.type === 'aborted' ? { ...rest, ...joined(part, rest) } : rest
}

async function wholeAnswer(
  kind: EngineKind,
  request: EngineRequest,
  part: AnswerPart,
  rest: Extract<EngineReply, { type: 'answer' }>,
  send: Send,
): Promise<EngineOutcome> {
  const { tokens, weightVersion, weightSpans } = joined(part, rest)
  const { usage, stopSequence } = rest.answer
  const finishReason = endOf(rest.answer.finishReason)
  const shown = finishReason === 'stop' ? tokens.sampledIds.slice(0, -1) : tokens.sampledIds
  const [text, opening] = await Promise.all([
    spelt(kind, shown, request.model, send),
    spelt(kind, part.promptIds.slice(-OPENING_TOKENS), request.model, send),
  ])
  if (text === null || opening === null || tokens.error?.code === 'ids-missing') {
    return { type: 'garbled', detail: 'the server does not say the text of token ids' }
  }
  return answerOf(request, {
    // A budget may end inside a character.
    text: finishReason === 'length' ? text.replace(/\uFFFD+$/, '') : text,
    beginsInThought: /<think>\s*$/.test(opening),
    finishReason,
    stopSequence,
    usage: {
      promptTokens: part.promptIds.length,
      completionTokens: tokens.sampledIds.length,
      cachedTokens: usage.cachedTokens === null ? null : Math.min(usage.cachedTokens, part.promptIds.length),
      reasoningTokens: null,
    },
    tokens,
    weights: { weightVersion, weightSpans },
    logprobs: null,
  })
}

function joined(part: AnswerPart, rest: Extract<EngineReply, { type: 'answer' | 'aborted' }>) {
  const { sampledIds, logprobs, error } = rest.tokens
  // Given up before it drew anything more: what there was stands.
  const isNothing = rest.type === 'aborted' && sampledIds.length === 0
  const tokens: CapturedTokens = {
    promptIds: part.promptIds,
    sampledIds: [...part.sampledIds, ...sampledIds],
    logprobs: isNothing ? part.logprobs : logprobs === null ? null : [...part.logprobs, ...logprobs],
    error: isNothing ? null : error,
  }
  return { tokens, weightVersion: rest.weightVersion, weightSpans: joinedSpans(part.weightSpans, rest.weightSpans) }
}

/** A call that the text of the rest seemed to hold is looked for in the whole. */
function endOf(finishReason: string): 'stop' | 'length' | 'content_filter' {
  return finishReason === 'length' || finishReason === 'content_filter' ? finishReason : 'stop'
}

async function spelt(kind: EngineKind, tokens: readonly number[], model: string, send: Send): Promise<string | null> {
  const { path, field, wishes } = TOKEN_IN[kind].spell
  if (tokens.length === 0) return ''
  const reply = await send(post(path, { model, tokens, ...wishes }))
  const text = reply.ok && isSuccess(reply.response) ? bodyOf(reply.response)?.[field] : null
  return typeof text === 'string' ? text : null
}

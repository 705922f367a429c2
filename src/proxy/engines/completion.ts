// Reading one OpenAI-shaped chat completion strictly: message, finish reason, usage, and tokens that either agree or carry an error.
import type { Diagnostic, FinishReason, Usage } from '../../contract/call.ts'
import type { AnswerMessage, ToolCall } from '../chat.ts'
import { isObject, type JsonObject } from '../json.ts'
import type { CapturedTokens, EngineReply, HttpResponse } from './engine.ts'
import { isSuccess, parseEngineJson } from './engine-json.ts'
import { readRejection } from './rejection.ts'
import { count, readTokens, type TokenFields } from './tokens.ts'
import { readWeights } from './weight-spans.ts'

/** Where an engine puts what OpenAI's shape has no place for. */
export type Places = {
  readonly promptIds: (body: JsonObject, choice: JsonObject) => unknown
  readonly sampledIds: (choice: JsonObject) => unknown
  /** The tokens that the logprobs themselves name; null where they name none. */
  readonly namedIds: (choice: JsonObject) => readonly unknown[] | null
  /** Null when the engine sent none; the numbers may still be wrong. */
  readonly logprobs: (choice: JsonObject) => readonly unknown[] | null
  /** The list of which weights sampled what, and the one version that is stated beside it. */
  readonly weights: (body: JsonObject, choice: JsonObject) => { readonly listed: unknown; readonly stated: unknown }
  /** The stop string or stop token that ended the choice. */
  readonly matchedStop: (choice: JsonObject) => unknown
}

const FIELDS: TokenFields = {
  promptIds: 'prompt_token_ids',
  sampledIds: 'token_ids',
  logprobs: 'logprobs',
  promptTokens: 'usage.prompt_tokens',
  completionTokens: 'usage.completion_tokens',
}

export function readCompletion(response: HttpResponse, places: Places): EngineReply {
  if (!isSuccess(response)) return readRejection(response)
  const parsed = parseEngineJson(response.body)
  const body = parsed.ok && isObject(parsed.value) ? parsed.value : null
  // The parser's own sentence quotes the body, which is not for clients to see.
  if (body === null) return { type: 'garbled', detail: parsed.ok ? 'the body is not an object' : 'the body is not JSON' }
  return readCompletionBody(body, places, [])
}

/** `diagnostics`: what was odd before it was a body. */
export function readCompletionBody(body: JsonObject, places: Places, diagnostics: readonly Diagnostic[]): EngineReply {
  const choice: unknown = Array.isArray(body.choices) ? body.choices[0] : undefined
  if (!isObject(choice)) return { type: 'garbled', detail: 'choices[0] is missing' }
  const message = readMessage(choice.message)
  if (message === null) return { type: 'garbled', detail: 'choices[0].message is not a chat message' }
  const reported = isObject(body.usage) ? body.usage : {}
  const tokens = readTokens(
    {
      promptIds: places.promptIds(body, choice),
      sampledIds: places.sampledIds(choice),
      namedIds: places.namedIds(choice),
      logprobs: places.logprobs(choice),
      promptTokens: reported.prompt_tokens,
      completionTokens: reported.completion_tokens,
    },
    FIELDS,
  )
  const { listed, stated } = places.weights(body, choice)
  const weights = readWeights(listed, stated, tokens.sampledIds.length)
  const finishReason = readFinishReason(choice.finish_reason)
  if (finishReason === 'abort' || finishReason === 'unknown') {
    const detail = `finish_reason ${JSON.stringify(choice.finish_reason) ?? 'missing'}`
    return { type: 'aborted', finishReason, tokens, ...weights, detail }
  }
  const logprobs = tellableLogprobs(choice.logprobs)
  const matched = places.matchedStop(choice)
  const stopSequence = typeof matched === 'string' && matched !== '' ? matched : null
  return {
    type: 'answer',
    answer: { message, finishReason, usage: readUsage(reported, tokens), stopSequence, logprobs },
    tokens,
    ...weights,
    diagnostics,
  }
}

/** Of OpenAI's entries, which name no id. */
export function contentLogprobs({ logprobs }: JsonObject): readonly unknown[] | null {
  if (!isObject(logprobs) || !Array.isArray(logprobs.content)) return null
  return logprobs.content.map((entry: unknown) => (isObject(entry) ? entry.logprob : undefined))
}

/** All of them or none: a client that asked for them knows numbers alone. */
function tellableLogprobs(logprobs: unknown): readonly unknown[] | null {
  if (!isObject(logprobs) || !Array.isArray(logprobs.content)) return null
  const entries: readonly unknown[] = logprobs.content
  return entries.every((entry) => isObject(entry) && Number.isFinite(entry.logprob)) ? entries : null
}

/** An abort, a missing reason and a reason nobody knows never become `stop`. */
export function readFinishReason(reason: unknown): FinishReason {
  switch (reason) {
    case 'stop':
    case 'length':
    case 'tool_calls':
    case 'content_filter':
    case 'abort':
      return reason
    case 'function_call':
      return 'tool_calls'
    default:
      return 'unknown'
  }
}

function readMessage(value: unknown): AnswerMessage | null {
  if (!isObject(value)) return null
  const { content } = value
  if (content !== null && content !== undefined && typeof content !== 'string') return null
  const calls = readToolCalls(value.tool_calls)
  if (calls === null) return null
  const reasoning = value.reasoning_content ?? value.reasoning
  return {
    role: 'assistant',
    content: content ?? null,
    ...(typeof reasoning === 'string' && reasoning !== '' ? { reasoning_content: reasoning } : {}),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** A missing id stays empty: whoever opened the call gives it one. */
function readToolCalls(value: unknown): readonly ToolCall[] | null {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return null
  const calls: ToolCall[] = []
  for (const call of value) {
    const definition: unknown = isObject(call) ? call.function : null
    if (!isObject(call) || !isObject(definition) || typeof definition.name !== 'string') return null
    const args = definition.arguments
    calls.push({
      id: typeof call.id === 'string' ? call.id : '',
      type: 'function',
      function: { name: definition.name, arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}) },
    })
  }
  return calls
}

function readUsage(reported: JsonObject, tokens: CapturedTokens): Usage {
  const prompt = reported.prompt_tokens_details
  const completion = reported.completion_tokens_details
  const reasoning = isObject(completion) ? completion.reasoning_tokens : reported.reasoning_tokens
  return {
    promptTokens: count(reported.prompt_tokens) ?? tokens.promptIds.length,
    completionTokens: count(reported.completion_tokens) ?? tokens.sampledIds.length,
    cachedTokens: isObject(prompt) ? count(prompt.cached_tokens) : null,
    reasoningTokens: count(reasoning),
  }
}

// Reading one OpenAI-shaped chat completion strictly: message, finish reason, usage, and tokens that either agree or carry an error.
import type { CaptureError, FinishReason, Usage } from '../../contract/call.ts'
import type { AnswerMessage, ToolCall } from '../chat.ts'
import { isObject, type JsonObject, type Parsed, parseJson } from '../json.ts'
import type { CapturedTokens, EngineReply, HttpResponse } from './engine.ts'

/** Where an engine puts what OpenAI's shape has no place for. */
export type Places = {
  readonly promptIds: (body: JsonObject, choice: JsonObject) => unknown
  readonly sampledIds: (choice: JsonObject) => unknown
  /** Null when the engine sent none; the numbers may still be wrong. */
  readonly logprobs: (choice: JsonObject) => readonly unknown[] | null
  readonly weightVersion: (body: JsonObject, choice: JsonObject) => unknown
  /** The stop string or stop token that ended the choice. */
  readonly matchedStop: (choice: JsonObject) => unknown
}

export function readCompletion(response: HttpResponse, places: Places): EngineReply {
  const parsed = parseEngineJson(response.body)
  const body = parsed.ok && isObject(parsed.value) ? parsed.value : null
  if (response.status < 200 || response.status > 299) return readRejection(response, body)
  if (body === null) return { type: 'garbled', detail: parsed.ok ? 'the body is not an object' : parsed.detail }
  const choice: unknown = Array.isArray(body.choices) ? body.choices[0] : undefined
  if (!isObject(choice)) return { type: 'garbled', detail: 'choices[0] is missing' }
  const message = readMessage(choice.message)
  if (message === null) return { type: 'garbled', detail: 'choices[0].message is not a chat message' }
  const reported = isObject(body.usage) ? body.usage : {}
  const tokens = readTokens(body, choice, reported, places)
  const version = places.weightVersion(body, choice)
  const weightVersion = typeof version === 'string' || typeof version === 'number' ? String(version) : null
  const finishReason = readFinishReason(choice.finish_reason)
  if (finishReason === 'abort' || finishReason === 'unknown') {
    const detail = `finish_reason ${JSON.stringify(choice.finish_reason) ?? 'missing'}`
    return { type: 'aborted', finishReason, tokens, weightVersion, detail }
  }
  const logprobs = isObject(choice.logprobs) && Array.isArray(choice.logprobs.content) ? choice.logprobs.content : null
  const matched = places.matchedStop(choice)
  const stopSequence = typeof matched === 'string' && matched !== '' ? matched : null
  return {
    type: 'answer',
    answer: { message, finishReason, usage: readUsage(reported, tokens), stopSequence, logprobs },
    tokens,
    weightVersion,
  }
}

/** Python writes bare NaN and Infinity; the agent's answer must not be lost to one bad logprob, which is found below. */
function parseEngineJson(bytes: Uint8Array): Parsed {
  const parsed = parseJson(bytes)
  if (parsed.ok) return parsed
  const text = new TextDecoder().decode(bytes)
  const repaired = text.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g, (token) => (token.startsWith('"') ? token : 'null'))
  return repaired === text ? parsed : parseJson(Buffer.from(repaired))
}

/** An abort, a missing reason and a reason nobody knows never become `stop`. */
function readFinishReason(reason: unknown): FinishReason {
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

function readTokens(body: JsonObject, choice: JsonObject, reported: JsonObject, places: Places): CapturedTokens {
  const promptIds = readIds(places.promptIds(body, choice))
  const sampledIds = readIds(places.sampledIds(choice))
  const given = places.logprobs(choice)
  if (promptIds === null || sampledIds === null) {
    const missing = promptIds === null ? 'prompt_token_ids' : 'token_ids'
    return {
      promptIds: [],
      sampledIds: [],
      logprobs: null,
      error: { code: 'ids-missing', detail: `${missing}: not an array of token ids` },
    }
  }
  const error = disagreement(promptIds, sampledIds, given, reported)
  return { promptIds, sampledIds, logprobs: error === null && given !== null ? given.map(Number) : null, error }
}

function disagreement(
  promptIds: readonly number[],
  sampledIds: readonly number[],
  logprobs: readonly unknown[] | null,
  reported: JsonObject,
): CaptureError | null {
  if (promptIds.length === 0) return { code: 'prompt-empty', detail: 'prompt_token_ids is empty' }
  if (sampledIds.length === 0) return { code: 'sampled-empty', detail: 'token_ids is empty' }
  const completionTokens = count(reported.completion_tokens)
  if (completionTokens !== null && completionTokens !== sampledIds.length) {
    return { code: 'lengths-differ', detail: `token_ids has ${sampledIds.length}, usage.completion_tokens says ${completionTokens}` }
  }
  const promptTokens = count(reported.prompt_tokens)
  if (promptTokens !== null && promptTokens !== promptIds.length) {
    return { code: 'lengths-differ', detail: `prompt_token_ids has ${promptIds.length}, usage.prompt_tokens says ${promptTokens}` }
  }
  if (logprobs === null) return { code: 'logprobs-missing', detail: 'choices[0].logprobs is missing' }
  if (logprobs.length !== sampledIds.length) {
    return { code: 'lengths-differ', detail: `token_ids has ${sampledIds.length}, logprobs has ${logprobs.length}` }
  }
  const wrong = logprobs.findIndex((logprob) => typeof logprob !== 'number' || !Number.isFinite(logprob) || logprob > 0)
  if (wrong !== -1) return { code: 'logprob-not-finite', detail: `logprobs[${wrong}] is ${JSON.stringify(logprobs[wrong]) ?? 'missing'}` }
  return null
}

function readIds(value: unknown): readonly number[] | null {
  if (!Array.isArray(value)) return null
  return value.every((id) => Number.isInteger(id) && id >= 0 && id <= 0x7fffffff) ? value : null
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
}

function readRejection(response: HttpResponse, body: JsonObject | null): EngineReply {
  const inner = body !== null && isObject(body.error) ? body.error : body
  const told = inner === null ? undefined : (inner.message ?? inner.detail)
  const message = typeof told === 'string' && told !== '' ? told.slice(0, 2_000) : `the engine answered ${response.status}`
  const fittingMaxTokens = response.status === 400 ? fitting(message) : null
  const overflows =
    response.status === 400 && fittingMaxTokens === null && /context length|longer than the (model|maximum)|max_model_len/i.test(message)
  return {
    type: 'rejected',
    status: response.status,
    reason: overflows ? 'context-overflow' : 'other',
    message,
    retryAfterMs: retryAfterMs(response.headers['retry-after']),
    fittingMaxTokens,
  }
}

/** Both sentences with which engines refuse a budget name the numbers; what is left of the context fits. */
function fitting(message: string): number | null {
  const short = /\(\d+ > (\d+) - (\d+)\)/.exec(message)
  const long = /maximum context length is (\d+) tokens.*\((\d+) in the messages/s.exec(message)
  const [, context, prompt] = short ?? long ?? []
  if (context === undefined || prompt === undefined) return null
  const left = Number(context) - Number(prompt)
  return left >= 1 ? left : null
}

function retryAfterMs(header: string | undefined): number | null {
  const seconds = Number(header)
  return header !== undefined && header !== '' && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null
}

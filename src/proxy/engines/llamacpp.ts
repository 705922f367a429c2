// llama.cpp's server: prompt ids by its own template and tokenizer, generation by its own /completion (see docs/adr/0008).
import type { Countable } from '../chat.ts'
import { isObject, type JsonObject } from '../json.ts'
import type { CapturedTokens, Engine, EngineOutcome, EngineReply, EngineRequest, HttpResponse, Send } from './engine.ts'
import { bodyOf, isSuccess, post } from './engine-json.ts'
import { answerOf } from './own-answer.ts'
import { conversationBody, type OwnPrompt, opensThought, parsesCalls, samplerParameters, unservable } from './own-prompt.ts'
import { readRejection, refused } from './rejection.ts'
import { count, readIds, readTokens, type TokenFields } from './tokens.ts'
import { readWeights } from './weight-spans.ts'

/** By the name that chat has for it (server-schema.cpp). */
const SAMPLING: { readonly [name: string]: string } = {
  max_tokens: 'n_predict',
  temperature: 'temperature',
  top_p: 'top_p',
  top_k: 'top_k',
  min_p: 'min_p',
  seed: 'seed',
  presence_penalty: 'presence_penalty',
  frequency_penalty: 'frequency_penalty',
  repetition_penalty: 'repeat_penalty',
  ignore_eos: 'ignore_eos',
  json_schema: 'json_schema',
}
/** Nothing depends on them here, or the value asked for is what the server does anyway. */
const NEEDLESS: { readonly [name: string]: (value: unknown) => boolean } = {
  cache_salt: () => true,
  skip_special_tokens: (value) => value === true,
  spaces_between_special_tokens: (value) => value === true,
  include_stop_str_in_output: (value) => value === false,
  min_tokens: (value) => value === 0,
  stop_token_ids: (value) => Array.isArray(value) && value.length === 0,
}

const FIELDS: TokenFields = {
  promptIds: 'the prompt',
  sampledIds: 'tokens',
  logprobs: 'completion_probabilities',
  promptTokens: 'tokens_evaluated',
  completionTokens: 'tokens_predicted',
}

export const llamacpp: Engine = {
  kind: 'llamacpp',
  sleepPath: null,
  weightsPath: null,
  async generate(request, send) {
    const written = writeParameters(request)
    if (!written.ok) return written.outcome
    const refusal = unservable(request)
    if (refusal !== null) return refusal
    const prompt = await promptOf(request, send)
    if (!prompt.ok) return prompt.outcome
    const body = {
      prompt: prompt.ids,
      ...written.body,
      // No alternatives would be no logprobs at all.
      n_probs: Math.max(1, request.topLogprobs),
      return_tokens: true,
      cache_prompt: true,
      stream: false,
    }
    const reply = await send(post('/completion', body))
    return reply.ok ? readOwnCompletion(reply.response, request, prompt) : { type: 'broken', reply }
  },
  // Its streams leave out each token that ends inside a character (server-context.cpp: process_token).
  stream: null,
  async countTokens(countable, model, send) {
    const text = countable.kind === 'text' ? countable.text : await renderCountable(countable, model, send)
    if (text === null) return null
    const tokenized = await tokenize(text, countable.kind !== 'text', send)
    return tokenized.ok ? tokenized.ids.length : null
  },
}

type Written = { readonly ok: true; readonly body: JsonObject } | { readonly ok: false; readonly outcome: EngineOutcome }

function writeParameters(request: EngineRequest): Written {
  const body: Record<string, unknown> = { n_predict: -1 }
  const markers = markersOf(request)
  if (markers.length > 0) body.preserved_tokens = markers
  for (const [name, value] of samplerParameters(request.parameters)) {
    const mapped = SAMPLING[name]
    if (mapped !== undefined) body[mapped] = value
    else if (name === 'stop') body.stop = typeof value === 'string' ? [value] : value
    else if (NEEDLESS[name]?.(value) !== true) {
      return { ok: false, outcome: refused(`${name}: cannot be served by this inference server`) }
    }
  }
  return { ok: true, body }
}

/** Control tokens leave no text unless they are named. */
function markersOf(request: EngineRequest): readonly string[] {
  const { format } = request
  return [
    ...(format.reasoning === 'none' ? [] : ['<think>', '</think>']),
    ...(format.calls === 'none' || !parsesCalls(request) ? [] : ['<tool_call>', '</tool_call>']),
  ]
}

async function promptOf(request: EngineRequest, send: Send): Promise<OwnPrompt> {
  if (request.prompt.kind === 'token-ids') return { ok: true, ids: request.prompt.ids, beginsInThought: opensThought(request) }
  const rendered = await render(conversationBody(request), send)
  if (!rendered.ok) return rendered
  const tokenized = await tokenize(rendered.text, true, send)
  // What the template wrote says more than what is known of the model.
  return tokenized.ok ? { ...tokenized, beginsInThought: /<think>\s*$/.test(rendered.text) } : tokenized
}

type Failed = { readonly ok: false; readonly outcome: EngineOutcome }

async function render(body: JsonObject, send: Send): Promise<{ readonly ok: true; readonly text: string } | Failed> {
  const reply = await send(post('/apply-template', body))
  if (!reply.ok) return { ok: false, outcome: { type: 'broken', reply } }
  if (!isSuccess(reply.response)) return { ok: false, outcome: readRejection(reply.response) }
  const text = bodyOf(reply.response)?.prompt
  if (typeof text === 'string') return { ok: true, text }
  return { ok: false, outcome: { type: 'garbled', detail: '/apply-template: prompt is not a text' } }
}

/** As the server encodes a chat's prompt: names of special tokens are read as such, and a beginning that the model wants is added. */
async function tokenize(
  text: string,
  isPrompt: boolean,
  send: Send,
): Promise<{ readonly ok: true; readonly ids: readonly number[] } | Failed> {
  const reply = await send(post('/tokenize', { content: text, add_special: isPrompt, parse_special: isPrompt }))
  if (!reply.ok) return { ok: false, outcome: { type: 'broken', reply } }
  if (!isSuccess(reply.response)) return { ok: false, outcome: readRejection(reply.response) }
  const ids = readIds(bodyOf(reply.response)?.tokens)
  if (ids !== null) return { ok: true, ids }
  return { ok: false, outcome: { type: 'garbled', detail: '/tokenize: tokens is not an array of token ids' } }
}

async function renderCountable(countable: Extract<Countable, { kind: 'messages' }>, model: string, send: Send): Promise<string | null> {
  const { messages, tools, parameters } = countable.request
  const kwargs = parameters.chat_template_kwargs
  const body = { messages, ...(tools === null ? {} : { tools }), ...(kwargs === undefined ? {} : { chat_template_kwargs: kwargs }), model }
  const rendered = await render(body, send)
  return rendered.ok ? rendered.text : null
}

function readOwnCompletion(response: HttpResponse, request: EngineRequest, prompt: Extract<OwnPrompt, { ok: true }>): EngineReply {
  if (!isSuccess(response)) return readRejection(response)
  const body = bodyOf(response)
  if (body === null || typeof body.content !== 'string') return { type: 'garbled', detail: 'the body has no content' }
  const entries = Array.isArray(body.completion_probabilities) ? body.completion_probabilities : null
  const tokens = tokensOf(prompt.ids, entries, body)
  // Its weights have no name.
  const weights = readWeights(null, null, tokens.sampledIds.length)
  const finishReason = finishOf(body.stop_type)
  if (finishReason === null) {
    const detail = `stop_type ${JSON.stringify(body.stop_type) ?? 'missing'}`
    return { type: 'aborted', finishReason: body.stop_type === 'none' ? 'abort' : 'unknown', tokens, ...weights, detail }
  }
  const cached = isObject(body.timings) ? count(body.timings.cache_n) : null
  return answerOf(request, {
    text: body.content,
    beginsInThought: prompt.beginsInThought,
    finishReason,
    stopSequence: body.stop_type === 'word' && typeof body.stopping_word === 'string' ? body.stopping_word : null,
    usage: {
      promptTokens: count(body.tokens_evaluated) ?? prompt.ids.length,
      completionTokens: count(body.tokens_predicted) ?? tokens.sampledIds.length,
      cachedTokens: cached,
      reasoningTokens: null,
    },
    tokens,
    weights,
    logprobs: entries,
  })
}

function finishOf(stopType: unknown): 'stop' | 'length' | null {
  if (stopType === 'eos' || stopType === 'word') return 'stop'
  return stopType === 'limit' ? 'length' : null
}

function tokensOf(promptIds: readonly number[], entries: readonly unknown[] | null, body: JsonObject): CapturedTokens {
  return readTokens(
    {
      promptIds,
      sampledIds: body.tokens,
      namedIds: entries?.map((entry) => (isObject(entry) ? entry.id : undefined)) ?? null,
      logprobs: entries?.map((entry) => (isObject(entry) ? entry.logprob : undefined)) ?? null,
      promptTokens: body.tokens_evaluated,
      completionTokens: body.tokens_predicted,
    },
    FIELDS,
  )
}

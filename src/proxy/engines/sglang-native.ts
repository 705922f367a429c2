// SGLang's own /generate: the boundary tokenises by the engine's tokenizer, sends ids, and reads the bare text itself.
import { openGrowingText } from '../answer-text/growing-text.ts'
import { isObject, type JsonObject } from '../json.ts'
import { readFinishReason } from './completion.ts'
import { countByTokenizer } from './count.ts'
import type { Engine, EngineOutcome, EngineReply, EngineRequest, HttpRequest, HttpResponse, Send } from './engine.ts'
import { bodyOf, isSuccess, post } from './engine-json.ts'
import { follow } from './following.ts'
import { openGeneratedFold } from './generated-fold.ts'
import { answerOf } from './own-answer.ts'
import { conversationBody, type OwnPrompt, opensThought, parsesCalls, samplerParameters, unservable } from './own-prompt.ts'
import { readRejection, refused } from './rejection.ts'
import { triplesOf } from './sglang-meta.ts'
import { count, readIds, readTokens, type TokenFields } from './tokens.ts'
import { readWeights } from './weight-spans.ts'

/** By the name that chat has for it: SGLang's `SamplingParams`, or beside it in the request (io_struct.py). */
const SAMPLING: { readonly [name: string]: string } = {
  max_tokens: 'max_new_tokens',
  temperature: 'temperature',
  top_p: 'top_p',
  top_k: 'top_k',
  min_p: 'min_p',
  seed: 'sampling_seed',
  presence_penalty: 'presence_penalty',
  frequency_penalty: 'frequency_penalty',
  repetition_penalty: 'repetition_penalty',
  stop: 'stop',
  stop_token_ids: 'stop_token_ids',
  min_tokens: 'min_new_tokens',
  ignore_eos: 'ignore_eos',
  include_stop_str_in_output: 'no_stop_trim',
  skip_special_tokens: 'skip_special_tokens',
  spaces_between_special_tokens: 'spaces_between_special_tokens',
  logit_bias: 'logit_bias',
  regex: 'regex',
  ebnf: 'ebnf',
  json_schema: 'json_schema',
}
/** Every event repeats what was sampled before, unless the server is told otherwise: a long answer would cost the square of its length. */
const TOKENS_PER_EVENT = 16
const BESIDE: readonly string[] = ['cache_salt']

const FIELDS: TokenFields = {
  promptIds: 'the prompt',
  sampledIds: 'output_ids',
  logprobs: 'meta_info.output_token_logprobs',
  promptTokens: 'meta_info.prompt_tokens',
  completionTokens: 'meta_info.completion_tokens',
}

/** Its answers come from the same sampler as those of SGLang's chat, but with ids on every version, streaming or not. */
export const sglangNative: Engine = {
  kind: 'sglang-native',
  sleepPath: null,
  weightsPath: null,
  async generate(request, send) {
    const asked = await ask(request, send, false)
    if (!asked.ok) return asked.outcome
    const reply = await send(asked.http)
    return reply.ok ? readResponse(reply.response, request, asked.prompt) : { type: 'broken', reply }
  },
  async stream(request, send, tell) {
    const asked = await ask(request, send, true)
    if (!asked.ok) return asked.outcome
    const { prompt } = asked
    const { format, parameters } = request
    const parsesCallsOf = parsesCalls(request) && format.calls !== 'none'
    const growing = openGrowingText(
      { format, beginsInThought: prompt.beginsInThought, parsesCalls: parsesCallsOf, stops: stopsOf(parameters) },
      tell,
    )
    const fold = openGeneratedFold(growing, (body) => readGenerated(body, request, prompt))
    return follow(asked.http, send, fold, (response) => readResponse(response, request, prompt))
  },
  countTokens: (countable, model, send) => countByTokenizer(countable, model, '/v1/tokenize', send),
}

type Asked =
  | { readonly ok: true; readonly http: HttpRequest; readonly prompt: Extract<OwnPrompt, { ok: true }> }
  | { readonly ok: false; readonly outcome: EngineOutcome }

async function ask(request: EngineRequest, send: Send, isStream: boolean): Promise<Asked> {
  const written = writeParameters(request)
  if (!written.ok) return written
  const refusal = unservable(request)
  if (refusal !== null) return { ok: false, outcome: refusal }
  const prompt = await promptOf(request, send)
  if (!prompt.ok) return prompt
  const { sampling_params: sampling, ...beside } = written.body
  const body = {
    input_ids: prompt.ids,
    ...beside,
    sampling_params: { ...sampling, ...(isStream ? { stream_interval: TOKENS_PER_EVENT } : {}) },
    return_logprob: true,
    top_logprobs_num: request.topLogprobs,
    // Texts of single tokens cost the server a decode each, and only alternatives are told apart by them.
    return_text_in_logprobs: request.topLogprobs > 0,
    stream: isStream,
  }
  return { ok: true, http: post('/generate', body), prompt }
}

/** An engine takes one as a string. */
function stopsOf({ stop }: JsonObject): readonly string[] {
  if (typeof stop === 'string') return [stop]
  return Array.isArray(stop) ? stop.filter((each) => typeof each === 'string') : []
}

type Written =
  | { readonly ok: true; readonly body: JsonObject & { readonly sampling_params: JsonObject } }
  | { readonly ok: false; readonly outcome: EngineOutcome }

function writeParameters(request: EngineRequest): Written {
  // Without a budget SGLang would sample 128 tokens; null is all that is left of the context, as its chat route has it.
  const sampling: Record<string, unknown> = { max_new_tokens: null }
  const beside: Record<string, unknown> = {}
  // Markers of calls are special tokens in some vocabularies: its chat route shows them when there are tools, too.
  if (parsesCalls(request)) sampling.skip_special_tokens = false
  for (const [name, value] of samplerParameters(request.parameters)) {
    const mapped = SAMPLING[name]
    if (mapped !== undefined) sampling[mapped] = name === 'top_k' && value === 0 ? -1 : value
    else if (BESIDE.includes(name)) beside[name] = value
    else return { ok: false, outcome: refused(`${name}: cannot be served by this inference server`) }
  }
  return { ok: true, body: { ...beside, sampling_params: sampling } }
}

/** `/v1/tokenize` is the newer name of the same route. */
async function promptOf(request: EngineRequest, send: Send): Promise<OwnPrompt> {
  const beginsInThought = opensThought(request)
  if (request.prompt.kind === 'token-ids') return { ok: true, ids: request.prompt.ids, beginsInThought }
  const body = conversationBody(request)
  for (const path of ['/v1/tokenize', '/tokenize']) {
    const reply = await send(post(path, body))
    if (!reply.ok) return { ok: false, outcome: { type: 'broken', reply } }
    if (reply.response.status === 404 || reply.response.status === 405) continue
    if (!isSuccess(reply.response)) return { ok: false, outcome: readRejection(reply.response) }
    const ids = readIds(bodyOf(reply.response)?.tokens)
    if (ids === null) return { ok: false, outcome: { type: 'garbled', detail: `${path}: tokens is not an array of token ids` } }
    return { ok: true, ids, beginsInThought }
  }
  return { ok: false, outcome: { type: 'unserved', detail: 'the server has no tokenizer route (/v1/tokenize)' } }
}

function readResponse(response: HttpResponse, request: EngineRequest, prompt: Extract<OwnPrompt, { ok: true }>): EngineReply {
  return isSuccess(response) ? readGenerated(bodyOf(response), request, prompt) : readRejection(response)
}

function readGenerated(body: JsonObject | null, request: EngineRequest, prompt: Extract<OwnPrompt, { ok: true }>): EngineReply {
  const meta: unknown = body?.meta_info
  if (body === null || typeof body.text !== 'string' || !isObject(meta)) {
    return { type: 'garbled', detail: 'the body has no text and meta_info' }
  }
  const { triples, namedIds, logprobs } = triplesOf(meta)
  const { output_ids: sampledIds } = body
  const counted = { promptTokens: meta.prompt_tokens, completionTokens: meta.completion_tokens }
  const tokens = readTokens({ promptIds: prompt.ids, sampledIds, namedIds, logprobs, ...counted }, FIELDS)
  const weights = readWeights(meta.weight_versions, meta.weight_version, tokens.sampledIds.length)
  const ending = isObject(meta.finish_reason) ? meta.finish_reason : {}
  const finishReason = readFinishReason(ending.type)
  if (finishReason !== 'stop' && finishReason !== 'length' && finishReason !== 'content_filter') {
    const detail = `finish_reason ${JSON.stringify(meta.finish_reason) ?? 'missing'}`
    return { type: 'aborted', finishReason: finishReason === 'abort' ? 'abort' : 'unknown', tokens, ...weights, detail }
  }
  return answerOf(request, {
    text: body.text,
    beginsInThought: prompt.beginsInThought,
    finishReason,
    stopSequence: typeof ending.matched === 'string' ? ending.matched : null,
    usage: {
      promptTokens: count(meta.prompt_tokens) ?? prompt.ids.length,
      completionTokens: count(meta.completion_tokens) ?? tokens.sampledIds.length,
      cachedTokens: count(meta.cached_tokens),
      reasoningTokens: count(meta.reasoning_tokens),
    },
    tokens,
    weights,
    logprobs: request.topLogprobs === 0 ? null : contentOf(triples, meta.output_top_logprobs),
  })
}

/** `[logprob, id, text]` triples as OpenAI's entries. */
function contentOf(triples: readonly unknown[] | null, top: unknown): readonly unknown[] | null {
  if (triples === null) return null
  const alternatives: readonly unknown[] = Array.isArray(top) ? top : []
  return triples.map((triple, position) => {
    const others: unknown = alternatives[position]
    return { ...entryOf(triple), top_logprobs: Array.isArray(others) ? others.map(entryOf) : [] }
  })
}

function entryOf(triple: unknown): object {
  const [logprob, id, text] = Array.isArray(triple) ? triple : []
  return { id, token: text, bytes: typeof text === 'string' ? [...Buffer.from(text)] : null, logprob }
}

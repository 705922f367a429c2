// vLLM's completions: token ids in, bare text and token ids out. Its chat takes no ids, so this is what an answer is gone on with.
import { isObject, type JsonObject } from '../json.ts'
import { readFinishReason } from './completion.ts'
import type { EngineOutcome, EngineReply, EngineRequest, HttpResponse, Send } from './engine.ts'
import { bodyOf, isSuccess, post } from './engine-json.ts'
import { answerOf } from './own-answer.ts'
import { opensThought, samplerParameters, unservable } from './own-prompt.ts'
import { readRejection } from './rejection.ts'
import { count, readTokens, type TokenFields } from './tokens.ts'
import { readWeights } from './weight-spans.ts'

const FIELDS: TokenFields = {
  promptIds: 'the prompt',
  sampledIds: 'choices[0].token_ids',
  logprobs: 'choices[0].logprobs.token_logprobs',
  promptTokens: 'usage.prompt_tokens',
  completionTokens: 'usage.completion_tokens',
}

/** Without `max_tokens` it would sample 16. Never rejects. */
export async function completeIds(request: EngineRequest, send: Send): Promise<EngineOutcome> {
  const { prompt, parameters, model } = request
  const refusal = unservable(request)
  if (refusal !== null) return refusal
  if (prompt.kind !== 'token-ids') return { type: 'unserved', detail: 'completions takes token ids only' }
  const body = {
    ...Object.fromEntries(samplerParameters(parameters)),
    prompt: prompt.ids,
    model,
    stream: false,
    logprobs: 0,
    return_token_ids: true,
  }
  const reply = await send(post('/v1/completions', body))
  return reply.ok ? readCompleted(reply.response, request, prompt.ids) : { type: 'broken', reply }
}

function readCompleted(response: HttpResponse, request: EngineRequest, promptIds: readonly number[]): EngineReply {
  if (!isSuccess(response)) return readRejection(response)
  const body = bodyOf(response)
  const choice: unknown = Array.isArray(body?.choices) ? body.choices[0] : undefined
  if (body === null || !isObject(choice) || typeof choice.text !== 'string') return { type: 'garbled', detail: 'choices[0] has no text' }
  const usage = isObject(body.usage) ? body.usage : {}
  const tokens = readTokens(
    {
      promptIds,
      sampledIds: choice.token_ids,
      namedIds: null,
      logprobs: logprobsOf(choice),
      promptTokens: usage.prompt_tokens,
      completionTokens: usage.completion_tokens,
    },
    FIELDS,
  )
  const weights = readWeights(choice.weight_versions, null, tokens.sampledIds.length)
  const finishReason = readFinishReason(choice.finish_reason)
  if (finishReason !== 'stop' && finishReason !== 'length' && finishReason !== 'content_filter') {
    const detail = `finish_reason ${JSON.stringify(choice.finish_reason) ?? 'missing'}`
    return { type: 'aborted', finishReason: finishReason === 'abort' ? 'abort' : 'unknown', tokens, ...weights, detail }
  }
  const cached = isObject(usage.prompt_tokens_details) ? count(usage.prompt_tokens_details.cached_tokens) : null
  return answerOf(request, {
    text: choice.text,
    beginsInThought: opensThought(request),
    finishReason,
    stopSequence: typeof choice.stop_reason === 'string' ? choice.stop_reason : null,
    usage: {
      promptTokens: count(usage.prompt_tokens) ?? promptIds.length,
      completionTokens: count(usage.completion_tokens) ?? tokens.sampledIds.length,
      cachedTokens: cached,
      reasoningTokens: null,
    },
    tokens,
    weights,
    logprobs: null,
  })
}

function logprobsOf({ logprobs }: JsonObject): readonly unknown[] | null {
  return isObject(logprobs) && Array.isArray(logprobs.token_logprobs) ? logprobs.token_logprobs : null
}

// vLLM's chat completions: asked for token ids and the sampled token's logprob, whole or as a stream.
import { isObject } from '../json.ts'
import { chatCompletions } from './chat-completions.ts'
import { openChatFold } from './chat-fold.ts'
import { contentLogprobs, type Places, readCompletion, readCompletionBody } from './completion.ts'
import { countByTokenizer } from './count.ts'
import type { EngineRequest, HttpRequest } from './engine.ts'
import { post } from './engine-json.ts'
import { follow } from './following.ts'

const PLACES: Places = {
  promptIds: (body) => body.prompt_token_ids,
  sampledIds: (choice) => choice.token_ids,
  namedIds: () => null,
  logprobs: contentLogprobs,
  weights: (body, choice) => ({
    listed: choice.weight_versions,
    stated: isObject(body.metadata) ? body.metadata.weight_version : null,
  }),
  matchedStop: (choice) => choice.stop_reason,
}

export const vllm = chatCompletions({
  kind: 'vllm',
  sleepPath: '/is_sleeping',
  weightsPath: '/weight_info',
  write: (request) => (request.prompt.kind === 'token-ids' ? MESSAGES_ONLY : { ok: true, http: written(request, { stream: false }) }),
  read: (response) => readCompletion(response, PLACES),
  async stream(request, send, tell) {
    if (request.prompt.kind === 'token-ids') return { type: 'unserved', detail: MESSAGES_ONLY.detail }
    const fold = openChatFold(tell, (body, diagnostics) => readCompletionBody(body, PLACES, diagnostics))
    const asked = written(request, { stream: true, stream_options: { include_usage: true } })
    return follow(asked, send, fold, (response) => readCompletion(response, PLACES))
  },
  countTokens: (countable, model, send) => countByTokenizer(countable, model, '/tokenize', send),
})

const MESSAGES_ONLY = { ok: false, detail: 'chat completions takes messages only' } as const

function written({ prompt, parameters, model, topLogprobs }: EngineRequest, form: object): HttpRequest {
  return post('/v1/chat/completions', {
    ...parameters,
    messages: prompt.messages,
    ...(prompt.tools === null ? {} : { tools: prompt.tools }),
    model,
    ...form,
    logprobs: true,
    top_logprobs: topLogprobs,
    return_token_ids: true,
  })
}

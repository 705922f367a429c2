// vLLM's chat completions: asked without streaming for token ids and the sampled token's logprob.
import { isObject } from '../json.ts'
import { chatCompletions } from './chat-completions.ts'
import { contentLogprobs, readCompletion } from './completion.ts'
import { countByTokenizer } from './count.ts'

export const vllm = chatCompletions({
  kind: 'vllm',
  sleepPath: '/is_sleeping',
  write({ prompt, parameters, model, topLogprobs }) {
    if (prompt.kind === 'token-ids') return { ok: false, detail: 'chat completions takes messages only' }
    const body = {
      ...parameters,
      messages: prompt.messages,
      ...(prompt.tools === null ? {} : { tools: prompt.tools }),
      model,
      stream: false,
      logprobs: true,
      top_logprobs: topLogprobs,
      return_token_ids: true,
    }
    return {
      ok: true,
      http: { method: 'POST', path: '/v1/chat/completions', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
    }
  },
  read: (response) =>
    readCompletion(response, {
      promptIds: (body) => body.prompt_token_ids,
      sampledIds: (choice) => choice.token_ids,
      namedIds: () => null,
      logprobs: contentLogprobs,
      weights: (body, choice) => ({
        listed: choice.weight_versions,
        stated: isObject(body.metadata) ? body.metadata.weight_version : null,
      }),
      matchedStop: (choice) => choice.stop_reason,
    }),
  countTokens: (countable, model, send) => countByTokenizer(countable, model, '/tokenize', send),
})

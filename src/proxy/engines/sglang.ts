// SGLang's chat completions: ids come with the choice and only without streaming; logprobs are those of the sampler.
import { isObject, type JsonObject } from '../json.ts'
import { chatCompletions } from './chat-completions.ts'
import { contentLogprobs, readCompletion } from './completion.ts'
import { countByTokenizer } from './count.ts'
import { triplesOf } from './sglang-meta.ts'

export const sglang = chatCompletions({
  kind: 'sglang',
  sleepPath: null,
  weightsPath: null,
  write({ prompt, parameters, model, topLogprobs }) {
    const body = {
      ...ownParameters(parameters),
      messages: prompt.messages,
      ...(prompt.tools === null ? {} : { tools: prompt.tools }),
      ...(prompt.kind === 'token-ids' ? { input_ids: prompt.ids } : {}),
      model,
      stream: false,
      logprobs: true,
      top_logprobs: topLogprobs,
      return_token_ids: true,
      return_prompt_token_ids: true,
      return_meta_info: true,
    }
    return {
      ok: true,
      http: { method: 'POST', path: '/v1/chat/completions', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
    }
  },
  read: (response) =>
    readCompletion(response, {
      promptIds: (body, choice) => choice.prompt_token_ids ?? body.prompt_token_ids,
      // The older name is still served by some versions.
      sampledIds: (choice) => choice.token_ids ?? choice.response_token_ids,
      namedIds: (choice) => triplesOf(choice.meta_info).namedIds,
      // OpenAI's entries, where the meta information was not asked for or is not known.
      logprobs: (choice) => triplesOf(choice.meta_info).logprobs ?? contentLogprobs(choice),
      weights: (body, choice) => {
        const meta = isObject(choice.meta_info) ? choice.meta_info : {}
        return { listed: meta.weight_versions, stated: isObject(body.metadata) ? body.metadata.weight_version : meta.weight_version }
      },
      matchedStop: (choice) => choice.matched_stop,
    }),
  // It refuses ids in streams, and without them nothing could be trained.
  stream: null,
  countTokens: (countable, model, send) => countByTokenizer(countable, model, '/v1/tokenize', send),
})

/** What SGLang has another name or value for than vLLM: a name it does not know it ignores without a word, a `top_k` of 0 it refuses. */
function ownParameters({ include_stop_str_in_output: keepsStop, ...parameters }: JsonObject): JsonObject {
  return {
    ...parameters,
    ...(keepsStop === undefined ? {} : { no_stop_trim: keepsStop }),
    ...(parameters.top_k === 0 ? { top_k: -1 } : {}),
  }
}

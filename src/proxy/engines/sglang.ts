// SGLang's chat completions: ids come with the choice and only without streaming; logprobs are those of the sampler.
import { isObject, type JsonObject } from '../json.ts'
import { chatCompletions } from './chat-completions.ts'
import { readCompletion } from './completion.ts'
import { countByTokenizer } from './count.ts'

export const sglang = chatCompletions({
  kind: 'sglang',
  write({ prompt, parameters, model, topLogprobs }) {
    const body = {
      ...parameters,
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
      logprobs: (choice) => samplerLogprobs(choice),
      weightVersion: (body, choice) =>
        isObject(body.metadata) ? body.metadata.weight_version : isObject(choice.meta_info) ? choice.meta_info.weight_version : null,
      matchedStop: (choice) => choice.matched_stop,
    }),
  countTokens: (countable, model, send) => countByTokenizer(countable, model, '/v1/tokenize', send),
})

/** `[logprob, token id, text]` triples when the engine sent its meta information, else OpenAI's entries. */
function samplerLogprobs(choice: JsonObject): readonly unknown[] | null {
  const meta = choice.meta_info
  const triples: unknown = isObject(meta) ? meta.output_token_logprobs : null
  if (Array.isArray(triples)) return triples.map((triple: unknown) => (Array.isArray(triple) ? triple[0] : undefined))
  const logprobs = choice.logprobs
  if (!isObject(logprobs) || !Array.isArray(logprobs.content)) return null
  return logprobs.content.map((entry: unknown) => (isObject(entry) ? entry.logprob : undefined))
}

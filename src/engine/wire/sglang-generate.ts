// SGLang's own /generate: a prompt of token ids in, sampled ids with all their facts out.
import { z } from 'zod'
import type { GeneratedChoice, Generation } from './generation.ts'
import { type MetaWishes, metaInfo } from './sglang.ts'
import type { StreamWriter } from './shape.ts'

/** Real engines show a whole vocabulary at each position; here the answer is kept in this process's memory until it has ended. */
export const MOST_ALTERNATIVES = 100

/** Unknown fields are accepted and ignored, unknown sampling parameters are not: there SGLang's dataclass refuses them. */
export const generateSchema = z.looseObject({
  text: z.string().nullish(),
  input_ids: z.array(z.int().min(0)).nullish(),
  sampling_params: z
    .strictObject({
      /** 128 unless said otherwise; null is all that is left of the context. */
      max_new_tokens: z.int().min(0).nullable().default(128),
      n: z.int().min(1).max(128).nullish(),
      temperature: z.number().min(0).nullish(),
      top_p: z.number().gt(0).max(1).nullish(),
      top_k: z.int().min(-1).nullish(),
      min_p: z.number().min(0).max(1).nullish(),
      frequency_penalty: z.number().min(-2).max(2).nullish(),
      presence_penalty: z.number().min(-2).max(2).nullish(),
      repetition_penalty: z.number().gt(0).max(2).nullish(),
      min_new_tokens: z.int().min(0).nullish(),
      stop: z.union([z.string(), z.array(z.string())]).nullish(),
      stop_token_ids: z.array(z.int()).nullish(),
      stop_regex: z.union([z.string(), z.array(z.string())]).nullish(),
      ignore_eos: z.boolean().nullish(),
      skip_special_tokens: z.boolean().nullish(),
      spaces_between_special_tokens: z.boolean().nullish(),
      no_stop_trim: z.boolean().nullish(),
      sampling_seed: z.int().nullish(),
      json_schema: z.string().nullish(),
      regex: z.string().nullish(),
      ebnf: z.string().nullish(),
      structural_tag: z.string().nullish(),
      logit_bias: z.record(z.string(), z.number()).nullish(),
      custom_params: z.record(z.string(), z.unknown()).nullish(),
      stream_interval: z.int().nullish(),
    })
    .prefault({}),
  return_logprob: z.boolean().nullish(),
  top_logprobs_num: z.int().min(0).max(MOST_ALTERNATIVES).nullish(),
  return_text_in_logprobs: z.boolean().nullish(),
  return_prompt_token_ids: z.boolean().nullish(),
  stream: z.boolean().nullish(),
})

export type GenerateRequest = z.infer<typeof generateSchema>

/** One object, or with `n` an array of them. */
export function generated(generation: Generation, request: GenerateRequest): object {
  const answers = generation.choices.map((choice) => answerOf(generation, choice, request))
  return answers.length === 1 ? (answers[0] ?? {}) : answers
}

/** Every event holds all that has been sampled so far; with `n` it says of which choice. */
export function generatedStream(request: GenerateRequest): StreamWriter {
  return {
    saysDone: true,
    opening: () => [],
    delta(generation, choice, delta) {
      const grown = {
        ...choice,
        text: choice.text.slice(0, choice.tokens[delta.to - 1]?.textEnd ?? 0),
        tokens: choice.tokens.slice(0, delta.to),
        logprobs: choice.logprobs.slice(0, delta.to),
        alternatives: choice.alternatives.slice(0, delta.to),
        finish: delta.isLast ? choice.finish : null,
      }
      return [{ ...answerOf(generation, grown, request), ...(generation.choices.length === 1 ? {} : { index: choice.index }) }]
    },
    closing: () => [],
  }
}

function answerOf(generation: Generation, choice: GeneratedChoice, request: GenerateRequest): object {
  const wishes: MetaWishes = {
    logprobs: request.return_logprob === true,
    topLogprobs: request.top_logprobs_num ?? 0,
    texts: request.return_text_in_logprobs === true,
  }
  return {
    text: choice.text,
    ...(choice.showsIds ? { output_ids: choice.tokens.map((token) => token.id) } : {}),
    ...(request.return_prompt_token_ids === true && generation.showsPromptIds ? { prompt_token_ids: generation.promptIds } : {}),
    meta_info: metaInfo(generation, choice, wishes),
  }
}

// vLLM's /v1/completions: a prompt as text or token ids in, bare text and the facts of every token out.
import { z } from 'zod'
import { finishReasonOf, type GeneratedChoice, type Generation } from './generation.ts'
import { usageOf } from './vllm.ts'

export const completionsSchema = z.looseObject({
  prompt: z.union([z.string(), z.array(z.int().min(0)).min(1)]),
  model: z.string().nullish(),
  /** 16 unless said otherwise. */
  max_tokens: z.int().min(0).nullish(),
  /** How many alternatives; 0 is the sampled token's alone. */
  logprobs: z.int().min(0).max(20).nullish(),
  return_token_ids: z.boolean().nullish(),
  n: z.int().min(1).max(128).nullish(),
  temperature: z.number().min(0).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  ignore_eos: z.boolean().nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  stop_token_ids: z.array(z.int()).nullish(),
})

export type CompletionsRequest = z.infer<typeof completionsSchema>

export function completions(generation: Generation, request: CompletionsRequest): object {
  const showsIds = request.return_token_ids === true
  return {
    id: generation.id,
    object: 'text_completion',
    created: generation.createdSeconds,
    model: generation.model,
    choices: generation.choices.map((choice) => ({
      index: choice.index,
      text: choice.text,
      logprobs: request.logprobs == null ? null : logprobsOf(choice),
      finish_reason: finishReasonOf(choice, []),
      stop_reason: choice.matchedStop,
      token_ids: showsIds && choice.showsIds ? choice.tokens.map((token) => token.id) : null,
      prompt_token_ids: showsIds && generation.showsPromptIds ? generation.promptIds : null,
      prompt_logprobs: null,
    })),
    service_tier: null,
    system_fingerprint: null,
    usage: usageOf(generation),
    kv_transfer_params: null,
  }
}

function logprobsOf(choice: GeneratedChoice): object {
  return {
    text_offset: choice.tokens.map((_, at) => choice.tokens[at - 1]?.textEnd ?? 0),
    token_logprobs: choice.logprobs,
    tokens: choice.tokens.map(({ text }) => text),
    top_logprobs: choice.tokens.map(({ text }, at) =>
      Object.fromEntries([[text, choice.logprobs[at]], ...(choice.alternatives[at] ?? []).map((other) => [other.text, other.logprob])]),
    ),
  }
}

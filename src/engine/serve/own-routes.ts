// The generation routes that take token ids: SGLang's /generate, llama.cpp's /completion and vLLM's /v1/completions.
import { z } from 'zod'
import { ownCompletion, ownCompletionStream } from '../wire/llamacpp-completion.ts'
import { generated, generatedStream, generateSchema, MOST_ALTERNATIVES } from '../wire/sglang-generate.ts'
import { completions, completionsSchema } from '../wire/vllm-completions.ts'
import {
  type AnswerForm,
  type Asked,
  bad,
  budgetOf,
  encodePlain,
  otherSampling,
  promptProblem,
  type Reader,
  type Reading,
  type ReadRequest,
  samplingOf,
} from './asked.ts'

const completionSchema = z.looseObject({
  prompt: z.union([z.string(), z.array(z.int().min(0)).min(1)]),
  n_predict: z.int().min(-1).nullish(),
  n_probs: z.int().min(0).max(MOST_ALTERNATIVES).nullish(),
  return_tokens: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
  min_p: z.number().nullish(),
  ignore_eos: z.boolean().nullish(),
  seed: z.int().nullish(),
  stop: z.array(z.string()).nullish(),
})

type Wishes = Omit<Asked, 'promptIds' | 'chat' | 'imageUrls' | 'model' | 'maxTokens' | 'parsesTools' | 'beginsInThought'>
type Request = {
  readonly prompt: readonly number[]
  readonly param: string
  readonly maxTokens: number | null
  readonly wishes: Wishes
}

export const readGenerate: ReadRequest = (reader, body) => {
  const parsed = generateSchema.safeParse(body)
  if (!parsed.success) return invalid(parsed.error)
  const request = parsed.data
  const prompt = request.input_ids ?? (typeof request.text === 'string' ? encodePlain(reader, request.text) : null)
  if (prompt === null) return bad('Either text, input_ids or input_embeds should be provided.', null)
  const sampling = request.sampling_params
  const wishes: Wishes = {
    choices: sampling.n ?? 1,
    seed: sampling.sampling_seed ?? null,
    ...samplingOf(sampling, reader.shape.defaultSampling),
    topLogprobs: request.return_logprob === true ? (request.top_logprobs_num ?? 0) : 0,
    stops: typeof sampling.stop === 'string' ? [sampling.stop] : (sampling.stop ?? []),
    stopTokenIds: sampling.stop_token_ids ?? [],
    otherSampling: otherSampling(sampling),
  }
  const param = request.input_ids ? 'input_ids' : 'text'
  const form: AnswerForm =
    request.stream === true
      ? { type: 'stream', writer: generatedStream(request) }
      : { type: 'whole', whole: (generation) => generated(generation, request) }
  return reading(reader, { prompt, param, maxTokens: sampling.max_new_tokens, wishes }, form)
}

export const readCompletion: ReadRequest = (reader, body) => {
  const parsed = completionSchema.safeParse(body)
  if (!parsed.success) return invalid(parsed.error)
  const request = parsed.data
  const prompt = typeof request.prompt === 'string' ? encodePlain(reader, request.prompt) : request.prompt
  const probabilities = request.n_probs ?? 0
  const wishes: Wishes = {
    choices: 1,
    // Below 0 it means any.
    seed: request.seed === undefined || request.seed === null || request.seed < 0 ? null : request.seed,
    ...samplingOf(request, reader.shape.defaultSampling),
    topLogprobs: probabilities,
    stops: request.stop ?? [],
    stopTokenIds: [],
    otherSampling: otherSampling(request),
  }
  const maxTokens = request.n_predict === -1 ? null : (request.n_predict ?? null)
  const shown = { returnsTokens: request.return_tokens === true, probabilities }
  const form: AnswerForm =
    request.stream === true
      ? { type: 'stream', writer: ownCompletionStream(shown) }
      : { type: 'whole', whole: (generation) => ownCompletion(generation, shown) }
  return reading(reader, { prompt, param: 'prompt', maxTokens, wishes }, form)
}

const USUAL_COMPLETION_TOKENS = 16

/** Whole answers only: nobody here asks it for a stream. */
export const readCompletions: ReadRequest = (reader, body) => {
  const parsed = completionsSchema.safeParse(body)
  if (!parsed.success) return invalid(parsed.error)
  const request = parsed.data
  if (request.stream === true) return bad('stream: completions are not streamed here.', 'stream')
  const prompt = typeof request.prompt === 'string' ? encodePlain(reader, request.prompt) : request.prompt
  const wishes: Wishes = {
    choices: request.n ?? 1,
    seed: request.seed ?? null,
    ...samplingOf(request, reader.shape.defaultSampling),
    topLogprobs: request.logprobs ?? 0,
    stops: typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []),
    stopTokenIds: request.stop_token_ids ?? [],
    otherSampling: otherSampling(request),
  }
  const form: AnswerForm = { type: 'whole', whole: (generation) => completions(generation, request) }
  return reading(reader, { prompt, param: 'prompt', maxTokens: request.max_tokens ?? USUAL_COMPLETION_TOKENS, wishes }, form)
}

function reading(reader: Reader, { prompt, param, maxTokens, wishes }: Request, form: AnswerForm): Reading {
  const problem = promptProblem(reader, prompt, param)
  if (problem !== null) return { ok: false, complaint: problem }
  const budget = budgetOf(reader, prompt.length, maxTokens)
  if (!budget.ok) return budget
  return {
    ok: true,
    asked: {
      ...wishes,
      promptIds: prompt,
      chat: null,
      imageUrls: [],
      model: null,
      maxTokens: budget.maxTokens,
      // The text is answered as it is; parsing it is the caller's.
      parsesTools: false,
      beginsInThought: false,
    },
    form,
  }
}

function invalid(error: z.ZodError): Reading {
  const issue = error.issues[0]
  const path = issue?.path.join('.') ?? ''
  return bad(`${path === '' ? 'body' : path}: ${issue?.message ?? 'is not valid'}`, path === '' ? null : path)
}

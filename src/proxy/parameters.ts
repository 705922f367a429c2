// Which sampling parameters reach an engine: the allowlist, the session's pins, and what a training session may not ask for.
import type { Diagnostic, Sampling } from '../contract/call.ts'
import { unreachable } from '../kernel/unreachable.ts'
import type { SamplingPins } from './boundary.ts'
import { type Failure, failure } from './failure.ts'
import { describe, isObject, type JsonObject } from './json.ts'

type Kind = 'number' | 'integer' | 'boolean' | 'string' | 'object' | 'stop' | 'integers'

/** OpenAI's parameters and the engines' extensions, in the order in which they are sent. */
const ALLOWED: { readonly [name: string]: Kind } = {
  max_tokens: 'integer',
  temperature: 'number',
  top_p: 'number',
  top_k: 'integer',
  min_p: 'number',
  seed: 'integer',
  presence_penalty: 'number',
  frequency_penalty: 'number',
  repetition_penalty: 'number',
  stop: 'stop',
  stop_token_ids: 'integers',
  min_tokens: 'integer',
  ignore_eos: 'boolean',
  include_stop_str_in_output: 'boolean',
  skip_special_tokens: 'boolean',
  spaces_between_special_tokens: 'boolean',
  reasoning_effort: 'string',
  chat_template_kwargs: 'object',
  add_generation_prompt: 'boolean',
  continue_final_message: 'boolean',
  cache_salt: 'string',
}

/** They mask the vocabulary, so the logprobs of a sample say nothing about the policy. */
const CONSTRAINING = [
  'response_format',
  'logit_bias',
  'structured_outputs',
  'guided_json',
  'guided_regex',
  'guided_choice',
  'guided_grammar',
  'guided_decoding_backend',
  'guided_whitespace_pattern',
  'regex',
  'ebnf',
  'json_schema',
  'allowed_token_ids',
  'bad_words',
] as const

/** They keep the end of an answer out of the vocabulary, or go on behind it. */
const ENDLESS: { readonly [name: string]: (value: unknown) => boolean } = {
  min_tokens: (value) => typeof value === 'number' && value > 0,
  ignore_eos: (value) => value === true,
}

/** They begin an answer elsewhere than at its beginning: in the client's words, or before the turn is the model's. */
const BEGUN: { readonly [name: string]: unknown } = { add_generation_prompt: false, continue_final_message: true }

/**
 * What a chat template is called with and nobody may say twice, and what its special tokens are called
 * (transformers/tokenization_utils_base.py, apply_chat_template): a template, a conversation or tools of the client's would take the place
 * of those that the record states, and run in the inference server.
 */
const RESERVED_KWARGS = new Set(
  (
    'chat_template conversation messages tools documents add_generation_prompt continue_final_message tokenize padding truncation ' +
    'max_length return_tensors return_dict return_assistant_tokens_mask tokenizer_kwargs additional_special_tokens'
  ).split(' '),
)
const SPECIAL_TOKEN = /^[a-z]+_token$/

/** Far more than a vendor takes; each costs an engine a search per token. */
const MAX_STOPS = 64

export type ReadParameters =
  | { readonly ok: true; readonly parameters: JsonObject; readonly diagnostics: readonly Diagnostic[] }
  | { readonly ok: false; readonly failure: Failure }

/** Reads the fields of `source`, which uses the engine's names; null means absent, as every SDK has it. */
export function readParameters(source: JsonObject, tier: 'train' | 'eval', pins: SamplingPins): ReadParameters {
  const parameters: Record<string, unknown> = {}
  const diagnostics: Diagnostic[] = []
  for (const name of CONSTRAINING) {
    const value = source[name]
    if (isUnconstrained(name, value)) continue
    if (tier === 'train') return { ok: false, failure: constrained(name) }
    parameters[name] = value
  }
  for (const [name, kind] of Object.entries(ALLOWED)) {
    const value = source[name]
    if (value === undefined || value === null) continue
    const expected = mismatch(kind, value)
    if (expected !== null) {
      return { ok: false, failure: failure('invalid-request', `${name}: expected ${expected}, got ${describe(value)}`, { param: name }) }
    }
    parameters[name] = value
  }
  const refused = refusal(parameters, tier)
  if (refused !== null) return { ok: false, failure: refused }
  for (const [name, pinned] of Object.entries(pins)) {
    if (pinned === undefined) continue
    if (parameters[name] !== undefined && parameters[name] !== pinned) {
      diagnostics.push({ code: 'sampling-pinned', detail: `${name}: ${JSON.stringify(parameters[name])} replaced by ${pinned}` })
    }
    parameters[name] = pinned
  }
  if (tier === 'train') diagnostics.push(...shaping(parameters))
  return { ok: true, parameters, diagnostics }
}

/** Why parameters of the right kinds are refused all the same; null when they are not. */
function refusal(parameters: JsonObject, tier: 'train' | 'eval'): Failure | null {
  const { max_tokens: maxTokens, stop, chat_template_kwargs: kwargs } = parameters
  const invalid = (param: string, problem: string): Failure => failure('invalid-request', `${param}: ${problem}`, { param })
  if (typeof maxTokens === 'number' && maxTokens < 1) return invalid('max_tokens', 'must be at least 1')
  if (Array.isArray(stop) && stop.length > MAX_STOPS) return invalid('stop', `must hold at most ${MAX_STOPS} strings`)
  const reserved = Object.keys(isObject(kwargs) ? kwargs : {}).find((name) => RESERVED_KWARGS.has(name) || SPECIAL_TOKEN.test(name))
  if (reserved !== undefined) return invalid(`chat_template_kwargs.${reserved}`, 'is not for a request to say')
  if (tier === 'eval') return null
  const endless = Object.entries(ENDLESS).find(([name, isEndless]) => isEndless(parameters[name]))
  if (endless !== undefined) return constrained(endless[0])
  const begun = Object.entries(BEGUN).find(([name, value]) => parameters[name] === value)
  return begun === undefined ? null : invalid(begun[0], 'is not allowed in a training session: an answer is a whole turn of the model')
}

/** A forced tool call is constrained decoding too. */
export function constrained(field: string): Failure {
  return failure(
    'constrained-decoding',
    `${field} is not allowed in a training session: constrained decoding makes logprobs incomparable`,
    {
      param: field,
    },
  )
}

/** The names that `readParameters` looks at. */
export const PARAMETER_NAMES: readonly string[] = [...Object.keys(ALLOWED), ...CONSTRAINING]

/**
 * The model's own distribution. An engine fills in what a request does not say: vLLM and SGLang from the model's generation_config.json
 * (vllm/config/model.py, get_diff_sampling_param; sglang/srt/configs/model_config.py, get_default_sampling_params), llama.cpp from its
 * command line. No answer tells.
 */
export const WHOLE_DISTRIBUTION = {
  temperature: 1,
  top_p: 1,
  top_k: -1,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
} as const

/** The parameters as the record states them. */
export function samplingOf(parameters: JsonObject): Sampling {
  const number = (name: string): number | null => {
    const value = parameters[name]
    return typeof value === 'number' ? value : null
  }
  return {
    temperature: number('temperature'),
    topP: number('top_p'),
    topK: number('top_k'),
    seed: number('seed'),
    maxTokens: number('max_tokens'),
  }
}

function isUnconstrained(name: string, value: unknown): boolean {
  if (value === undefined || value === null) return true
  if (name === 'response_format') return isObject(value) && value.type === 'text'
  if (Array.isArray(value)) return value.length === 0
  return isObject(value) && Object.keys(value).length === 0
}

/** Settings under which a trainer's own logprobs of the sample differ from the engine's unless it applies them too. */
function shaping(parameters: JsonObject): readonly Diagnostic[] {
  const { temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty } = parameters
  const found = [
    temperature === 0 ? 'temperature 0' : null,
    typeof top_p === 'number' && top_p < 1 ? `top_p ${top_p}` : null,
    typeof top_k === 'number' && top_k > 0 ? `top_k ${top_k}` : null,
    typeof min_p === 'number' && min_p > 0 ? `min_p ${min_p}` : null,
    typeof repetition_penalty === 'number' && repetition_penalty !== 1 ? `repetition_penalty ${repetition_penalty}` : null,
    typeof presence_penalty === 'number' && presence_penalty !== 0 ? `presence_penalty ${presence_penalty}` : null,
    typeof frequency_penalty === 'number' && frequency_penalty !== 0 ? `frequency_penalty ${frequency_penalty}` : null,
  ].filter((name) => name !== null)
  return found.length === 0 ? [] : [{ code: 'sampling-shaped', detail: found.join(', ') }]
}

/** What was expected, or null when the value has the kind. */
function mismatch(kind: Kind, value: unknown): string | null {
  switch (kind) {
    case 'number':
      return typeof value === 'number' && Number.isFinite(value) ? null : 'a number'
    case 'integer':
      return Number.isSafeInteger(value) ? null : 'an integer'
    case 'boolean':
      return typeof value === 'boolean' ? null : 'a boolean'
    case 'string':
      return typeof value === 'string' ? null : 'a string'
    case 'object':
      return isObject(value) ? null : 'an object'
    case 'stop':
      return typeof value === 'string' || (Array.isArray(value) && value.every((item) => typeof item === 'string'))
        ? null
        : 'a string or an array of strings'
    case 'integers':
      return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item)) ? null : 'an array of integers'
    default:
      return unreachable(kind)
  }
}

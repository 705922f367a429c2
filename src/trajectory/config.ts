// The configuration of the builders: Polar's keys, ours, and errors in the caller's terms.
import { z } from 'zod'
import { problemsOf } from '../contract/problems.ts'
import type { StrategySpec } from '../contract/task.ts'

const REWARD_POLICIES = ['broadcast', 'last_chain', 'split', 'main_only', 'per_trace', 'per_segment', 'discounted'] as const
export type RewardPolicy = (typeof REWARD_POLICIES)[number]

/** How a finished session turns an evaluation into rewards: the same keys under every builder, custom ones included. */
const rewardShape = {
  reward_policy: z.enum(REWARD_POLICIES).default('broadcast'),
  /** Per trained turn, counted backwards from the session's last; `discounted` only. */
  reward_discount: z.number().gt(0).max(1).default(0.9),
  /** How the weights of a session's rows, which sum to 1, are divided. */
  rollout_weight: z.enum(['rows', 'tokens']).default('rows'),
  /** Polar's rule: a row with a tool call that could not be parsed gets reward 0 and stays trainable. On, because trainers written for Polar count on it. */
  parser_filter: z.boolean().default(true),
}

const auxShape = z.strictObject({
  /** Requested model names, `*` standing for any text, whose calls are never training data. */
  models: z.array(z.string().min(1)).max(64).default([]),
  /** A call that asks for no more than this many tokens is a probe. */
  max_tokens: z.int().min(0).default(1),
  /** Where a session uses tools, a call without any that stands outside the conversation is a side call. */
  tool_free: z.boolean().default(true),
  /** A call whose system prompt contains one of these texts is a side call. */
  system: z.array(z.string().min(1)).max(64).default([]),
})

const sharedShape = {
  ...rewardShape,
  aux: auxShape.prefault({}),
  /** Below this many trained calls per row the result says what would mend it. */
  merge_ratio_hint: z.number().min(0).default(2),
}

const rewardSchema = z.object(rewardShape)
const perRequestSchema = z.strictObject(sharedShape)
const prefixMergingSchema = z.strictObject({
  ...sharedShape,
  /** Polar's key. Strict merging needs no such token; splicing finds it itself unless it is given. */
  end_of_turn_token_id: z.int().min(0).nullish(),
  /** Polar's key, accepted and ignored: nothing is ever tokenised anew here. */
  tokenizer_name_or_path: z.string().nullish(),
  /** `true`: Polar's published rule, repaired. `polar`: Polar's code, wrong cases included, for comparison. */
  splice: z.union([z.boolean(), z.literal('polar')]).default(false),
  /** A junction is not spliced when more than this share of its context was never reported by the engine. */
  splice_max_unreported: z.number().min(0).max(1).default(1),
})

export type AuxRules = z.infer<typeof auxShape>
export type RewardConfig = z.infer<typeof rewardSchema>
export type PerRequestConfig = z.infer<typeof perRequestSchema>
export type PrefixMergingConfig = z.infer<typeof prefixMergingSchema>

export type Parsed<T> = { readonly ok: true; readonly config: T } | { readonly ok: false; readonly error: string }

const BUILTIN_BUILDERS = ['per_request', 'prefix_merging'] as const

export const parsePerRequest = (config: unknown): Parsed<PerRequestConfig> => parse(perRequestSchema, config)
export const parsePrefixMerging = (config: unknown): Parsed<PrefixMergingConfig> => parse(prefixMergingSchema, config)
/** Reads the reward keys and leaves all others to the builder they are meant for. */
export const parseRewards = (config: unknown): Parsed<RewardConfig> => parse(rewardSchema, config)

/** Checks a builder spec when its task is submitted: a problem in the caller's terms, or null. `customNames` are the operator's builders. */
export function checkBuilder(spec: StrategySpec, customNames: readonly string[]): string | null {
  const parsed = parseFor(spec, customNames)
  return parsed.ok ? null : parsed.error
}

function parseFor(spec: StrategySpec, customNames: readonly string[]): Parsed<unknown> {
  if (spec.strategy === 'per_request') return parsePerRequest(spec.config)
  if (spec.strategy === 'prefix_merging') return parsePrefixMerging(spec.config)
  if (customNames.includes(spec.strategy)) return parseRewards(spec.config)
  const known = [...BUILTIN_BUILDERS, ...customNames].join(', ')
  return { ok: false, error: `builder.strategy: '${spec.strategy}' is unknown; this node has ${known}` }
}

function parse<T>(schema: z.ZodType<T>, config: unknown): Parsed<T> {
  const parsed = schema.safeParse(config)
  if (parsed.success) return { ok: true, config: parsed.data }
  return { ok: false, error: problemsOf('builder.config', config, parsed.error) }
}

// The made-up distribution of every position: seeded logprobs of the sampled token and of its alternatives, raw or as sampled.

import { seededNumbers, wholeBetween } from '../serve/seeded.ts'
import type { GeneratedChoice, SampledToken, TokenAlternative } from '../wire/generation.ts'
import type { Qwen } from './qwen.ts'

export type LogprobRequest = {
  readonly temperature: number
  /** Alternatives at each position, the sampled token among them. */
  readonly topLogprobs: number
  /** `raw`: before temperature; `processed`: as sampled. */
  readonly logprobMode: 'raw' | 'processed'
  readonly seed: string
  /** Words that stand for the prompt alone: whatever is sampled after it, the same tokens could have been. */
  readonly promptSeed: string
}

/** Below this a temperature means greedy, and engines report logprobs as at temperature 1. */
const GREEDY_TEMPERATURE = 1e-5
/** Float32 keeps this below zero, however sure the sampler is. */
const SUREST_LOGPROB = -1e-6
/** Nats by which each alternative is less likely than the one before it, at temperature 1. */
const FALL = 1

/**
 * Finite, below 0, exact float32. What probability the sampled token leaves is shared by endlessly many others, each `FALL`
 * less likely than the last: a distribution whose sum at any temperature has a closed form.
 */
export function drawLogprobs(
  qwen: Qwen,
  tokens: readonly SampledToken[],
  request: LogprobRequest,
): Pick<GeneratedChoice, 'logprobs' | 'alternatives'> {
  const next = seededNumbers(request.seed, 'logprobs')
  const isTempered = request.logprobMode === 'processed' && request.temperature > GREEDY_TEMPERATURE
  const positions = tokens.map(() => temper(Math.log(1 - next()) * 0.35 + SUREST_LOGPROB, isTempered ? request.temperature : 1))
  return {
    logprobs: positions.map(({ sampled }) => sampled),
    alternatives: positions.map((position, index) => alternativesOf(qwen, tokens, index, position, request)),
  }
}

type Position = { readonly sampled: number; readonly other: (rank: number) => number }

/** `raw`: the sampled token's logprob at temperature 1. */
function temper(raw: number, temperature: number): Position {
  const sampled = raw / temperature
  const first = (Math.log(-Math.expm1(raw)) + Math.log(-Math.expm1(-FALL))) / temperature
  const fall = FALL / temperature
  const others = first - Math.log(-Math.expm1(-fall))
  const top = Math.max(sampled, others)
  // At temperature 1 the sum is 1, and rounding must not change what was drawn.
  const total = temperature === 1 ? 0 : top + Math.log(Math.exp(sampled - top) + Math.exp(others - top))
  const reported = (logprob: number): number => Math.fround(Math.min(SUREST_LOGPROB, logprob - total))
  return { sampled: reported(sampled), other: (rank) => reported(first - (rank - 1) * fall) }
}

/**
 * The sampled token first, then others, the likeliest first. Which others they are depends on what stands before and not on
 * what was sampled: two answers to one prompt agree on how far apart those are.
 */
function alternativesOf(
  qwen: Qwen,
  tokens: readonly SampledToken[],
  index: number,
  { sampled, other }: Position,
  { topLogprobs, promptSeed }: LogprobRequest,
): readonly TokenAlternative[] {
  const token = tokens[index]
  if (token === undefined || topLogprobs === 0) return []
  const first = wholeBetween(seededNumbers(promptSeed, 'others', tokens[index - 1]?.id ?? 'first', index), 0, qwen.vocabularySize - 1)
  const others: TokenAlternative[] = []
  for (let rank = 1; others.length < topLogprobs - 1; rank += 1) {
    const id = (first + rank) % qwen.vocabularySize
    if (id !== token.id) others.push({ id, text: qwen.decode([id]), logprob: other(rank) })
  }
  return [{ id: token.id, text: token.text, logprob: sampled }, ...others]
}

// Turns an answer's text into what a sampler would have left: ids, logprobs, visible text and why it ended.
import type { EngineFinish, GeneratedChoice, SampledToken, TokenAlternative } from '../wire/generation.ts'
import { parseAnswer } from './answer-text.ts'
import type { Answer } from './answers.ts'
import type { Qwen } from './qwen.ts'
import { seededHex, seededNumbers } from './seeded.ts'

export type SamplingRequest = {
  readonly index: number
  readonly maxTokens: number
  readonly stops: readonly string[]
  readonly temperature: number
  readonly topLogprobs: number
  readonly parsesTools: boolean
  /** `raw`: before temperature; `processed`: as sampled. */
  readonly logprobMode: 'raw' | 'processed'
  /** Words that fix every number of this choice. */
  readonly seed: string
  readonly toolCallPrefix: string
}

export function sampleChoice(qwen: Qwen, answer: Answer, request: SamplingRequest): GeneratedChoice {
  const textIds = qwen.encode(answer.text)
  const complete = answer.finish === 'stop' ? [...textIds, qwen.endTokenId] : textIds
  const isCut = complete.length > request.maxTokens
  const all = visibleTokens(qwen, isCut ? complete.slice(0, request.maxTokens) : complete)
  const stopped = cutAtStop(all.text, all.tokens, request.stops)
  const tokens = stopped === null ? all.tokens : stopped.tokens
  const text = stopped === null ? all.text : stopped.text
  const finish: EngineFinish = stopped !== null ? 'stop' : isCut ? 'length' : answer.finish
  const parts = parseAnswer(text, request.parsesTools)
  const toolCalls = parts.filter((part) => part.kind === 'tool-call').length
  return {
    index: request.index,
    tokens,
    ...drawLogprobs(qwen, tokens, request),
    parts,
    finish,
    matchedStop: stopped?.stop ?? null,
    toolCallIds: Array.from({ length: toolCalls }, (_, call) => request.toolCallPrefix + seededHex(24, request.seed, 'call', call)),
    showsIds: true,
  }
}

/** Every token's own text, and the text as it grows; half a character at the end is not shown, as engines do. */
function visibleTokens(qwen: Qwen, ids: readonly number[]): { readonly text: string; readonly tokens: readonly SampledToken[] } {
  const decoder = new TextDecoder()
  let text = ''
  const tokens = ids.map((id) => {
    const bytes = qwen.tokenBytes(id)
    if (!qwen.isSpecial(id)) text += decoder.decode(bytes, { stream: true })
    return { id, text: new TextDecoder().decode(bytes), textEnd: text.length }
  })
  return { text, tokens }
}

/** The stop string leaves the text, but the tokens that spelt it stay sampled. */
function cutAtStop(
  text: string,
  tokens: readonly SampledToken[],
  stops: readonly string[],
): { readonly stop: string; readonly text: string; readonly tokens: readonly SampledToken[] } | null {
  const found = stops
    .map((stop) => ({ stop, start: stop === '' ? -1 : text.indexOf(stop) }))
    .filter((each) => each.start !== -1)
    .sort((left, right) => left.start + left.stop.length - (right.start + right.stop.length))[0]
  if (found === undefined) return null
  const last = tokens.findIndex((token) => token.textEnd >= found.start + found.stop.length)
  const kept = tokens.slice(0, last + 1).map((token) => ({ ...token, textEnd: Math.min(token.textEnd, found.start) }))
  return { stop: found.stop, text: text.slice(0, found.start), tokens: kept }
}

/** Below this a temperature means greedy, and engines report logprobs as at temperature 1. */
const GREEDY_TEMPERATURE = 1e-5
/** Float32 keeps this below zero, however sure the sampler is. */
const SUREST_LOGPROB = -1e-6

/**
 * Seeded logprobs, finite and below 0, as exact float32. Each token is one of two outcomes of a made-up
 * distribution, which is what a temperature other than 1 then sharpens or flattens in `processed` mode.
 */
function drawLogprobs(
  qwen: Qwen,
  tokens: readonly SampledToken[],
  request: SamplingRequest,
): Pick<GeneratedChoice, 'logprobs' | 'alternatives'> {
  const next = seededNumbers(request.seed, 'logprobs')
  const isTempered = request.logprobMode === 'processed' && request.temperature > GREEDY_TEMPERATURE
  const temperature = isTempered ? request.temperature : 1
  const logprobs = tokens.map(() => {
    const raw = Math.log(1 - next()) * 0.35 + SUREST_LOGPROB
    return Math.fround(Math.min(SUREST_LOGPROB, temper(raw, temperature)))
  })
  const alternatives = tokens.map((token, position) =>
    alternativesOf(qwen, token, logprobs[position] ?? SUREST_LOGPROB, request.topLogprobs),
  )
  return { logprobs, alternatives }
}

function temper(logprob: number, temperature: number): number {
  if (temperature === 1) return logprob
  const taken = logprob / temperature
  const other = Math.log(-Math.expm1(logprob)) / temperature
  const top = Math.max(taken, other)
  return taken - top - Math.log(Math.exp(taken - top) + Math.exp(other - top))
}

/** The sampled token first, then neighbours in the vocabulary sharing what probability is left. */
function alternativesOf(qwen: Qwen, token: SampledToken, logprob: number, count: number): readonly TokenAlternative[] {
  return Array.from({ length: count }, (_, rank) => {
    const id = rank === 0 ? token.id : (token.id + rank) % qwen.vocabularySize
    const text = rank === 0 ? token.text : qwen.decode([id])
    return { id, text, logprob: rank === 0 ? logprob : Math.fround(logprob - rank) }
  })
}

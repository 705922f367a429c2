// Turns an answer's text into what a sampler would have left: ids, logprobs, visible text and why it ended.

import { parseAnswer } from '../serve/answer-text.ts'
import { seededHex } from '../serve/seeded.ts'
import type { EngineFinish, GeneratedChoice, SampledToken } from '../wire/generation.ts'
import type { Answer } from './answers.ts'
import { drawLogprobs, type LogprobRequest } from './logprobs.ts'
import type { Qwen } from './qwen.ts'

/** `seed`: words that fix every number of this choice. */
export type SamplingRequest = LogprobRequest & {
  readonly index: number
  readonly maxTokens: number
  readonly stops: readonly string[]
  readonly stopTokenIds: readonly number[]
  readonly parsesTools: boolean
  readonly toolCallPrefix: string
  /** What the prompt already holds of the answer: it is gone on with, if it is this one's beginning. */
  readonly begun: readonly number[]
}

type Ending = { readonly text: string; readonly tokens: readonly SampledToken[]; readonly finish: EngineFinish }

export function sampleChoice(qwen: Qwen, answer: Answer, request: SamplingRequest): GeneratedChoice {
  const textIds = qwen.encode(answer.text)
  const whole = answer.finish === 'stop' ? [...textIds, qwen.endTokenId] : textIds
  const complete = request.begun.every((id, at) => id === whole[at]) ? whole.slice(request.begun.length) : whole
  // The model's own end token is no match, as engines look for it first.
  const stopAt = complete.findIndex((id) => id !== qwen.endTokenId && request.stopTokenIds.includes(id))
  const wanted = stopAt === -1 ? complete : complete.slice(0, stopAt + 1)
  const isCut = wanted.length > request.maxTokens
  const stopId = isCut || stopAt === -1 ? null : (wanted[stopAt] ?? null)
  const all = visibleTokens(qwen, isCut ? wanted.slice(0, request.maxTokens) : wanted, stopId)
  const stopped = cutAtStop(all.text, all.tokens, request.stops)
  const { text, tokens, finish }: Ending = stopped ?? { ...all, finish: isCut ? 'length' : stopId === null ? answer.finish : 'stop' }
  const parts = parseAnswer(text, request.parsesTools)
  const toolCalls = parts.filter((part) => part.kind === 'tool-call').length
  return {
    index: request.index,
    tokens,
    ...drawLogprobs(qwen, tokens, request),
    text,
    parts,
    finish,
    matchedStop: stopped?.stop ?? stopId,
    toolCallIds: Array.from({ length: toolCalls }, (_, call) => request.toolCallPrefix + seededHex(24, request.seed, 'call', call)),
    showsIds: true,
  }
}

/** Every token's own text, and the text as it grows; half a character at the end is not shown, as engines do, nor is a stop token. */
function visibleTokens(
  qwen: Qwen,
  ids: readonly number[],
  stopId: number | null,
): { readonly text: string; readonly tokens: readonly SampledToken[] } {
  const decoder = new TextDecoder()
  let text = ''
  let open = new Uint8Array()
  const tokens = ids.map((id) => {
    const bytes = qwen.tokenBytes(id)
    if (!qwen.isSpecial(id) && id !== stopId) {
      text += decoder.decode(bytes, { stream: true })
      open = unfinished(Buffer.concat([open, bytes]))
    }
    return { id, text: new TextDecoder().decode(bytes), textEnd: text.length, endsWhole: open.length === 0 }
  })
  return { text, tokens }
}

/** The bytes at the end that only begin a character. */
function unfinished(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte < 0x80) break
    if (byte < 0xc0) continue
    const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4
    return Uint8Array.from(length > back ? bytes.slice(-back) : [])
  }
  return new Uint8Array()
}

/** The stop string leaves the text, but the tokens that spelt it stay sampled. */
function cutAtStop(text: string, tokens: readonly SampledToken[], stops: readonly string[]): (Ending & { readonly stop: string }) | null {
  const found = stops
    .map((stop) => ({ stop, start: stop === '' ? -1 : text.indexOf(stop) }))
    .filter((each) => each.start !== -1)
    .sort((left, right) => left.start + left.stop.length - (right.start + right.stop.length))[0]
  if (found === undefined) return null
  const last = tokens.findIndex((token) => token.textEnd >= found.start + found.stop.length)
  const kept = tokens.slice(0, last + 1).map((token) => ({ ...token, textEnd: Math.min(token.textEnd, found.start) }))
  return { stop: found.stop, text: text.slice(0, found.start), tokens: kept, finish: 'stop' }
}

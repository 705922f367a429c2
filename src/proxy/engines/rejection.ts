// An engine's refusal: its words, whether the prompt is too long, and which budget would have fitted.
import { isObject } from '../json.ts'
import type { EngineReply, HttpResponse } from './engine.ts'
import { bodyOf } from './engine-json.ts'

type Rejection = Extract<EngineReply, { type: 'rejected' }>

export function readRejection(response: HttpResponse): Rejection {
  const body = bodyOf(response)
  const inner = body !== null && isObject(body.error) ? body.error : body
  const told = inner === null ? undefined : (inner.message ?? inner.detail)
  const message = typeof told === 'string' && told !== '' ? told.slice(0, 2_000) : `the engine answered ${response.status}`
  const fittingMaxTokens = response.status === 400 ? fitting(message) : null
  const isOverflow = response.status === 400 && fittingMaxTokens === null && (inner?.type === OVERFLOW_TYPE || OVERFLOW.test(message))
  return {
    type: 'rejected',
    status: response.status,
    reason: isOverflow ? 'context-overflow' : 'other',
    message,
    retryAfterMs: retryAfterMs(response.headers['retry-after']),
    fittingMaxTokens,
  }
}

/** A refusal of our own, before anything is sent, in the engine's stead. */
export function refused(message: string): Rejection {
  return { type: 'rejected', status: 400, reason: 'other', message, retryAfterMs: null, fittingMaxTokens: null }
}

/** The same for a conversation that no context of the engine's holds. */
export function overflow(message: string): Rejection {
  return { ...refused(message), reason: 'context-overflow' }
}

/** llama.cpp names it; vLLM and SGLang say it in a sentence, which for current vLLM is the same whether it is the prompt or the budget. */
const OVERFLOW_TYPE = 'exceed_context_size_error'
const OVERFLOW =
  /context length|longer than the (model|maximum)|max_model_len|max_total_tokens|exceeds the (available context size|maximum allowed length)/i

/** Sentences with which engines refuse a budget, and where the context and the prompt stand in them. */
const BUDGET: readonly RegExp[] = [
  /\(\d+ > (\d+) - (\d+)\)/,
  /maximum context length is (\d+) tokens.*\((\d+) in the messages/s,
  /maximum context length is (\d+) tokens.*your prompt contains (\d+) input tokens/s,
  /maximum context length of (\d+) tokens.*: (\d+) tokens from the input messages/s,
]

/** What the prompt leaves of the context fits; null when nothing is left, or nothing was said of a budget. */
function fitting(message: string): number | null {
  for (const sentence of BUDGET) {
    const [, context, prompt] = sentence.exec(message) ?? []
    if (context === undefined || prompt === undefined) continue
    const left = Number(context) - Number(prompt)
    return left >= 1 ? left : null
  }
  return null
}

function retryAfterMs(header: string | undefined): number | null {
  const seconds = Number(header)
  return header !== undefined && header !== '' && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null
}

// The pivot → one GenerateContentResponse, and the parts of which its stream is made too.
import type { Usage } from '../../../contract/call.ts'
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer } from '../../chat.ts'
import { isObject } from '../../json.ts'
import { exactObject } from '../arguments.ts'
import type { AnswerIdentity } from '../dialect.ts'
import { signatureOf } from '../signature.ts'

/** What of the request the answer depends on. */
export type GoogleWishes = {
  /** False only for a client that turned thoughts off: one that says nothing is shown what the model thought. */
  readonly thoughts: boolean
  readonly logprobs: boolean
  /** A stream is one JSON array, not events. */
  readonly isArray: boolean
}

export function writeGoogle(answer: ChatAnswer, identity: AnswerIdentity, wishes: GoogleWishes): string {
  return JSON.stringify(responseOf(partsOf(answer, identity, wishes), identity, closing(answer, wishes)))
}

/** What comes with the last part only: agents take a finish reason for the end. */
export type Closing = { readonly candidate: object; readonly usageMetadata: object }

/** One response, of a whole answer or of a piece of it. */
export function responseOf(parts: readonly object[], identity: AnswerIdentity, last: Closing | null): object {
  return {
    candidates: [{ content: { role: 'model', parts }, ...last?.candidate, index: 0 }],
    ...(last === null ? {} : { usageMetadata: last.usageMetadata }),
    modelVersion: identity.model,
    responseId: identity.id,
  }
}

/**
 * Thoughts, text, calls, and never nothing: an answer without a part is asked for again by clients.
 * The signature stands where Google puts it, on the first call, or else on the last part; when the text is cut, on every piece of it,
 * because clients that join pieces keep the first one's or the last one's.
 */
function partsOf(answer: ChatAnswer, identity: AnswerIdentity, wishes: GoogleWishes): readonly object[] {
  const { reasoning_content: reasoning = '', content, tool_calls: calls = [] } = answer.message
  const text = content ?? ''
  return [
    ...(wishes.thoughts && reasoning !== '' ? [thoughtPart(reasoning)] : []),
    ...(text === '' && calls.length > 0 ? [] : [textPart(text, calls.length === 0 ? identity : null)]),
    ...calls.map(({ id, function: { name, arguments: args } }, index) => callPart(id, name, args, index === 0 ? identity : null)),
  ]
}

export function thoughtPart(text: string): object {
  return { text, thought: true }
}

/** With an identity, signed by it. */
export function textPart(text: string, signer: AnswerIdentity | null): object {
  return { text, ...signed(signer) }
}

export function callPart(id: string, name: string, args: string, signer: AnswerIdentity | null): object {
  return { functionCall: { id, name, args: exactObject(args) ?? {} }, ...signed(signer) }
}

function signed(signer: AnswerIdentity | null): object {
  return signer === null ? {} : { thoughtSignature: signatureOf(signer.id) }
}

export function closing(answer: ChatAnswer, wishes: GoogleWishes): Closing {
  return {
    candidate: { finishReason: finishOf(answer.finishReason), ...(wishes.logprobs ? logprobsOf(answer.logprobs) : {}) },
    usageMetadata: usageOf(answer.usage),
  }
}

function finishOf(reason: ChatAnswer['finishReason']): 'STOP' | 'MAX_TOKENS' | 'SAFETY' {
  switch (reason) {
    case 'length':
      return 'MAX_TOKENS'
    case 'content_filter':
      return 'SAFETY'
    case 'stop':
    case 'tool_calls':
      return 'STOP'
    default:
      return unreachable(reason)
  }
}

function usageOf({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): object {
  return {
    promptTokenCount: promptTokens,
    candidatesTokenCount: Math.max(0, completionTokens - (reasoningTokens ?? 0)),
    totalTokenCount: promptTokens + completionTokens,
    ...(reasoningTokens === null ? {} : { thoughtsTokenCount: reasoningTokens }),
    ...(cachedTokens === null ? {} : { cachedContentTokenCount: cachedTokens }),
  }
}

/** From the entries of OpenAI's `logprobs.content`. */
function logprobsOf(entries: ChatAnswer['logprobs']): object {
  if (entries === null || entries.length === 0) return {}
  const chosen = entries.map(logprobOf)
  return {
    avgLogprobs: chosen.reduce((sum, { logProbability }) => sum + logProbability, 0) / chosen.length,
    logprobsResult: {
      chosenCandidates: chosen,
      topCandidates: entries.map((entry) => ({
        candidates: isObject(entry) && Array.isArray(entry.top_logprobs) ? entry.top_logprobs.map(logprobOf) : [],
      })),
    },
  }
}

function logprobOf(entry: unknown): { readonly token: string; readonly logProbability: number } {
  const { token, logprob } = isObject(entry) ? entry : {}
  return { token: typeof token === 'string' ? token : '', logProbability: typeof logprob === 'number' ? logprob : 0 }
}

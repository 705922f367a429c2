// A request that names an earlier answer of its session, with the conversation that led there put before what is new.
import type { Capture } from './capture.ts'
import { type NormalisedCall, orphanedResult } from './chat.ts'
import { type Failure, failure } from './failure.ts'
import type { Recall } from './recall.ts'

export type Continued = { readonly ok: true; readonly normalised: NormalisedCall } | { readonly ok: false; readonly failure: Failure }

/** What a session knows of its conversations; `maxChars` bounds the one that is put before a request. */
type Known = { readonly capture: Capture; readonly recall: Recall; readonly maxChars: number }

const PARAM = 'previous_response_id'

export function continued(normalised: NormalisedCall, { capture, recall, maxChars }: Known): Continued {
  const { continues, request } = normalised
  if (continues === null) return { ok: true, normalised }
  const earlier = capture.conversationOf(continues, maxChars)
  if (earlier === 'too-long') {
    const detail = `${PARAM}: the conversation before it is longer than ${maxChars} characters`
    return { ok: false, failure: failure('too-large', detail, { param: PARAM }) }
  }
  if (earlier === null) {
    const detail = `${PARAM}: no answer of this session has that id`
    return { ok: false, failure: failure('previous-response-unknown', detail, { param: PARAM }) }
  }
  // Instructions are not carried over from one response to the next: those of this request take their place.
  const [head] = request.messages
  const kept = head?.role === 'system' && earlier[0]?.role === 'system' ? earlier.slice(1) : earlier
  const messages = head?.role === 'system' ? [head, ...kept, ...request.messages.slice(1)] : [...kept, ...request.messages]
  const orphan = orphanedResult(recall.restore(messages, request.tools).messages)
  if (orphan !== null) {
    const detail = `input: no tool call has the id ${JSON.stringify(orphan)}`
    return { ok: false, failure: failure('invalid-request', detail, { param: 'input' }) }
  }
  return { ok: true, normalised: { ...normalised, request: { ...request, messages } } }
}

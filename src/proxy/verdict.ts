// What becomes of a call by what its engine said: an answer, a failure, or another send.
import type { Diagnostic } from '../contract/call.ts'
import type { ReplicaId } from '../contract/ids.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { unreachable } from '../kernel/unreachable.ts'
import { type ChatAnswer, type ChatMessage, type ChatRequest, withToolCallIds } from './chat.ts'
import type { Ending, Generated } from './ending.ts'
import { type AnswerPart, answerPartOf } from './engines/continuation.ts'
import type { EngineOutcome, EngineReply } from './engines/engine.ts'
import { type Failure, failure } from './failure.ts'
import type { Lease } from './pool/pool.ts'
import { freed } from './profiles/preparation.ts'
import type { ModelProfile } from './profiles/profile.ts'
import type { BoundarySettings } from './settings.ts'
import { withSoundArguments } from './sound-arguments.ts'

type Rejection = Extract<EngineReply, { type: 'rejected' }>

/** What earlier sends of a call have taught: the next one is made by it. */
export type Lessons = {
  /** Replicas that could not be reached; they are asked last. */
  readonly avoid: Set<ReplicaId>
  /** The budget that fits the context, once it is known that the wanted one does not. */
  maxTokens: number | null
  /** The first refusal that may be of the budget: only the prompt's length tells. */
  overBudget: Rejection | null
  /** An engine has refused the conversation as it is, and calls in it may be why. */
  needsSoundArguments: boolean
  breaks: number
  /** In a row, without a token more, and outside of pauses. */
  aborts: number
  /** What was drawn of the answer when its engine gave it up: the next send goes on from there. */
  part: AnswerPart | null
  /** A server did not go on with an answer. */
  drawsAnew: boolean
  /** A client has heard of the answer: no other one can take its place. */
  hasTold: boolean
  outage: Outage | null
}

/** A time in which no server takes the call; `endsMs` is monotonic, and then it is told so. */
type Outage = { readonly endsMs: number; tries: number }

/** One send, and how it came to be. */
export type Sent = {
  readonly lease: Lease
  readonly profile: ModelProfile
  /** As prepared for the model. */
  readonly request: ChatRequest
  readonly outcome: EngineOutcome | Unaffordable | Untellable
}

/** A part of another answer was told, and cannot be gone on with; nothing was sent. */
type Untellable = { readonly type: 'untellable' }

/** The conversation is longer than the session may have it; nothing was sent. */
type Unaffordable = { readonly type: 'unaffordable' }

export type Verdict = { readonly type: 'ended'; readonly generated: Generated } | { readonly type: 'again'; readonly afterMs: number }

export type Judge = {
  readonly kernel: Kernel
  readonly settings: BoundarySettings
  readonly ending: Ending
  readonly lessons: Lessons
  /** The call's own. */
  readonly signal: AbortSignal
  /** A pause began while the call was in flight. */
  readonly wasHeld: boolean
}

/** The longest pause between two sends, in `repeatDelayMs`. */
const MAX_DELAYS = 8

const AT_ONCE: Verdict = { type: 'again', afterMs: 0 }

const GIVEN_UP = failure('engine-aborted', 'the inference server aborted the generation; try again', { retryAfterMs: 1_000 })

export function judge(court: Judge, sent: Sent): Verdict {
  const { outcome } = sent
  const failed = (reason: Failure): Verdict => ({ type: 'ended', generated: court.ending.failed(reason) })
  if (!isUntaken(outcome)) court.lessons.outage = null
  if (court.lessons.part !== null && isRefused(outcome)) return drawAnew(court, outcome)
  switch (outcome.type) {
    case 'answer':
      return { type: 'ended', generated: answered(court, sent, outcome) }
    case 'aborted':
      return aborted(court, outcome)
    case 'broken':
      return broken(court, sent.lease, outcome.reply)
    case 'rejected':
      if (isUnavailable(outcome)) {
        unreached(court.ending, court.lessons, sent.lease.replica, outcome.message)
        return untilItServes(court) ?? failed(rejection(outcome))
      }
      return (court.lessons.hasTold ? null : rejected(court, sent.request.messages, outcome)) ?? failed(rejection(outcome))
    case 'garbled':
      return failed(failure('engine-failed', `the inference server's answer cannot be read: ${outcome.detail}`))
    case 'unserved':
      return failed(failure('gateway-error', outcome.detail))
    case 'untellable':
      return failed(GIVEN_UP)
    case 'unaffordable':
      return failed(failure('budget-exhausted', 'the conversation is longer than the session may have it'))
    default:
      return unreachable(outcome)
  }
}

function answered({ kernel, ending }: Judge, { profile, request }: Sent, reply: Extract<EngineReply, { type: 'answer' }>): Generated {
  const cut = freed(reply.answer, profile)
  const answer = withToolCallIds(cut.answer, () => inventedId(kernel, ending, profile))
  ending.note(...reply.diagnostics, ...cut.diagnostics, ...oddities(answer, request))
  return ending.answered(answer, reply)
}

/** For a call that the engine gave none. */
export function inventedId({ random }: Kernel, ending: Ending, { printsCallIds }: ModelProfile): string {
  if (printsCallIds) ending.note({ code: 'call-id-invented', detail: 'the chat template shows it to the model' })
  return `call_${random.hex(12)}`
}

/**
 * A generation that was given up is no answer, however much of it there is. Trainers give up all of them at an update of the weights, as often
 * as they update: whoever has come further, or was held, has lost nothing.
 */
function aborted({ settings, ending, lessons, signal, wasHeld }: Judge, reply: Extract<EngineReply, { type: 'aborted' }>): Verdict {
  ending.note({ code: 'generation-aborted', detail: `${reply.detail} after ${reply.tokens.sampledIds.length} tokens` })
  const sampledBefore = lessons.part?.sampledIds.length ?? 0
  if (settings.aborted === 'resume' && !lessons.drawsAnew) lessons.part = answerPartOf(reply) ?? lessons.part
  if ((lessons.part?.sampledIds.length ?? 0) > sampledBefore) lessons.aborts = 0
  else if (!wasHeld) lessons.aborts += 1
  if (lessons.aborts <= settings.maxRepeats && !isBoundToFail(lessons) && !signal.aborted)
    return { type: 'again', afterMs: settings.repeatDelayMs * Math.max(1, lessons.aborts) }
  return { type: 'ended', generated: ending.givenUp(GIVEN_UP, reply) }
}

/** What was told of an answer can only be gone on with. */
export function isBoundToFail({ hasTold, part }: Lessons): boolean {
  return hasTold && part === null
}

/** The server does not do what goes on with an answer, or not for this one. */
function isRefused(outcome: Sent['outcome']): outcome is Extract<EngineOutcome, { type: 'rejected' | 'garbled' | 'unserved' }> {
  return outcome.type === 'garbled' || outcome.type === 'unserved' || (outcome.type === 'rejected' && !isUnavailable(outcome))
}

function drawAnew({ ending, lessons }: Judge, outcome: Extract<EngineOutcome, { type: 'rejected' | 'garbled' | 'unserved' }>): Verdict {
  const detail = outcome.type === 'rejected' ? `status ${outcome.status}: ${outcome.message}` : outcome.detail
  ending.note({ code: 'generation-begun-anew', detail })
  lessons.part = null
  lessons.drawsAnew = true
  return isBoundToFail(lessons) ? { type: 'ended', generated: ending.failed(GIVEN_UP) } : AT_ONCE
}

function broken(court: Judge, { replica }: Lease, reply: Extract<EngineOutcome, { type: 'broken' }>['reply']): Verdict {
  const { settings, ending, lessons, signal } = court
  const failed = (reason: Failure): Verdict => ({ type: 'ended', generated: ending.failed(reason) })
  if (signal.aborted) return failed(failure('cancelled', 'the call was cancelled'))
  if (reply.error === 'aborted') return failed(failure('engine-timeout', 'the inference server did not answer in time'))
  if (reply.error === 'too-large') return failed(failure('engine-failed', reply.detail))
  unreached(ending, lessons, replica, reply.detail)
  // Nothing was sent: it is not this call that the server dies of.
  if (reply.error === 'refused') {
    const again = untilItServes(court)
    if (again !== null) return again
  }
  lessons.breaks += 1
  if (lessons.breaks <= settings.maxRepeats && !isBoundToFail(lessons))
    return { type: 'again', afterMs: settings.repeatDelayMs * lessons.breaks }
  return failed(failure('engine-unreachable', 'the inference server cannot be reached; try again later', { retryAfterMs: 1_000 }))
}

/** It runs and does not serve yet: llama.cpp's words, and those of the embedded engine. Any other 503 is for the client to heed. */
export function isUnavailable({ status, message }: Rejection): boolean {
  return status === 503 && message.includes('Loading model')
}

/** The server had no part in it: what was an outage is still one. */
function isUntaken(outcome: Sent['outcome']): boolean {
  return outcome.type === 'broken' ? outcome.reply.error === 'refused' : outcome.type === 'rejected' && isUnavailable(outcome)
}

function unreached(ending: Ending, lessons: Lessons, { id }: Lease['replica'], detail: string): void {
  // An outage is one finding, however often it was looked for its end.
  if (lessons.outage === null || lessons.outage.tries === 0) ending.note({ code: 'replica-unreachable', detail: `${id}: ${detail}` })
  lessons.avoid.add(id)
}

/** Another send while the outage may last, later each time; null when it has lasted long enough. */
function untilItServes({ kernel, settings, lessons, signal }: Judge): Verdict | null {
  const outage = outageOf(kernel, settings, lessons)
  if (signal.aborted || kernel.clock.nowMs() >= outage.endsMs) return null
  outage.tries += 1
  return { type: 'again', afterMs: settings.repeatDelayMs * Math.min(outage.tries, MAX_DELAYS) }
}

/** Begins when the call first finds no server that takes it. */
export function outageOf({ clock }: Kernel, { outageMs }: BoundarySettings, lessons: Lessons): Outage {
  lessons.outage ??= { endsMs: clock.nowMs() + outageMs, tries: 0 }
  return lessons.outage
}

/** Another send when the refusal has a remedy that was not tried yet; else null. */
function rejected({ ending, lessons }: Judge, messages: readonly ChatMessage[], reply: Rejection): Verdict | null {
  const { max_tokens: asked } = ending.parameters()
  const isOfLength = reply.fittingMaxTokens !== null || reply.reason === 'context-overflow'
  if (isOfLength && typeof asked === 'number' && lessons.maxTokens === null && lessons.overBudget === null) {
    // One token less than was asked for is what is left when counting stopped at the first token too many.
    if (reply.fittingMaxTokens !== null && reply.fittingMaxTokens < asked - 1) learnBudget(lessons, ending, reply.fittingMaxTokens)
    else lessons.overBudget = reply
    return AT_ONCE
  }
  if (lessons.needsSoundArguments || reply.reason === 'context-overflow' || (reply.status !== 400 && reply.status !== 500)) return null
  const mended = withSoundArguments(messages)
  if (mended === null) return null
  lessons.needsSoundArguments = true
  ending.note({ code: 'arguments-replaced', detail: `${mended.replaced} calls in history: ${reply.message.slice(0, 200)}` })
  return AT_ONCE
}

export function learnBudget(lessons: Lessons, ending: Ending, fits: number): void {
  ending.note({ code: 'max-tokens-clamped', detail: `${ending.parameters().max_tokens} to ${fits}` })
  lessons.maxTokens = fits
}

/** Answers that are valid and yet not what an agent can use; counted, never repaired. */
function oddities({ message, finishReason }: ChatAnswer, { tools, parameters }: ChatRequest): readonly Diagnostic[] {
  const calls = message.tool_calls ?? []
  const found: Diagnostic[] = []
  if (finishReason === 'tool_calls' && calls.length === 0) found.push({ code: 'tool-calls-missing', detail: 'finish_reason is tool_calls' })
  if ((message.content ?? '') === '' && calls.length === 0)
    found.push({ code: 'empty-visible', detail: `finish_reason is ${finishReason}` })
  // An engine that was started without a parser of calls, or whose parser gave up, leaves them in the text.
  const mayCall = tools !== null && parameters.tool_choice !== 'none' && calls.length === 0
  if (mayCall && message.content?.includes('<tool_call>') === true)
    found.push({ code: 'tool-call-unparsed', detail: 'the text holds <tool_call>' })
  return found
}

/** Clients must see what is theirs to mend with its status; the engine's own credentials and routes are not. */
function rejection(reply: Rejection): Failure {
  const { status, message, retryAfterMs } = reply
  if (reply.reason === 'context-overflow') return failure('context-overflow', message, { param: 'messages' })
  if (status === 429 || status === 503) return failure('overloaded', message, { status, retryAfterMs: retryAfterMs ?? 1_000 })
  if (status >= 500 && status <= 599) return failure('engine-failed', message, { status })
  if (status === 400 || status === 413 || status === 422) return failure('engine-rejected', message, { status })
  return failure('engine-failed', `the inference server answered ${status}: ${message}`)
}

// What is kept of a session's calls: one record each, its tokens in the arena, and every message text once.
import type { CallRecord, CallStatus, CaptureError, Delivery, Diagnostic, EngineKind, FinishReason, Usage } from '../contract/call.ts'
import { type CallId, callId, type ReplicaId, type SessionId } from '../contract/ids.ts'
import type { SessionTokens } from '../tokens/session-tokens.ts'
import type { CallsPart, CallsWish, SealedCalls } from './boundary.ts'
import type { AnswerMessage, ChatMessage, NormalisedCall } from './chat.ts'
import type { CapturedTokens } from './engines/engine.ts'
import { samplingOf } from './parameters.ts'
import { openTextPool } from './text-pool.ts'

/** A call from its arrival to its end. */
export type OpenedCall = {
  readonly id: CallId
  readonly sequence: number
  readonly dialect: CallRecord['dialect']
  readonly lineage: CallRecord['lineage']
  readonly digest: string
  readonly retryOf: CallId | null
  readonly normalised: NormalisedCall
  readonly startedAtMs: number
  readonly startedMs: number
}

/** How it ended. */
export type CallEnd = {
  readonly status: CallStatus
  readonly httpStatus: number
  readonly finishReason: FinishReason | null
  readonly replica: ReplicaId | null
  readonly modelServed: string
  readonly engine: EngineKind
  readonly logprobMode: CallRecord['logprobMode']
  /** As sent in the end: the model's profile has been applied, and the budget may have been clamped. */
  readonly parameters: NormalisedCall['request']['parameters']
  readonly message: AnswerMessage | null
  readonly tokens: CapturedTokens | null
  readonly weightVersion: string | null
  readonly weightSpans: CallRecord['weightSpans']
  readonly usage: Usage | null
  readonly diagnostics: readonly Diagnostic[]
  readonly error: string | null
  readonly isUpstreamFailure: boolean
  readonly endedMs: number
}

export type Capture = {
  /** The record stands at the index of its tokens; its delivery is `no` until the socket says otherwise. */
  record(opened: OpenedCall, end: CallEnd): CallRecord
  /** The record, with the better of what it said and `delivery`; null while the call has none. */
  deliver(call: CallId, delivery: Delivery): CallRecord | null
  /** The messages of a recorded call and its answer, as the engine knows them; null for a call that has none. */
  conversationOf(call: string, maxChars: number): readonly ChatMessage[] | 'too-long' | null
  /** Some of the records, of so many calls that were opened. */
  part(wish: CallsWish, opened: number): CallsPart
  /** Of the texts, and of the records that refer to them. */
  textBytes(): number
  seal(): SealedCalls
  release(sealed: SealedCalls): void
  close(): void
}

export type CaptureOptions = {
  readonly session: SessionId
  readonly attempt: number
  readonly tokens: SessionTokens
}

const NO_TOKENS: CapturedTokens = { promptIds: [], sampledIds: [], logprobs: null, error: null }
const WORTH: { readonly [delivery in Delivery]: number } = { no: 0, partial: 1, yes: 2 }

export function openCapture(options: CaptureOptions): Capture {
  const { session, attempt, tokens } = options
  const texts = openTextPool()
  const calls: CallRecord[] = []
  const indexes = new Map<CallId, number>()
  let upstreamFailures = 0
  let recordBytes = 0

  /** Every call gets an entry, so that record i and tokens i are the same call. */
  function append(captured: CapturedTokens): CaptureError | null {
    const { promptIds, sampledIds, logprobs, error } = captured
    if (tokens.append({ promptIds, sampledIds, logprobs }).ok) return error
    tokens.append(NO_TOKENS)
    return { code: 'arena-full', detail: `no room for ${promptIds.length} prompt and ${sampledIds.length} sampled tokens` }
  }

  return {
    record(opened, end) {
      const { request } = opened.normalised
      const captureError = append(end.tokens ?? NO_TOKENS)
      const record: CallRecord = {
        id: opened.id,
        session,
        attempt,
        sequence: opened.sequence,
        dialect: opened.dialect,
        lineage: opened.lineage,
        modelRequested: opened.normalised.modelRequested,
        modelServed: end.modelServed,
        engine: end.engine,
        replica: end.replica,
        streamed: opened.normalised.stream,
        status: end.status,
        httpStatus: end.httpStatus,
        finishReason: end.finishReason,
        delivery: 'no',
        digest: opened.digest,
        retryOf: opened.retryOf,
        promptMessages: request.messages.map((message) => texts.add(JSON.stringify(message))),
        responseMessage: end.message === null ? null : texts.add(JSON.stringify(end.message)),
        tools: request.tools === null ? null : texts.add(JSON.stringify(request.tools)),
        toolCount: request.tools?.length ?? 0,
        maxTokensRequested: opened.normalised.maxTokensRequested,
        sampling: samplingOf(end.parameters),
        parameters: texts.add(JSON.stringify(end.parameters)),
        logprobMode: end.logprobMode,
        weightVersion: end.weightVersion,
        // Tokens that were not kept are none to tell of.
        weightSpans: captureError?.code === 'arena-full' ? [] : end.weightSpans,
        usage: end.usage,
        captureError,
        diagnostics: [...opened.normalised.diagnostics, ...end.diagnostics],
        startedAtMs: opened.startedAtMs,
        durationMs: Math.max(0, end.endedMs - opened.startedMs),
        error: end.error,
      }
      if (end.isUpstreamFailure) upstreamFailures += 1
      recordBytes += bytesOf(record)
      indexes.set(record.id, calls.length)
      calls.push(record)
      return record
    },
    deliver(call, delivery) {
      const index = indexes.get(call)
      const record = index === undefined ? undefined : calls[index]
      if (index === undefined || record === undefined) return null
      if (WORTH[delivery] <= WORTH[record.delivery]) return record
      const delivered = { ...record, delivery }
      calls[index] = delivered
      return delivered
    },
    conversationOf(call, maxChars) {
      const index = indexes.get(callId(call))
      const record = index === undefined ? undefined : calls[index]
      if (record === undefined || record.responseMessage === null) return null
      const told = [...record.promptMessages, record.responseMessage].map((at) => texts.at(at) ?? 'null')
      // Texts that are kept once may stand in it many times.
      if (told.reduce((sum, text) => sum + text.length, 0) > maxChars) return 'too-long'
      // The pool holds what this file wrote.
      return told.map((text): ChatMessage => JSON.parse(text))
    },
    part({ from, limit, maxText }, opened) {
      const last = Math.min(from + limit, opened)
      const wished = calls.filter(({ sequence }) => sequence >= from && sequence < last).sort((one, other) => one.sequence - other.sequence)
      const part = openTextPool()
      const moved = (index: number): number => part.add(texts.at(index) ?? 'null')
      const taken: CallRecord[] = []
      for (const call of wished) {
        if (part.bytes() > maxText) return { calls: taken, from, until: call.sequence, total: opened, messages: part.all() }
        taken.push({
          ...call,
          promptMessages: call.promptMessages.map(moved),
          responseMessage: call.responseMessage === null ? null : moved(call.responseMessage),
          tools: call.tools === null ? null : moved(call.tools),
          parameters: moved(call.parameters),
        })
      }
      return { calls: taken, from, until: Math.max(from, last), total: opened, messages: part.all() }
    },
    textBytes: () => texts.bytes() + recordBytes,
    seal: () => ({ calls: [...calls], messages: texts.all(), tokens: tokens.lease(), upstreamFailures }),
    release: (sealed) => tokens.release(sealed.tokens),
    close: () => tokens.close(),
  }
}

const REFERENCE_BYTES = 8
/** Of a note beside its text. */
const NOTE_BYTES = 64

/** What can be many: the rest of a record is small. */
function bytesOf({ promptMessages, diagnostics }: CallRecord): number {
  return diagnostics.reduce((sum, { detail }) => sum + NOTE_BYTES + detail.length, promptMessages.length * REFERENCE_BYTES)
}

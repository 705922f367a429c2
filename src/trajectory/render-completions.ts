// Packed calls as Polar's CompletionRecords in JSON, a bounded part at a time.
import type { CallRecord, Usage } from '../contract/call.ts'
import { callHex } from '../contract/ids.ts'
import { type OpenCompletions, openCompletions } from './completions.ts'

export type CompletionsWish = {
  /** Sequence numbers: from the first up to but not including the second. */
  readonly from: number
  readonly until: number
  /** No record is begun behind so many bytes. */
  readonly maxBytes: number
}

/** JSON in UTF-8: the members of two lists, each with commas between them. */
export type RenderedCompletions = {
  /** Polar's records, which always hold a response. */
  readonly answered: ArrayBuffer
  /** Calls without one: what is known of them beside their messages. */
  readonly failed: ArrayBuffer
  /** The first sequence number that was not looked at. */
  readonly next: number
  /** One past the last sequence number that was packed. */
  readonly until: number
  readonly total: number
}

export function renderCompletions(packed: ArrayBuffer, { from, until, maxBytes }: CompletionsWish): RenderedCompletions {
  const open = openCompletions(packed)
  const last = Math.min(until, open.until)
  const answered = openList()
  const failed = openList()
  let next = Math.max(from, open.from)
  for (const [at, sequence] of open.sequences.entries()) {
    if (sequence < next) continue
    if (sequence >= last || answered.bytes() + failed.bytes() > maxBytes) break
    const call = open.call(at)
    if (call.status === 'ok' && call.responseMessage !== null) answered.add(writeAnswered(call, call.responseMessage, open))
    else failed.add([Buffer.from(JSON.stringify({ ...headOf(call), error: call.error, metadata: metadataOf(call, open) }))])
    next = sequence + 1
  }
  const isCut = open.sequences.some((sequence) => sequence >= next && sequence < last)
  return {
    answered: answered.whole(),
    failed: failed.whole(),
    next: isCut ? next : Math.max(next, last),
    until: open.until,
    total: open.total,
  }
}

function* writeAnswered(call: CallRecord, response: number, open: OpenCompletions): Generator<Uint8Array> {
  yield Buffer.from(`${JSON.stringify(headOf(call)).slice(0, -1)},"request":{"model":${JSON.stringify(call.modelServed)},"messages":[`)
  for (const [at, index] of call.promptMessages.entries()) {
    if (at > 0) yield COMMA
    yield open.message(index)
  }
  yield Buffer.from(']')
  if (call.tools !== null) {
    yield Buffer.from(',"tools":')
    yield open.message(call.tools)
  }
  const parameters = open.message(call.parameters)
  // An object's text: its members stand beside the model and the messages, as they were sent.
  if (parameters.length > '{}'.length) {
    yield COMMA
    yield parameters.subarray(1, -1)
  }
  const completion = {
    id: `chatcmpl-${callHex(call.id)}`,
    object: 'chat.completion',
    created: Math.floor(call.startedAtMs / 1_000),
    model: call.modelServed,
    ...(call.usage === null ? {} : { usage: usageOf(call.usage) }),
  }
  yield Buffer.from(`},"response":${JSON.stringify(completion).slice(0, -1)},"choices":[{"index":0,"message":`)
  yield open.message(response)
  yield Buffer.from(`,"logprobs":null,"finish_reason":${JSON.stringify(call.finishReason)}}]},"metadata":`)
  yield Buffer.from(`${JSON.stringify(metadataOf(call, open))}}`)
}

/** The body as its agent sent it is not kept, only what became of it. */
function headOf(call: CallRecord) {
  return {
    completion_id: call.id,
    timestamp: new Date(call.startedAtMs + call.durationMs).toISOString(),
    original_request: {
      model: call.modelRequested,
      stream: call.streamed,
      max_tokens: call.maxTokensRequested,
      polar_node: { dialect: call.dialect, body: 'not kept' },
    },
  }
}

function metadataOf(call: CallRecord, { metadata }: OpenCompletions) {
  return {
    ...metadata,
    polar_node: {
      attempt: call.attempt,
      sequence: call.sequence,
      status: call.status,
      http_status: call.httpStatus,
      dialect: call.dialect,
      lineage: call.lineage,
      engine: call.engine,
      replica: call.replica,
      retry_of: call.retryOf,
      delivery: call.delivery,
      weight_version: call.weightVersion,
      weight_versions: call.weightSpans,
      logprob_mode: call.logprobMode,
      sampling: {
        temperature: call.sampling.temperature,
        top_p: call.sampling.topP,
        top_k: call.sampling.topK,
        seed: call.sampling.seed,
        max_tokens: call.sampling.maxTokens,
      },
      duration_ms: call.durationMs,
      capture_error: call.captureError,
      diagnostics: call.diagnostics,
    },
  }
}

function usageOf({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens ?? 0 },
    completion_tokens_details: { reasoning_tokens: reasoningTokens ?? 0 },
  }
}

const COMMA = Buffer.from(',')

function openList() {
  const parts: Uint8Array[] = []
  let bytes = 0
  const put = (part: Uint8Array): void => {
    parts.push(part)
    bytes += part.byteLength
  }
  return {
    bytes: () => bytes,
    add(pieces: Iterable<Uint8Array>) {
      if (parts.length > 0) put(COMMA)
      for (const piece of pieces) put(piece)
    },
    /** In a buffer of its own size, which may be transferred. */
    whole(): ArrayBuffer {
      const whole = new Uint8Array(bytes)
      let at = 0
      for (const part of parts) {
        whole.set(part, at)
        at += part.byteLength
      }
      return whole.buffer
    },
  }
}

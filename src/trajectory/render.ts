// Packed results as Polar's JSON, piece by piece: no object graph and no string of a whole task is ever built.
import { knownSessionId } from '../contract/ids.ts'
import type { SessionResult } from '../contract/result.ts'
import { type ResultsTold, resultPath, resultsAskedFor, resultTag } from '../contract/result-form.ts'
import { isObject } from './conversation.ts'
import { openPackedSession, type PackedTrace } from './pack.ts'

export type TaskHead = {
  readonly task_id: string
  readonly status: string
  readonly result_paths?: readonly string[]
  /** TaskStatus has these two, TaskResult does not. */
  readonly total_sessions?: number
  readonly completed_sessions?: number
}

/** Numbers per piece: bounds the largest string while a long row is written. */
const CHUNK_NUMBERS = 16_384

/**
 * A packed SessionResult as JSON text, told as `results` says or, at null, as its task asked. Masks are written as 0 and 1; a logprob is written with the fewest digits that give the same
 * float32 back (-0.1, not -0.10000000149011612): a reader that keeps it as a double and rounds to float32 gets the recorded value.
 */
export function* renderSession(bytes: ArrayBuffer, results: ResultsTold | null = null): Generator<string> {
  const { head, texts, traces } = openPackedSession(bytes)
  const { trajectory, ...session } = JSON.parse(head)
  if ((results ?? resultsAskedFor(session.metadata)) === 'reference') {
    const metadata = withReference(session.session_id, session.metadata, bytes.byteLength, traces.length)
    yield JSON.stringify({ ...session, metadata, trajectory: { ...trajectory, traces: [] } })
    return
  }
  yield `${JSON.stringify(session).slice(0, -1)},"trajectory":${JSON.stringify(trajectory).slice(0, -1)},"traces":[`
  for (const [at, trace] of traces.entries()) {
    if (at > 0) yield ','
    yield* renderTrace(trace, texts)
  }
  yield ']}}'
}

/** `etag` is that of the binary form; `bytes` what the node keeps, which that form has about as many of. */
function withReference(session: string, metadata: SessionResult['metadata'], bytes: number, traces: number): SessionResult['metadata'] {
  const own = isObject(metadata.polar_node) ? metadata.polar_node : {}
  const id = knownSessionId(session)
  const result = { href: resultPath(id), etag: resultTag(id, Number(own.attempt), 'msgpack'), bytes, traces }
  return { ...metadata, polar_node: { ...own, result } }
}

/** A TaskResult, or a TaskStatus when the head carries counts, over packed sessions that are opened one at a time. */
export function* renderTask(head: TaskHead, sessions: Iterable<ArrayBuffer>): Generator<string> {
  const { result_paths: paths = [], ...rest } = head
  yield `${JSON.stringify(rest).slice(0, -1)},"results":[`
  let isFirst = true
  for (const session of sessions) {
    if (!isFirst) yield ','
    isFirst = false
    yield* renderSession(session)
  }
  yield `],"result_paths":${JSON.stringify(paths)}}`
}

/** Text as UTF-8, bytes as they are, in a buffer of their exact size, which may be transferred. */
export function toBytes(pieces: Iterable<string | Uint8Array>): ArrayBuffer {
  const parts: Uint8Array[] = []
  let length = 0
  for (const piece of pieces) {
    const part = typeof piece === 'string' ? Buffer.from(piece, 'utf8') : piece
    parts.push(part)
    length += part.byteLength
  }
  const bytes = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.byteLength
  }
  return bytes.buffer
}

export function* renderTrace(trace: PackedTrace, texts: readonly string[]): Generator<string> {
  yield '{"prompt_ids":['
  yield* renderNumbers(new Int32Array(Uint8Array.from(trace.prompt).buffer))
  yield '],"response_ids":['
  yield* renderNumbers(new Int32Array(Uint8Array.from(trace.response).buffer))
  yield '],"loss_mask":['
  yield* renderNumbers(trace.mask)
  yield '],"prompt_messages":['
  yield* renderTexts(trace.promptMessages, texts)
  yield '],"response_messages":['
  yield* renderTexts(trace.responseMessages, texts)
  yield `],"tools":${trace.tools === null ? 'null' : (texts[trace.tools] ?? 'null')},"finish_reason":${JSON.stringify(trace.finishReason)},"response_logprobs":`
  if (trace.logprobs === null) yield 'null'
  else {
    yield '['
    yield* renderLogprobs(new Float32Array(Uint8Array.from(trace.logprobs).buffer))
    yield ']'
  }
  yield `,"reward":${JSON.stringify(trace.reward)},"metadata":${trace.metadata}}`
}

function* renderNumbers(values: Int32Array | Uint8Array): Generator<string> {
  for (let at = 0; at < values.length; at += CHUNK_NUMBERS) {
    yield `${at === 0 ? '' : ','}${values.subarray(at, at + CHUNK_NUMBERS).join(',')}`
  }
}

function* renderTexts(indexes: readonly number[], texts: readonly string[]): Generator<string> {
  for (const [at, index] of indexes.entries()) yield `${at === 0 ? '' : ','}${texts[index] ?? 'null'}`
}

function* renderLogprobs(values: Float32Array): Generator<string> {
  for (let at = 0; at < values.length; at += CHUNK_NUMBERS) {
    yield `${at === 0 ? '' : ','}${Array.from(values.subarray(at, at + CHUNK_NUMBERS), float32Text).join(',')}`
  }
}

/** Significant digits that some float32 needs, from usual to most. */
const FLOAT32_DIGITS = [6, 7, 8] as const

/** The shortest decimal that rounds to the same float32; the value must be one, and finite. */
export function float32Text(value: number): string {
  if (Number.isInteger(value)) return String(value)
  for (const digits of FLOAT32_DIGITS) {
    const rounded = Number(value.toPrecision(digits))
    if (Math.fround(rounded) === value) return String(rounded)
  }
  return String(Number(value.toPrecision(9)))
}

// One result by itself, whole or some of its rows, in JSON or in MessagePack: the same shapes, with token arrays typed in the latter.
import type { ResultForm } from '../contract/result-form.ts'
import { packArray, packMap, packMembers, packTyped, packValue } from './msgpack.ts'
import { openPackedSession, type PackedTrace } from './pack.ts'
import { renderSession, renderTrace } from './render.ts'

export type TracesWish = {
  readonly offset: number
  readonly limit: number
  /** No trace is begun behind so many bytes. */
  readonly maxBytes: number
}

type Piece = string | Uint8Array

export function renderResult(bytes: ArrayBuffer, form: ResultForm): Iterable<Piece> {
  return form === 'json' ? renderSession(bytes, 'inline') : packResult(bytes)
}

function* packResult(bytes: ArrayBuffer): Generator<Uint8Array> {
  const { head, texts, traces } = openPackedSession(bytes)
  const { trajectory, ...session } = JSON.parse(head)
  const message = openMessages(texts)
  yield* packMembers(session, 1)
  yield packValue('trajectory')
  yield* packMembers(trajectory, 1)
  yield packValue('traces')
  yield packArray(traces.length)
  for (const trace of traces) yield* packTrace(trace, message)
}

/** A page of traces, and where the next one begins; `next_offset` is null behind the last trace. */
export function* renderTraces(bytes: ArrayBuffer, form: ResultForm, { offset, limit, maxBytes }: TracesWish): Generator<Piece> {
  const { head, texts, traces } = openPackedSession(bytes)
  const { session_id, task_id, metadata } = JSON.parse(head)
  const message = openMessages(texts)
  const rows: Piece[][] = []
  let size = 0
  for (const trace of traces.slice(offset, offset + limit)) {
    if (size > maxBytes) break
    const row = [...(form === 'json' ? renderTrace(trace, texts) : packTrace(trace, message))]
    size = row.reduce((sum, piece) => sum + piece.length, size)
    rows.push(row)
  }
  const next = offset + rows.length
  const page = {
    session_id,
    task_id,
    attempt: metadata.polar_node.attempt,
    total: traces.length,
    offset,
    next_offset: next < traces.length ? next : null,
  }
  if (form === 'msgpack') {
    yield* packMembers(page, 1)
    yield packValue('traces')
    yield packArray(rows.length)
    for (const row of rows) yield* row
    return
  }
  yield `${JSON.stringify(page).slice(0, -1)},"traces":[`
  for (const [at, row] of rows.entries()) {
    if (at > 0) yield ','
    yield* row
  }
  yield ']}'
}

function* packTrace(trace: PackedTrace, message: (index: number) => Uint8Array): Generator<Uint8Array> {
  yield packMap(10)
  yield packValue('prompt_ids')
  yield* packTyped('i4', trace.prompt)
  yield packValue('response_ids')
  yield* packTyped('i4', trace.response)
  yield packValue('loss_mask')
  yield* packTyped('u1', trace.mask)
  yield packValue('prompt_messages')
  yield packArray(trace.promptMessages.length)
  yield* trace.promptMessages.map(message)
  yield packValue('response_messages')
  yield packArray(trace.responseMessages.length)
  yield* trace.responseMessages.map(message)
  yield packValue('tools')
  yield trace.tools === null ? packValue(null) : message(trace.tools)
  yield packValue('finish_reason')
  yield packValue(trace.finishReason)
  yield packValue('response_logprobs')
  if (trace.logprobs === null) yield packValue(null)
  else yield* packTyped('f4', trace.logprobs)
  yield packValue('reward')
  yield packValue(trace.reward)
  yield packValue('metadata')
  yield packValue(JSON.parse(trace.metadata))
}

/** Each message is written once, however often it is told. */
function openMessages(texts: readonly string[]): (index: number) => Uint8Array {
  const packed = new Map<number, Uint8Array>()
  return (index) => {
    const known = packed.get(index)
    if (known !== undefined) return known
    const bytes = packValue(JSON.parse(texts[index] ?? 'null'))
    packed.set(index, bytes)
    return bytes
  }
}

// Calls as they rest for people who look at them: every text once, and each call's record with its places in the texts.
import { Packr } from 'msgpackr'
import type { CallRecord } from '../contract/call.ts'
import type { SessionId, TaskId } from '../contract/ids.ts'

/** Consecutive calls of a session, in the order of their arrival. */
export type CompletionsPart = {
  readonly session: SessionId
  readonly task: TaskId
  readonly taskMetadata: Readonly<Record<string, unknown>>
  /** Those from `from` up to but not including `until` that have ended; places are sequence numbers. */
  readonly calls: readonly CallRecord[]
  readonly from: number
  readonly until: number
  /** Calls that the session has opened. */
  readonly total: number
  /** JSON texts; the indexes in `calls` point into them. */
  readonly messages: readonly string[]
}

/** Many byte strings in one: the n-th ends where `ends` says, as a little-endian uint32. */
type Lines = { readonly bytes: Uint8Array; readonly ends: Uint8Array }

type Packed = {
  readonly kind: 'completions'
  /** JSON of what every record says of its session. */
  readonly metadata: string
  readonly from: number
  readonly until: number
  readonly total: number
  readonly sequences: readonly number[]
  /** JSON of each call record. */
  readonly calls: Lines
  readonly messages: Lines
}

// No shared record structures: see pack.ts.
const packr = new Packr({ useRecords: false })

export function packCompletions({ session, task, taskMetadata, calls, messages, from, until, total }: CompletionsPart): ArrayBuffer {
  const ordered = calls.toSorted((one, other) => one.sequence - other.sequence)
  const packed: Packed = {
    kind: 'completions',
    metadata: JSON.stringify({ ...taskMetadata, session_id: session, task_id: task }),
    from,
    until,
    total,
    sequences: ordered.map(({ sequence }) => sequence),
    calls: linesOf(ordered.map((call) => JSON.stringify(call))),
    messages: linesOf(messages),
  }
  const bytes = packr.pack(packed)
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
}

/** Every call of a session that has ended. */
export function sealedPart({
  session,
  task,
  taskMetadata,
  calls,
  messages,
}: Omit<CompletionsPart, 'from' | 'until' | 'total'>): CompletionsPart {
  const total = calls.reduce((most, { sequence }) => Math.max(most, sequence + 1), 0)
  return { session, task, taskMetadata, calls, messages, from: 0, until: total, total }
}

/** What a reader of packed calls sees: nothing is decoded before it is asked for. */
export type OpenCompletions = {
  readonly metadata: Readonly<Record<string, unknown>>
  readonly from: number
  readonly until: number
  readonly total: number
  readonly sequences: readonly number[]
  call(at: number): CallRecord
  /** JSON in UTF-8, as a view of the packed bytes. */
  message(index: number): Uint8Array
}

export function openCompletions(bytes: ArrayBuffer): OpenCompletions {
  const packed: unknown = packr.unpack(new Uint8Array(bytes))
  if (!isPacked(packed)) throw new Error('these bytes are no packed completions')
  const { metadata, from, until, total, sequences } = packed
  const callAt = lineReader(packed.calls)
  return {
    metadata: JSON.parse(metadata),
    from,
    until,
    total,
    sequences,
    // What `packCompletions` wrote.
    call: (at): CallRecord => JSON.parse(Buffer.from(callAt(at)).toString()),
    message: lineReader(packed.messages),
  }
}

function isPacked(value: unknown): value is Packed {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'completions'
}

function linesOf(texts: readonly string[]): Lines {
  const lengths = texts.map((text) => Buffer.byteLength(text))
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length, 0))
  const ends = Buffer.alloc(4 * texts.length)
  let at = 0
  for (const [index, text] of texts.entries()) {
    at += bytes.write(text, at)
    ends.writeUInt32LE(at, 4 * index)
  }
  return { bytes, ends }
}

function lineReader({ bytes, ends }: Lines): (index: number) => Uint8Array {
  const view = new DataView(ends.buffer, ends.byteOffset, ends.byteLength)
  const endOf = (index: number): number => (index < 0 ? 0 : view.getUint32(4 * index, true))
  return (index) => bytes.subarray(endOf(index - 1), endOf(index))
}

// Trajectories and session results as bytes that move between threads and rest in the ledger.
import { Packr } from 'msgpackr'
import type { SessionResult, Trace, Trajectory } from '../contract/result.ts'

/** A packed trace: token arrays as raw bytes (host byte order), messages as indexes into the texts, metadata as JSON. */
export type PackedTrace = {
  readonly prompt: Uint8Array
  readonly response: Uint8Array
  readonly mask: Uint8Array
  readonly logprobs: Uint8Array | null
  readonly promptMessages: readonly number[]
  readonly responseMessages: readonly number[]
  readonly tools: number | null
  readonly finishReason: string | null
  readonly reward: number | null
  readonly metadata: string
}

/** `head` is the JSON of everything around the traces. Each message text is held once however many traces tell it. */
type Packed = {
  readonly kind: 'trajectory' | 'session'
  readonly head: string
  readonly texts: readonly string[]
  readonly traces: readonly PackedTrace[]
}

// No shared record structures: a payload must be readable on its own, years later, by any reader of MessagePack.
const packr = new Packr({ useRecords: false })

/** The bytes stand alone in the buffer, which may be transferred. */
export function packTrajectory(trajectory: Trajectory): ArrayBuffer {
  const { traces, ...head } = trajectory
  return pack('trajectory', head, traces)
}

export function unpackTrajectory(bytes: ArrayBuffer): Trajectory {
  const { head, traces } = open(bytes, 'trajectory')
  return { ...(head as Omit<Trajectory, 'traces'>), traces }
}

export function packSession(result: SessionResult): ArrayBuffer {
  const { trajectory, ...session } = result
  const { traces, ...rest } = trajectory
  return pack('session', { ...session, trajectory: rest }, traces)
}

export function unpackSession(bytes: ArrayBuffer): SessionResult {
  const { head, traces } = open(bytes, 'session')
  // What `packSession` wrote: a session result whose trajectory lacks only its traces.
  const session = head as Omit<SessionResult, 'trajectory'> & { readonly trajectory: Omit<Trajectory, 'traces'> }
  return { ...session, trajectory: { ...session.trajectory, traces } }
}

/** The parts of a packed session as they rest, for a renderer that needs no objects. */
export function openPackedSession(bytes: ArrayBuffer): Packed {
  return read(bytes, 'session')
}

function pack(kind: Packed['kind'], head: unknown, traces: readonly Trace[]): ArrayBuffer {
  const texts = openTextPool()
  const packed: Packed = {
    kind,
    head: JSON.stringify(head),
    traces: traces.map((trace) => packTrace(trace, texts.indexOf)),
    texts: texts.all,
  }
  const bytes = packr.pack(packed)
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
}

function packTrace(trace: Trace, indexOf: (value: unknown) => number): PackedTrace {
  return {
    prompt: bytesOf(trace.prompt_ids),
    response: bytesOf(trace.response_ids),
    mask: trace.loss_mask,
    logprobs: trace.response_logprobs === null ? null : bytesOf(trace.response_logprobs),
    promptMessages: trace.prompt_messages.map(indexOf),
    responseMessages: trace.response_messages.map(indexOf),
    tools: trace.tools === null ? null : indexOf(trace.tools),
    finishReason: trace.finish_reason,
    reward: trace.reward,
    metadata: JSON.stringify(trace.metadata),
  }
}

function open(bytes: ArrayBuffer, kind: Packed['kind']): { readonly head: object; readonly traces: readonly Trace[] } {
  const packed = read(bytes, kind)
  const parsed = new Map<number, unknown>()
  const valueAt = (index: number): unknown => {
    if (!parsed.has(index)) parsed.set(index, JSON.parse(packed.texts[index] ?? 'null'))
    return parsed.get(index)
  }
  const traces = packed.traces.map((trace): Trace => {
    const tools = trace.tools === null ? null : valueAt(trace.tools)
    return {
      prompt_ids: new Int32Array(copyOf(trace.prompt)),
      response_ids: new Int32Array(copyOf(trace.response)),
      loss_mask: Uint8Array.from(trace.mask),
      prompt_messages: trace.promptMessages.map(valueAt),
      response_messages: trace.responseMessages.map(valueAt),
      tools: Array.isArray(tools) ? tools : null,
      finish_reason: trace.finishReason,
      response_logprobs: trace.logprobs === null ? null : new Float32Array(copyOf(trace.logprobs)),
      reward: trace.reward,
      metadata: JSON.parse(trace.metadata),
    }
  })
  return { head: JSON.parse(packed.head), traces }
}

function read(bytes: ArrayBuffer, kind: Packed['kind']): Packed {
  const packed: unknown = packr.unpack(new Uint8Array(bytes))
  if (!isPacked(packed) || packed.kind !== kind) throw new Error(`these bytes are no packed ${kind}`)
  return packed
}

function isPacked(value: unknown): value is Packed {
  return typeof value === 'object' && value !== null && 'kind' in value && 'head' in value && 'texts' in value && 'traces' in value
}

/** JSON texts by value; an object that is told many times is turned into text once. */
function openTextPool() {
  const all: string[] = []
  const byText = new Map<string, number>()
  const byObject = new Map<unknown, number>()
  function indexOf(value: unknown): number {
    const known = byObject.get(value)
    if (known !== undefined) return known
    const text = JSON.stringify(value)
    const index = byText.get(text) ?? all.push(text) - 1
    byText.set(text, index)
    byObject.set(value, index)
    return index
  }
  return { all, indexOf }
}

const bytesOf = (values: Int32Array | Float32Array): Uint8Array => new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

/** A copy that begins at an aligned address: packed bytes stand anywhere. */
const copyOf = (bytes: Uint8Array): ArrayBuffer => Uint8Array.from(bytes).buffer

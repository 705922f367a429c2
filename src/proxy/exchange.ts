// One connection from an attached turn to the last byte of its answer: head, beats, frames, and what the socket took.
import type { Delivery } from '../contract/call.ts'
import { callHex } from '../contract/ids.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ReplySink } from './boundary.ts'
import type { ChatAnswer } from './chat.ts'
import type { AnswerIdentity, Dialect, HttpReply, ReplyForm, ReplyStream } from './dialects/dialect.ts'
import type { Turn, TurnOutcome } from './door.ts'
import type { Failure } from './failure.ts'
import type { BoundarySettings } from './settings.ts'

export type Exchange = {
  readonly kernel: Kernel
  readonly settings: BoundarySettings
  readonly dialect: Dialect
  readonly reply: ReplyForm
  readonly isStream: boolean
  readonly model: string
}

const streamHeaders = ({ reply }: Exchange) => ({
  'content-type': reply.streamType,
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
})
const JSON_HEADERS = { 'content-type': 'application/json' }

/** The record's id under the vendor's name, on answers and failures alike: what a client logs leads to the call. */
function requestId({ dialect }: Exchange, turn: Turn): Readonly<Record<string, string>> {
  return dialect.requestIdHeader === null ? {} : { [dialect.requestIdHeader]: turn.call }
}

/** Serves the turn's answer and says how much of it the client is known to have. Never rejects. */
export async function answerTurn(exchange: Exchange, turn: Turn, sink: ReplySink): Promise<Delivery> {
  const identity: AnswerIdentity = { id: callHex(turn.call), createdSeconds: turn.createdSeconds, model: exchange.model }
  const client = watch(sink)
  if (!exchange.isStream) {
    const outcome = await Promise.race([turn.outcome, client.gone])
    if (outcome === GONE) return 'no'
    if (!outcome.ok) return answerFailure(exchange, turn, outcome.failure, sink)
    sink.head(200, { ...JSON_HEADERS, ...requestId(exchange, turn) })
    return finish(sink, client, exchange.reply.plain(outcome.answer, identity))
  }

  const stream = exchange.reply.stream(identity)
  const waited = await waitWithBeats(exchange, turn, stream, sink, client)
  if (waited.outcome === GONE) return waited.isCommitted ? 'partial' : 'no'
  if (!waited.outcome.ok) return failStream(exchange, turn, stream, waited.outcome.failure, waited.isCommitted, sink, client)
  if (!waited.isCommitted) {
    sink.head(200, { ...streamHeaders(exchange), ...requestId(exchange, turn) })
    client.write(stream.open(waited.outcome.answer))
  }
  return pour(stream, waited.outcome.answer, sink, client)
}

/** A whole reply that is no generation, or a failure with its own status. */
export async function sendReply(reply: HttpReply, sink: ReplySink): Promise<Delivery> {
  const client = watch(sink)
  sink.head(reply.status, reply.headers)
  return finish(sink, client, reply.body)
}

function answerFailure(exchange: Exchange, turn: Turn, reason: Failure, sink: ReplySink): Promise<Delivery> {
  // Nobody is left who could be told, and a retry must not be invited.
  if (reason.code === 'cancelled') {
    sink.destroy()
    return Promise.resolve('no')
  }
  const reply = exchange.dialect.failure(reason)
  return sendReply({ ...reply, headers: { ...reply.headers, ...requestId(exchange, turn) } }, sink)
}

const GONE = Symbol('the client is gone')

type Client = {
  readonly gone: Promise<typeof GONE>
  isGone(): boolean
  /** True while the socket still holds what it was given. */
  isBlocked(): boolean
  write(chunk: string): void
  /** Until the socket has room, or is gone. */
  room(): Promise<void>
}

function watch(sink: ReplySink): Client {
  let isGone = false
  let drain: Promise<void> | null = null
  const gone = new Promise<typeof GONE>((resolve) => {
    sink.onClosed(() => {
      isGone = true
      resolve(GONE)
    })
  })
  return {
    gone,
    isGone: () => isGone,
    isBlocked: () => drain !== null,
    write(chunk) {
      if (isGone || sink.write(chunk) || drain !== null) return
      drain = Promise.race([sink.drained(), gone]).then(() => {
        drain = null
      })
    },
    room: () => drain ?? Promise.resolve(),
  }
}

type Waited = { readonly outcome: TurnOutcome | typeof GONE; readonly isCommitted: boolean }

async function waitWithBeats(exchange: Exchange, turn: Turn, stream: ReplyStream, sink: ReplySink, client: Client): Promise<Waited> {
  const { kernel, settings } = exchange
  let isCommitted = false
  let timer = kernel.scheduler.after(settings.commitAfterMs, commit)

  function commit(): void {
    if (client.isGone()) return
    isCommitted = true
    sink.head(200, { ...streamHeaders(exchange), ...requestId(exchange, turn) })
    client.write(stream.open(null))
    timer = kernel.scheduler.after(settings.beatEveryMs, beat)
  }
  function beat(): void {
    if (client.isGone()) return
    // A client that does not read is not kept patient by more to read.
    if (!client.isBlocked()) client.write(stream.beat())
    timer = kernel.scheduler.after(settings.beatEveryMs, beat)
  }

  const outcome = await Promise.race([turn.outcome, client.gone])
  timer.cancel()
  return { outcome, isCommitted }
}

async function failStream(
  exchange: Exchange,
  turn: Turn,
  stream: ReplyStream,
  reason: Failure,
  isCommitted: boolean,
  sink: ReplySink,
  client: Client,
): Promise<Delivery> {
  if (!isCommitted) return answerFailure(exchange, turn, reason, sink)
  const told = reason.code === 'cancelled' ? null : stream.failure(reason)
  if (told !== null) return finish(sink, client, told)
  sink.destroy()
  return 'partial'
}

async function pour(stream: ReplyStream, answer: ChatAnswer, sink: ReplySink, client: Client): Promise<Delivery> {
  let last = ''
  for (const frame of stream.answer(answer)) {
    if (last !== '') client.write(last)
    last = frame
    await client.room()
    if (client.isGone()) return 'partial'
  }
  return finish(sink, client, last)
}

async function finish(sink: ReplySink, client: Client, chunk: string): Promise<Delivery> {
  if (client.isGone()) return 'no'
  return sink.end(chunk)
}

// One connection from an attached turn to the last byte of its answer: head, beats, frames as they come, and what the socket took.
import type { Delivery } from '../contract/call.ts'
import { callHex } from '../contract/ids.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ReplySink } from './boundary.ts'
import type { ChatAnswer } from './chat.ts'
import type { AnswerIdentity, Dialect, HttpReply, ReplyForm, ReplyStream } from './dialects/dialect.ts'
import { type Failure, failure, isLastTry } from './failure.ts'
import type { Listener } from './live/live-answer.ts'
import type { BoundarySettings } from './settings.ts'
import type { Turn, TurnOutcome } from './turn.ts'

export type Exchange = {
  readonly kernel: Kernel
  readonly settings: BoundarySettings
  readonly dialect: Dialect
  readonly reply: ReplyForm
  readonly isStream: boolean
  readonly model: string
  /** Whether a pause holds calls. */
  readonly isHeld: () => boolean
}

/** One turn on its way to one client. */
type Serving = { readonly exchange: Exchange; readonly turn: Turn; readonly client: Client }

/** Serves the turn's answer and says how much of it the client is known to have. Never rejects. */
export async function answerTurn(exchange: Exchange, turn: Turn, sink: ReplySink): Promise<Delivery> {
  const identity: AnswerIdentity = { id: callHex(turn.call), createdSeconds: turn.createdSeconds, model: exchange.model }
  const client = watch(sink)
  const serving: Serving = { exchange, turn, client }
  if (!exchange.isStream) {
    const outcome = await Promise.race([turn.outcome, client.gone])
    if (outcome === GONE) return 'no'
    if (!outcome.ok) return answerFailure(serving, outcome.failure)
    client.head(200, { 'content-type': 'application/json', ...requestId(serving) })
    return client.end(exchange.reply.plain(outcome.answer, identity))
  }

  const stream = exchange.reply.stream(identity)
  const { outcome, isCommitted, hasHeard } = await waitWithBeats(serving, stream)
  if (outcome === GONE) return isCommitted ? 'partial' : 'no'
  if (!outcome.ok) return isCommitted ? failStream(client, stream, outcome.failure) : answerFailure(serving, outcome.failure)
  if (!isCommitted) {
    client.head(200, streamHead(serving))
    client.write(stream.open(outcome.answer))
  }
  if (hasHeard && turn.live?.leadsTo(outcome.answer) !== true) {
    await failStream(client, stream, TAKEN_BACK)
    return 'partial'
  }
  return pour(client, stream, outcome.answer)
}

/** A whole reply that is no generation, or a failure with its own status. */
export async function sendReply(reply: HttpReply, sink: ReplySink): Promise<Delivery> {
  return tell(watch(sink), reply)
}

/** The record's id under the vendor's name, on answers and failures alike: what a client logs leads to the call. */
function requestId({ exchange: { dialect }, turn }: Serving): Readonly<Record<string, string>> {
  return dialect.requestIdHeader === null ? {} : { [dialect.requestIdHeader]: turn.call }
}

function streamHead(serving: Serving): Readonly<Record<string, string>> {
  const { streamType } = serving.exchange.reply
  return { 'content-type': streamType, 'cache-control': 'no-cache', 'x-accel-buffering': 'no', ...requestId(serving) }
}

function answerFailure(serving: Serving, reason: Failure): Promise<Delivery> {
  const { exchange, client } = serving
  // Nobody is left who could be told, and a retry must not be invited.
  if (reason.code === 'cancelled') {
    client.destroy()
    return Promise.resolve('no')
  }
  const reply = exchange.dialect.failure(reason)
  return tell(client, { ...reply, headers: { ...reply.headers, ...requestId(serving) } })
}

function tell(client: Client, { status, headers, body }: HttpReply): Promise<Delivery> {
  client.head(status, headers)
  return client.end(body)
}

/** Never of an engine whose stream and answer agree. */
const TAKEN_BACK = failure('engine-failed', 'the inference server took back what it had begun to say; try again')

type Ended = TurnOutcome | typeof GONE

/** `hasHeard`: a part of the answer has been told. */
type Waited = { readonly outcome: Ended; readonly isCommitted: boolean; readonly hasHeard: boolean }

async function waitWithBeats(serving: Serving, stream: ReplyStream): Promise<Waited> {
  const { exchange, turn, client } = serving
  const { kernel, settings } = exchange
  let isCommitted = false
  let hasHeard = false
  let isQuiet = true
  let ended: Ended | null = null
  let wake = (): void => {}
  let timer = kernel.scheduler.after(settings.commitAfterMs, commitInTime)

  /** Where the next failure may be the last word, the status must still be free to say it; but none comes while calls are held. */
  function commitInTime(): void {
    if (isLastTry(turn.earlierFailures) && !exchange.isHeld()) timer = kernel.scheduler.after(settings.commitAfterMs, commitInTime)
    else commit()
  }
  function commit(): void {
    if (client.isGone()) return
    timer.cancel()
    isCommitted = true
    client.head(200, streamHead(serving))
    client.write(stream.open(null))
    timer = kernel.scheduler.after(settings.beatEveryMs, beat)
  }
  function beat(): void {
    if (client.isGone()) return
    // A client that does not read is not kept patient by more to read.
    if (isQuiet && !client.isBlocked()) client.write(stream.beat())
    isQuiet = true
    timer = kernel.scheduler.after(settings.beatEveryMs, beat)
  }

  /** Until the outcome is known; what a slow client has not been told by then is the rest of the answer. */
  async function hear(listener: Listener): Promise<void> {
    while (ended === null) {
      const added = listener.next()
      if (added === null) {
        await new Promise<void>((resolve) => {
          wake = resolve
          void listener.more().then(resolve)
        })
        continue
      }
      if (!isCommitted) commit()
      hasHeard = true
      const frame = stream.delta(added)
      if (frame === '') continue
      isQuiet = false
      client.write(frame)
      await client.room()
    }
  }

  const end = Promise.race([turn.outcome, client.gone]).then((outcome) => {
    ended = outcome
    wake()
    return outcome
  })
  if (turn.live !== null) await hear(turn.live.listen())
  const outcome = await end
  timer.cancel()
  return { outcome, isCommitted, hasHeard }
}

async function failStream(client: Client, stream: ReplyStream, reason: Failure): Promise<Delivery> {
  const told = reason.code === 'cancelled' ? null : stream.failure(reason)
  if (told !== null) return client.end(told)
  client.destroy()
  return 'partial'
}

async function pour(client: Client, stream: ReplyStream, answer: ChatAnswer): Promise<Delivery> {
  let last = ''
  for (const frame of stream.answer(answer)) {
    if (last !== '') client.write(last)
    last = frame
    await client.room()
    if (client.isGone()) return 'partial'
  }
  return client.end(last)
}

const GONE = Symbol('the client is gone')

/** A sink that knows whether anybody still reads. */
type Client = {
  readonly gone: Promise<typeof GONE>
  isGone(): boolean
  /** True while the socket still holds what it was given. */
  isBlocked(): boolean
  head(status: number, headers: Readonly<Record<string, string>>): void
  write(chunk: string): void
  /** Until the socket has room, or is gone. */
  room(): Promise<void>
  /** Writes the end, and says what the socket took. */
  end(chunk: string): Promise<Delivery>
  destroy(): void
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
    head: (status, headers) => sink.head(status, headers),
    write(chunk) {
      if (isGone || sink.write(chunk) || drain !== null) return
      drain = Promise.race([sink.drained(), gone]).then(() => {
        drain = null
      })
    },
    room: () => drain ?? Promise.resolve(),
    end: async (chunk) => (isGone ? 'no' : sink.end(chunk)),
    destroy: () => sink.destroy(),
  }
}

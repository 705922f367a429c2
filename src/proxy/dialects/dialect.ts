// What a vendor's API is to the boundary: a reader of requests, and the forms in which an answer or a failure is told.
import type { DialectName } from '../../contract/call.ts'
import type { SamplingPins } from '../boundary.ts'
import type { ChatAnswer, Countable, NormalisedCall, ToolCall } from '../chat.ts'
import type { Failure } from '../failure.ts'
import type { JsonObject } from '../json.ts'
import type { AnswerDelta } from '../live/answer-delta.ts'
import type { Reading } from './reading.ts'

/** What a session allows, and what the URL already said (Google names model and form of the answer in the path). */
export type ReadContext = {
  readonly tier: 'train' | 'eval'
  readonly pins: SamplingPins
  readonly url: UrlWishes
}

export type UrlWishes = {
  readonly model: string | null
  /** Null where the body decides; `array` is one JSON array written piece by piece. */
  readonly form: 'plain' | 'events' | 'array' | null
}

/** Names that appear in an answer; `model` is the name the client asked for. */
export type AnswerIdentity = { readonly id: string; readonly createdSeconds: number; readonly model: string }

/** One streamed answer. Frames are complete: a beat may stand between any two calls. */
export type ReplyStream = {
  /** Sent with the head; the answer is known unless the head had to leave before it. */
  open(answer: ChatAnswer | null): string
  /** Data that keeps a waiting client patient; comments do not. */
  beat(): string
  /** What this client is told at once of what the answer has grown by; empty when it is told later. */
  delta(delta: AnswerDelta): string
  /** The rest of the body, terminal event included. The deltas so far are the beginning of this answer. */
  answer(answer: ChatAnswer): Iterable<string>
  /** A failure after the head; null where only a cut connection is understood. */
  failure(failure: Failure): string | null
}

/** Bound to one request: it knows how that client wants its answer. */
export type ReplyForm = {
  /** Content type of the streamed form. */
  readonly streamType: 'text/event-stream; charset=utf-8' | 'application/json'
  plain(answer: ChatAnswer, identity: AnswerIdentity): string
  stream(identity: AnswerIdentity): ReplyStream
  /** The call as a client that changes nothing gives it back: `read` makes this of what was told. */
  echo(call: ToolCall): ToolCall
}

/** A request as its reader makes it: the call, and what of the request the form of the answer depends on. */
export type ReadRequest<Wishes> = Reading<{ readonly call: NormalisedCall; readonly wishes: Wishes }>

export type ReadCount = Reading<{ readonly countable: Countable }>

export type HttpReply = { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: string }

export type ModelEntry = { readonly id: string; readonly createdSeconds: number; readonly maxModelLen: number | null }

export type Dialect = {
  readonly name: DialectName
  /** The response header in which the vendor names the request; null where it has none. */
  readonly requestIdHeader: 'request-id' | 'x-request-id' | null
  /** The body is an object; everything else about it is checked here. */
  read(body: JsonObject, context: ReadContext): Reading<{ readonly call: NormalisedCall; readonly reply: ReplyForm }>
  /** The body of the vendor's token-counting route: the same conversion as `read`. */
  readCount(body: JsonObject, context: ReadContext): ReadCount
  tokenCount(tokens: number, model: ModelEntry): string
  failure(failure: Failure): HttpReply
  modelList(models: readonly ModelEntry[]): string
  modelItem(model: ModelEntry): string
}

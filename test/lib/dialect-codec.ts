// What a client of one dialect does with the wire: how it asks, how it returns what it was told, and what it reads in a reply.
import type { Dialect, UrlWishes } from '../../src/proxy/dialects/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import type { Said } from './dialect-answers.ts'
import type { NeutralRequest, NeutralTurn } from './dialect-cases.ts'

export type Codec = {
  readonly dialect: Dialect
  url(isStream: boolean): UrlWishes
  /** The request around the items of its history. */
  request(asked: NeutralRequest, items: readonly unknown[], isStream: boolean): JsonObject
  /** One turn as the client writes it by itself. */
  items(turn: NeutralTurn): readonly unknown[]
  /** The turn that a reply told, as a client that keeps everything returns it. */
  returned(reply: JsonObject): readonly unknown[]
  /** A stream put together as the vendor's SDK does it, in the form of a plain reply; throws where an SDK would. */
  fold(stream: string): JsonObject
  said(reply: JsonObject): Said
  /** The message of a failure, in the vendor's envelope alone; throws when it has another. */
  failure(body: string, status: number): string
  /** The message of a failure inside a stream; null where only the connection is cut. */
  streamFailure: ((stream: string) => string) | null
  /** Fields that the dialect has no place for. */
  readonly lacks: readonly (keyof NeutralRequest)[]
  /** Which turns come back with the name of their call. */
  readonly signs: 'every turn' | 'turns with reasoning' | 'no turn'
}

export function encode(codec: Codec, asked: NeutralRequest, isStream = false): JsonObject {
  return codec.request(
    asked,
    asked.turns.flatMap((turn) => codec.items(turn)),
    isStream,
  )
}

/** The events of a server-sent stream, each with its name; comments are none. */
export function eventsOf(stream: string): readonly { readonly name: string | null; readonly data: string }[] {
  const blocks = stream.split('\n\n')
  if (blocks.pop() !== '') throw new Error('the stream ends inside an event')
  return blocks.flatMap((block) => {
    const lines = block.split('\n').filter((line) => !line.startsWith(':'))
    if (lines.length === 0) return []
    const name = lines.find((line) => line.startsWith('event: '))?.slice('event: '.length) ?? null
    const data = lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice('data: '.length))
    return [{ name, data: data.join('\n') }]
  })
}

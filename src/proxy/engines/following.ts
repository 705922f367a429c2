// One streamed exchange with an engine: its events are folded into the body that a plain answer would have had, and that body is read.
import { isObject, type JsonObject } from '../json.ts'
import type { EngineOutcome, EngineReply, HttpRequest, HttpResponse, Send } from './engine.ts'
import { parseEngineText } from './engine-json.ts'
import { openEventStream } from './event-stream.ts'
import { readRejection } from './rejection.ts'
import { isEventStream } from './transport.ts'

export type Fold = {
  /** The events of a whole answer end with `[DONE]`. */
  readonly saysDone: boolean
  /** Takes one event of so many characters, and says how many it holds by now. */
  take(event: JsonObject, chars: number): number
  /** What a plain answer would be read as; null while no event has said that it was the last. */
  read(): EngineReply | null
}

/** `readPlain` is for an engine that did not stream: it refused, or does not know how. */
export async function follow(
  request: HttpRequest,
  send: Send,
  fold: Fold,
  readPlain: (response: HttpResponse) => EngineReply,
): Promise<EngineOutcome> {
  let isDone = false
  let trouble: EngineReply | null = null
  let folded = 0
  const events = openEventStream((data) => {
    if (data === '[DONE]') {
      isDone = true
      return
    }
    const parsed = parseEngineText(data)
    if (!parsed.ok || !isObject(parsed.value)) trouble ??= { type: 'garbled', detail: 'an event of the stream is not a JSON object' }
    else if (isObject(parsed.value.error)) trouble ??= readFailure(parsed.value.error, data)
    else if (trouble === null) folded = fold.take(parsed.value, data.length)
  })
  const reply = await send(request, (bytes) => folded + events.push(bytes))
  if (!reply.ok) return { type: 'broken', reply }
  if (!isEventStream(reply.response)) return readPlain(reply.response)
  if (trouble !== null) return trouble
  return (fold.saysDone && !isDone ? null : fold.read()) ?? { type: 'garbled', detail: 'the stream stops before its end' }
}

/** An engine that fails after its head says so in an event, with the status that the head would have had. */
function readFailure(error: JsonObject, data: string): EngineReply {
  const status = typeof error.code === 'number' && error.code >= 400 && error.code <= 599 ? error.code : 500
  return readRejection({ status, headers: {}, body: Buffer.from(data) })
}

// One request to the embedded engine, from its prompt to its last byte: each of its choices takes a seat and is drawn.
import type { ServerResponse } from 'node:http'
import type { AnswerForm, Asked, ReadRequest } from '../serve/asked.ts'
import type { Batch } from '../serve/batch.ts'
import { sendJson } from '../serve/reply.ts'
import type { IncomingGeneration } from '../serve/route.ts'
import type { Complaint } from '../wire/shape.ts'
import { openAnswerSink } from './answer-sink.ts'
import type { GeneratingEngine } from './generating-engine.ts'
import { type GeneratingRequest, openRequest } from './generating-request.ts'
import { openHold } from './hold.ts'
import type { Weights } from './weights.ts'

/** Answers one request; resolves when its last byte was written or its client is gone. Rejects when the model breaks. */
export async function serveGeneration(
  engine: GeneratingEngine,
  read: ReadRequest,
  incoming: IncomingGeneration,
  response: ServerResponse,
): Promise<void> {
  const arrivedMs = engine.scheduler.clock.nowMs()
  // Nothing more can be answered: the client has left, or the model broke.
  const over = new AbortController()
  response.once('close', () => over.abort())
  const refuse = (complaint: Complaint) => sendJson(response, complaint.status, engine.shape.error(complaint))

  const arrived = readWith(engine, engine.weights(), read, incoming)
  if (!arrived.ok) return refuse(arrived.complaint)
  const { choices } = arrived.asked
  if (engine.batch.room() < choices) {
    return refuse({ status: 503, message: 'The engine has too many waiting requests.', param: null })
  }
  // Takes those that wait out of the line.
  const ended = new AbortController()
  over.signal.addEventListener('abort', () => ended.abort(), { once: true })
  const seats = Array.from({ length: choices }, () => engine.batch.enter(ended.signal))
  await seats[0]
  // While it waited other weights may have come, with another vocabulary and another template.
  const weights = engine.weights()
  const current = weights === arrived.weights ? arrived : readWith(engine, weights, read, incoming)
  if (!current.ok) {
    ended.abort()
    for (const seat of seats) leave(await seat)
    return refuse(current.complaint)
  }
  const sink = openAnswerSink(current.form, current.asked, response, over.signal)
  const request = openRequest(engine, current.weights, current.asked, sink, arrivedMs)
  const runs = seats.map(async (seat, index) => runChoice(engine, request, { index, entered: await seat, over, ended }))
  const outcomes = await Promise.allSettled(runs)
  request.settle()
  const broken = outcomes.find((outcome) => outcome.status === 'rejected')
  if (broken !== undefined) throw broken.reason
  sink.end(request.now())
}

type Read =
  | { readonly ok: true; readonly asked: Asked; readonly form: AnswerForm; readonly weights: Weights }
  | { readonly ok: false; readonly complaint: Complaint }

function readWith(engine: GeneratingEngine, weights: Weights | null, read: ReadRequest, { body, rank }: IncomingGeneration): Read {
  const refused = (status: number, message: string): Read => ({ ok: false, complaint: { status, message, param: null } })
  if (weights === null) return refused(503, 'Loading model')
  if (rank !== null && rank > 0) return refused(400, `data_parallel_rank ${rank} is out of range [0, 1).`)
  const reading = read(engine.readerOf(weights), body)
  if (!reading.ok) return reading
  const others = reading.asked.otherSampling
  // An answer drawn otherwise than it was asked for would be trained as if it had been.
  if (others.length > 0) return refused(400, `${others.join(', ')}: this engine draws by temperature, top_p, top_k and min_p alone.`)
  return { ...reading, weights }
}

type Entered = Awaited<ReturnType<Batch['enter']>>

type Run = { readonly index: number; readonly entered: Entered; readonly over: AbortController; readonly ended: AbortController }

async function runChoice(engine: GeneratingEngine, request: GeneratingRequest, { index, entered, over, ended }: Run): Promise<void> {
  // One answer never holds tokens of two versions: a choice that comes to its seat too late has none.
  if (entered === null || entered === 'full' || engine.weights() !== request.weights) return leave(entered)
  const hold = openHold()
  entered.attach(hold)
  over.signal.addEventListener('abort', hold.stop, { once: true })
  if (over.signal.aborted) hold.stop()
  try {
    await request.draw(index, hold)
  } catch (error) {
    over.abort()
    throw error
  } finally {
    over.signal.removeEventListener('abort', hold.stop)
    // What was ended with what it had takes those with it that have nothing yet.
    if (hold.signal.aborted) ended.abort()
    leave(entered)
  }
}

function leave(entered: Entered): void {
  if (entered !== null && entered !== 'full') entered.leave()
}

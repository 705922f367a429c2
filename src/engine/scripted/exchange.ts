// One generation from request to last byte: wait for a place, sample, answer in the form of its route.
import type { ServerResponse } from 'node:http'
import type { Scheduler } from '../../kernel/clock.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { AnswerForm, Asked, Reader, ReadRequest } from '../serve/asked.ts'
import type { Batch } from '../serve/batch.ts'
import type { Tally } from '../serve/metrics.ts'
import { beginEvents, DONE, drained, endEvents, sendJson, sendJsonText, writeEvents } from '../serve/reply.ts'
import type { IncomingGeneration } from '../serve/route.ts'
import { idsDigest, seededHex } from '../serve/seeded.ts'
import { answerDeltas } from '../wire/deltas.ts'
import type { GeneratedChoice, Generation } from '../wire/generation.ts'
import type { Complaint, StreamWriter } from '../wire/shape.ts'
import type { Answer, AnswerSource } from './answers.ts'
import { type Conversation, conversationOf } from './conversation.ts'
import { cutGeneration, FAULTS, type FaultAction, type FaultDesk } from './faults.ts'
import { type Latency, openPace, type Pace } from './pace.ts'
import { begunAnswer, readConversation } from './prompt-conversation.ts'
import type { Qwen } from './qwen.ts'
import type { LogEntry, RequestLog } from './request-log.ts'
import { sampleChoice } from './sampling.ts'
import { jsonText, reset, sendSpoilt } from './spoilt-bytes.ts'

export type GeneratingEngine = Reader & {
  readonly qwen: Qwen
  readonly seed: number
  readonly logprobMode: 'raw' | 'processed'
  readonly latency: Latency
  readonly tokensPerChunk: number
  /** How many data-parallel ranks a request may name. */
  readonly ranks: number
  readonly answers: AnswerSource
  readonly batch: Batch
  readonly faults: FaultDesk
  readonly log: RequestLog
  readonly tally: Tally
  readonly scheduler: Scheduler
  weightVersion(): string
  isAsleep(): boolean
}

/** Answers one request; resolves when its last byte was written or its client is gone. */
export async function serveGeneration(
  engine: GeneratingEngine,
  read: ReadRequest,
  incoming: IncomingGeneration,
  response: ServerResponse,
): Promise<void> {
  const { rank } = incoming
  const entry = engine.log.open({ ...incoming, at: engine.scheduler.clock.nowMs(), weightVersion: engine.weightVersion() })
  const gone = new AbortController()
  let wasReset = false
  response.once('close', () => {
    if (!response.writableFinished && !wasReset) entry.cancelled()
    gone.abort()
  })
  const cut = () => {
    wasReset = true
    reset(response)
  }
  const refuse = (complaint: Complaint, headers: Readonly<Record<string, string>> = {}) => {
    entry.answered(complaint.status)
    sendJson(response, complaint.status, engine.shape.error(complaint), headers)
  }

  // A generation kills an engine that sleeps (vllm#15483).
  if (engine.isAsleep()) return cut()

  const name = engine.faults.next()
  if (name !== null) entry.struck(name)
  const fault: FaultAction | null = name === null ? null : FAULTS[name].action
  if (fault?.at === 'request') return strike(fault, { response, scheduler: engine.scheduler, cut, refuse })

  if (rank !== null && rank >= engine.ranks) {
    refuse({ status: 400, message: `data_parallel_rank ${rank} is out of range [0, ${engine.ranks}).`, param: null })
    return
  }
  const reading = read(engine, incoming.body)
  if (!reading.ok) {
    refuse(reading.complaint)
    return
  }
  const { asked, form } = reading
  entry.prompted(asked.promptIds)

  const seat = await engine.batch.enter(gone.signal)
  if (seat === null) return
  if (seat === 'full') {
    refuse({ status: 503, message: 'The engine has too many waiting requests.', param: null })
    return
  }
  try {
    const startedMs = engine.scheduler.clock.nowMs()
    const { generation, answer } = generate(engine, asked)
    const pace = openPace(engine.scheduler, {
      ttftMs: answer.ttftMs ?? engine.latency.ttftMs,
      msPerToken: answer.msPerToken ?? engine.latency.msPerToken,
    })
    seat.attach(pace)
    gone.signal.addEventListener('abort', () => pace.stop(), { once: true })
    const job: Job = { engine, response, entry, answer, pace, generation, fault, startedMs, signal: gone.signal, cut }
    engine.tally.started(asked.promptIds.length, 0)
    if (form.type === 'stream') await answerStreaming(job, form)
    else await answerWhole(job, form)
  } finally {
    seat.leave()
  }
}

type Struck = {
  readonly response: ServerResponse
  readonly scheduler: Scheduler
  readonly cut: () => void
  readonly refuse: (complaint: Complaint, headers: Readonly<Record<string, string>>) => void
}

/** What comes instead of an answer. */
function strike(fault: Extract<FaultAction, { at: 'request' }>, { response, scheduler, cut, refuse }: Struck): void {
  switch (fault.does) {
    case 'hang':
      return
    case 'hang-headers':
      beginJson(response)
      return
    case 'reset':
      cut()
      return
    case 'reset-before-body':
      beginJson(response)
      // The headers leave with this turn of the event loop; a reset in the same turn would overtake them.
      scheduler.after(5, cut)
      return
    case 'refuse':
      refuse({ status: fault.status, message: fault.message, param: null }, fault.headers)
      return
    default:
      unreachable(fault)
  }
}

function beginJson(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.flushHeaders()
}

type Job = {
  readonly engine: GeneratingEngine
  readonly response: ServerResponse
  readonly entry: LogEntry
  readonly answer: Answer
  readonly pace: Pace
  readonly generation: Generation
  readonly fault: Exclude<FaultAction, { at: 'request' }> | null
  readonly startedMs: number
  readonly signal: AbortSignal
  readonly cut: () => void
}

async function answerWhole(job: Job, form: Extract<AnswerForm, { type: 'whole' }>): Promise<void> {
  const { engine, response, pace } = job
  const longest = Math.max(0, ...job.generation.choices.map((choice) => choice.tokens.length))
  const how = await pace.reach(longest)
  const emitted = how === 'reached' ? job.generation : cutAll(job.generation, pace.sampled())
  record(job, emitted)
  if (job.signal.aborted) return
  const latencySeconds = (engine.scheduler.clock.nowMs() - job.startedMs) / 1000
  const shown = spoilt({ ...emitted, latencySeconds, weightVersion: engine.weightVersion() }, job.fault)
  const text = jsonText(form.whole(shown), holdsNan(shown))
  job.entry.answered(200)
  if (job.fault?.at === 'bytes') await sendBytes(job, job.fault.does, text, false)
  else sendJsonText(response, 200, text)
}

async function answerStreaming(job: Job, form: Extract<AnswerForm, { type: 'stream' }>): Promise<void> {
  const { engine, response, pace } = job
  const whole = spoilt(job.generation, job.fault)
  const all = streamChunks(form.writer, whole, engine.tokensPerChunk)
  const jsonOf = (chunk: StreamChunk) => jsonText(chunk.data, holdsNan(whole))
  job.entry.answered(200)
  if (job.fault?.at === 'bytes') {
    record(job, job.generation)
    return sendBytes(
      job,
      job.fault.does,
      `${all.map((chunk) => `data: ${jsonOf(chunk)}\n\n`).join('')}${form.writer.saysDone ? DONE : ''}`,
      true,
    )
  }
  beginEvents(response)
  let queue: readonly StreamChunk[] = all
  let sampled = 0
  let stopped: Generation | null = null
  for (let position = 0; position < queue.length; position += 1) {
    const chunk = queue[position]
    if (chunk === undefined) break
    if (stopped === null && chunk.afterTokens > 0 && (await pace.reach(chunk.afterTokens)) === 'stopped') {
      // The step under way still ends; from there the stream closes as an aborted one.
      stopped = cutAll(job.generation, sampled + engine.tokensPerChunk)
      if (job.signal.aborted) break
      queue = streamChunks(form.writer, spoilt(stopped, job.fault), engine.tokensPerChunk)
      position -= 1
      continue
    }
    sampled = Math.max(sampled, chunk.afterTokens)
    if (!writeEvents(response, [jsonOf(chunk)])) await drained(response, job.signal)
  }
  record(job, stopped ?? job.generation)
  if (!job.signal.aborted) endEvents(response, form.writer.saysDone)
}

/** One server-sent event of a finished answer, and how many tokens must have been sampled before it may leave. */
type StreamChunk = { readonly afterTokens: number; readonly data: object }

function streamChunks(writer: StreamWriter, generation: Generation, tokensPerChunk: number): readonly StreamChunk[] {
  const after = (afterTokens: number, written: readonly object[]) => written.map((data) => ({ afterTokens, data }))
  const grown = [...answerDeltas(generation.choices, tokensPerChunk)].flatMap(({ choice, delta }) =>
    after(delta.to, writer.delta(generation, choice, delta)),
  )
  return [...after(0, writer.opening(generation)), ...grown, ...after(0, writer.closing(generation))]
}

const holdsNan = (generation: Generation): boolean => generation.choices.some((choice) => choice.logprobs.some(Number.isNaN))

function sendBytes(job: Job, does: Extract<FaultAction, { at: 'bytes' }>['does'], body: string, isStream: boolean): Promise<void> {
  return sendSpoilt(job.response, body, does, { isStream, scheduler: job.engine.scheduler, signal: job.signal, cut: job.cut })
}

function spoilt(generation: Generation, fault: Job['fault']): Generation {
  return fault?.at === 'generation' ? fault.change(generation) : generation
}

function record(job: Job, emitted: Generation): void {
  const aborts = job.fault?.at === 'generation' ? spoilt(emitted, job.fault).choices.some((choice) => choice.finish === 'abort') : false
  // An abort samples less; every other fault only hides or spoils what was sampled.
  const sampled = aborts ? spoilt(emitted, job.fault) : emitted
  job.entry.sampled(sampled.choices, job.answer.variant)
  for (const choice of sampled.choices) {
    job.engine.tally.drawn(choice.tokens.length)
    job.engine.tally.finished(choice.finish ?? 'stop')
  }
}

function cutAll(generation: Generation, tokens: number): Generation {
  const cut = (choice: GeneratedChoice) => (choice.tokens.length <= tokens ? choice : cutGeneration(choice, tokens))
  return { ...generation, choices: generation.choices.map(cut) }
}

function generate(engine: GeneratingEngine, asked: Asked): { readonly generation: Generation; readonly answer: Answer } {
  const serial = engine.tally.nextSerial()
  const conversation = conversationIn(engine, asked)
  const answers = Array.from({ length: asked.choices }, () => engine.answers.answer(conversation, asked.seed))
  const begun = asked.chat === null ? begunAnswer(engine.qwen, asked.promptIds) : []
  const prompt = seededHex(32, engine.seed, asked.seed ?? 'unseeded', idsDigest(asked.promptIds), ...asked.imageUrls)
  const choices = answers.map((answer, index) =>
    sampleChoice(engine.qwen, answer, {
      ...asked,
      index,
      begun,
      logprobMode: engine.logprobMode,
      seed: `${prompt} ${index} ${answer.text}`,
      promptSeed: prompt,
      toolCallPrefix: `${engine.shape.toolCallPrefix}${serial.toString(16)}`,
    }),
  )
  const [answer] = answers
  if (answer === undefined) throw new Error('a request has at least one choice')
  return {
    answer,
    generation: {
      id: `chatcmpl-${seededHex(32, engine.seed, 'id', serial)}`,
      createdSeconds: Math.floor(engine.scheduler.clock.wallMs() / 1000),
      model: asked.model ?? engine.model,
      promptIds: asked.promptIds,
      cachedTokens: null,
      showsPromptIds: true,
      choices,
      weightVersion: engine.weightVersion(),
      latencySeconds: 0,
    },
  }
}

function conversationIn(engine: GeneratingEngine, { chat, promptIds }: Asked): Conversation {
  return chat === null ? readConversation(engine.qwen.decode(promptIds)) : conversationOf(chat.messages, chat.tools)
}

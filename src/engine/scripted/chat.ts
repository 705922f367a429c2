// One chat completion from request to last byte: wait for a place, sample, answer in the engine's shape.
import type { ServerResponse } from 'node:http'
import type { Scheduler } from '../../kernel/clock.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { ChatRequest } from '../wire/chat-request.ts'
import type { GeneratedChoice, Generation } from '../wire/generation.ts'
import type { Complaint, StreamChunk, WireShape } from '../wire/shape.ts'
import type { Answer, AnswerSource } from './answers.ts'
import type { Batch } from './batch.ts'
import { conversationOf } from './conversation.ts'
import { cutGeneration, FAULTS, type FaultAction, type FaultDesk } from './faults.ts'
import type { Tally } from './metrics.ts'
import { type Latency, openPace, type Pace } from './pace.ts'
import { readPrompt } from './prompt.ts'
import type { Qwen } from './qwen.ts'
import { jsonText, reset, sendJson, sendJsonText, sendSpoilt } from './reply.ts'
import type { LogEntry, RequestLog } from './request-log.ts'
import { sampleChoice } from './sampling.ts'
import { idsDigest, seededHex } from './seeded.ts'
import { imageUrls } from './template-input.ts'

export type ChatEngine = {
  readonly shape: WireShape
  readonly model: string
  readonly maxModelLen: number
  readonly takesImages: boolean
  readonly seed: number
  readonly logprobMode: 'raw' | 'processed'
  readonly latency: Latency
  readonly tokensPerChunk: number
  readonly qwen: Qwen
  readonly answers: AnswerSource
  readonly batch: Batch
  readonly faults: FaultDesk
  readonly log: RequestLog
  readonly tally: Tally
  readonly scheduler: Scheduler
  weightVersion(): string
}

/** Answers one request; resolves when its last byte was written or its client is gone. */
export async function serveChat(engine: ChatEngine, body: unknown, response: ServerResponse): Promise<void> {
  const entry = engine.log.open(engine.scheduler.clock.nowMs(), body, engine.weightVersion())
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

  const name = engine.faults.next()
  if (name !== null) entry.struck(name)
  const fault: FaultAction | null = name === null ? null : FAULTS[name].action
  if (fault?.at === 'request') {
    switch (fault.does) {
      case 'hang':
        return
      case 'hang-headers':
        response.writeHead(200, { 'content-type': 'application/json' })
        response.flushHeaders()
        return
      case 'reset':
        cut()
        return
      case 'reset-before-body':
        response.writeHead(200, { 'content-type': 'application/json' })
        response.flushHeaders()
        // The headers leave with this turn of the event loop; a reset in the same turn would overtake them.
        engine.scheduler.after(5, cut)
        return
      case 'refuse':
        refuse({ status: fault.status, message: fault.message, param: null }, fault.headers)
        return
      default:
        return unreachable(fault)
    }
  }

  const prompt = readPrompt(engine, body)
  if (!prompt.ok) {
    refuse(prompt.complaint)
    return
  }
  const { request, promptIds, maxTokens } = prompt
  entry.prompted(promptIds)

  const seat = await engine.batch.enter(gone.signal)
  if (seat === null) return
  if (seat === 'full') {
    refuse({ status: 503, message: 'The engine has too many waiting requests.', param: null })
    return
  }
  try {
    const startedMs = engine.scheduler.clock.nowMs()
    const { generation, answer } = generate(engine, request, promptIds, maxTokens)
    const pace = openPace(engine.scheduler, {
      ttftMs: answer.ttftMs ?? engine.latency.ttftMs,
      msPerToken: answer.msPerToken ?? engine.latency.msPerToken,
    })
    seat.attach(pace)
    gone.signal.addEventListener('abort', () => pace.stop(), { once: true })
    const job: Job = { engine, request, response, entry, answer, pace, generation, fault, startedMs, signal: gone.signal, cut }
    engine.tally.started(promptIds.length)
    if (request.stream === true) await answerStreaming(job)
    else await answerWhole(job)
  } finally {
    seat.leave()
  }
}

type Job = {
  readonly engine: ChatEngine
  readonly request: ChatRequest
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

async function answerWhole(job: Job): Promise<void> {
  const { engine, request, response, pace } = job
  const longest = Math.max(0, ...job.generation.choices.map((choice) => choice.tokens.length))
  const how = await pace.reach(longest)
  const emitted = how === 'reached' ? job.generation : cutAll(job.generation, pace.sampled())
  record(job, emitted)
  if (job.signal.aborted) return
  const latencySeconds = (engine.scheduler.clock.nowMs() - job.startedMs) / 1000
  const shown = spoilt({ ...emitted, latencySeconds, weightVersion: engine.weightVersion() }, job.fault)
  const text = jsonText(engine.shape.completion(shown, request), holdsNan(shown))
  job.entry.answered(200)
  if (job.fault?.at === 'bytes') await sendBytes(job, job.fault.does, text, false)
  else sendJsonText(response, 200, text)
}

async function answerStreaming(job: Job): Promise<void> {
  const { engine, response, pace } = job
  const whole = spoilt(job.generation, job.fault)
  const all = [...chunksOf(job, whole)]
  const eventText = (chunk: StreamChunk) => `data: ${jsonText(chunk.data, holdsNan(whole))}\n\n`
  job.entry.answered(200)
  if (job.fault?.at === 'bytes') {
    record(job, job.generation)
    return sendBytes(job, job.fault.does, `${all.map(eventText).join('')}data: [DONE]\n\n`, true)
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  response.flushHeaders()
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
      queue = [...chunksOf(job, spoilt(stopped, job.fault))]
      position -= 1
      continue
    }
    sampled = Math.max(sampled, chunk.afterTokens)
    if (!response.write(eventText(chunk))) await drained(response, job.signal)
  }
  record(job, stopped ?? job.generation)
  if (!job.signal.aborted) response.end('data: [DONE]\n\n')
}

function chunksOf(job: Job, generation: Generation): Iterable<StreamChunk> {
  return job.engine.shape.chunks(generation, job.request, job.engine.tokensPerChunk)
}

const holdsNan = (generation: Generation): boolean => generation.choices.some((choice) => choice.logprobs.some(Number.isNaN))

function drained(response: ServerResponse, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      response.off('drain', finish)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    response.once('drain', finish)
    signal.addEventListener('abort', finish)
    if (signal.aborted) finish()
  })
}

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
  for (const choice of sampled.choices) job.engine.tally.finished(choice.finish ?? 'stop', choice.tokens.length)
}

function cutAll(generation: Generation, tokens: number): Generation {
  const cut = (choice: GeneratedChoice) => (choice.tokens.length <= tokens ? choice : cutGeneration(choice, tokens))
  return { ...generation, choices: generation.choices.map(cut) }
}

function generate(
  engine: ChatEngine,
  request: ChatRequest,
  promptIds: readonly number[],
  maxTokens: number,
): { readonly generation: Generation; readonly answer: Answer } {
  const conversation = conversationOf(request.messages, request.tools ?? [])
  const serial = engine.tally.nextSerial()
  const answers = Array.from({ length: request.n ?? 1 }, () => engine.answers.answer(conversation, request.seed ?? null))
  const prompt = seededHex(32, engine.seed, request.seed ?? 'unseeded', idsDigest(promptIds), ...imageUrls(request.messages))
  const stops = typeof request.stop === 'string' ? [request.stop] : (request.stop ?? [])
  const choices = answers.map((answer, index) =>
    sampleChoice(engine.qwen, answer, {
      index,
      maxTokens,
      stops,
      temperature: request.temperature ?? 1,
      topLogprobs: request.logprobs === true ? (request.top_logprobs ?? 0) : 0,
      parsesTools: (request.tools ?? []).length > 0 && request.tool_choice !== 'none',
      logprobMode: engine.logprobMode,
      seed: `${prompt} ${index} ${answer.text}`,
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
      model: request.model ?? engine.model,
      promptIds,
      showsPromptIds: true,
      choices,
      weightVersion: engine.weightVersion(),
      latencySeconds: 0,
      endTokenId: engine.qwen.endTokenId,
    },
  }
}

// One chat completion from request to last byte: render, wait for a place, sample, answer in the engine's shape.
import type { ServerResponse } from 'node:http'
import type { Scheduler } from '../../kernel/clock.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { type ChatRequest, chatRequestSchema } from '../wire/chat-request.ts'
import type { GeneratedChoice, Generation } from '../wire/generation.ts'
import { sglangChunks, sglangCompletion, sglangError, streamRefusal } from '../wire/sglang.ts'
import type { StreamChunk } from '../wire/stream.ts'
import { vllmChunks, vllmCompletion, vllmError } from '../wire/vllm.ts'
import type { Answer, AnswerSource } from './answers.ts'
import type { Batch } from './batch.ts'
import { conversationOf } from './conversation.ts'
import { cutGeneration, FAULTS, type FaultAction, type FaultDesk } from './faults.ts'
import type { Tally } from './metrics.ts'
import { type Latency, openPace, type Pace } from './pace.ts'
import type { Qwen } from './qwen.ts'
import { pythonNanJson, reset, sendJson, sendSpoilt } from './reply.ts'
import type { LogEntry, RequestLog } from './request-log.ts'
import { sampleChoice } from './sampling.ts'
import { seededHex } from './seeded.ts'
import { unsupportedPart } from './template-input.ts'

export type EngineShape = 'vllm' | 'sglang'

export type ChatEngine = {
  readonly shape: EngineShape
  readonly model: string
  readonly maxModelLen: number
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
  const refuse = (status: number, message: string, param: string | null, headers: Readonly<Record<string, string>> = {}) => {
    entry.answered(status)
    sendJson(response, status, errorBody(engine.shape, status, message, param), headers)
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
        return cut()
      case 'reset-before-body':
        response.writeHead(200, { 'content-type': 'application/json' })
        response.flushHeaders()
        // The headers leave with this turn of the event loop; a reset in the same turn would overtake them.
        engine.scheduler.after(5, cut)
        return
      case 'refuse':
        return refuse(
          fault.status,
          fault.message,
          null,
          fault.retryAfterSeconds === undefined ? {} : { 'retry-after': String(fault.retryAfterSeconds) },
        )
      default:
        return unreachable(fault)
    }
  }

  const prompt = readPrompt(engine, body)
  if (!prompt.ok) return refuse(prompt.status, prompt.message, prompt.param)
  const { request, promptIds, maxTokens } = prompt
  entry.prompted(promptIds)

  const seat = await engine.batch.enter(gone.signal)
  if (seat === null) return
  if (seat === 'full') return refuse(503, 'The engine has too many waiting requests.', null)
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
  const value = engine.shape === 'vllm' ? vllmCompletion(shown, request) : sglangCompletion(shown, request)
  job.entry.answered(200)
  if (job.fault?.at === 'bytes') await sendBytes(job, job.fault.does, pythonNanJson(value), false)
  else sendJson(response, 200, value)
}

async function answerStreaming(job: Job): Promise<void> {
  const { engine, response, pace } = job
  const whole = spoilt(job.generation, job.fault)
  const all = [...chunksOf(job, whole)]
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
  const write = job.engine.shape === 'vllm' ? vllmChunks : sglangChunks
  return write(generation, job.request, job.engine.tokensPerChunk)
}

const eventText = (chunk: StreamChunk): string => `data: ${pythonNanJson(chunk.data)}\n\n`

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
  if (does === 'reset') job.signal.addEventListener('abort', job.cut, { once: true })
  return sendSpoilt(job.response, body, does, { isStream, scheduler: job.engine.scheduler, signal: job.signal })
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
  const prompt = seededHex(32, engine.seed, request.seed ?? 'unseeded', promptIds.join(' '))
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
      toolCallPrefix: `${engine.shape === 'vllm' ? 'chatcmpl-tool-' : 'call_'}${serial.toString(16)}`,
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

type Prompt =
  | { readonly ok: true; readonly request: ChatRequest; readonly promptIds: readonly number[]; readonly maxTokens: number }
  | { readonly ok: false; readonly status: number; readonly message: string; readonly param: string | null }

function readPrompt(engine: ChatEngine, body: unknown): Prompt {
  const bad = (message: string, param: string | null = null, status = 400): Prompt => ({ ok: false, status, message, param })
  const parsed = chatRequestSchema.safeParse(body)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const path = issue?.path.join('.') ?? ''
    return bad(`${path === '' ? 'body' : path}: ${issue?.message ?? 'is not valid'}`, path === '' ? null : path)
  }
  const request = parsed.data
  const complaint = engine.shape === 'vllm' ? vllmComplaint(engine, request) : sglangComplaint(request)
  if (complaint !== null) return bad(complaint.message, complaint.param, complaint.status)
  const part = unsupportedPart(request.messages)
  if (part !== null) return bad(`${engine.model} is not a multimodal model: content of type ${part} cannot be served`, 'messages')

  const thinking = request.chat_template_kwargs?.enable_thinking
  const promptIds = engine.qwen.encode(
    engine.qwen.renderPrompt({
      messages: request.messages,
      tools: request.tools ?? [],
      enableThinking: typeof thinking === 'boolean' ? thinking : null,
      addsGenerationPrompt: request.add_generation_prompt !== false,
    }),
  )
  const asked = request.max_completion_tokens ?? request.max_tokens ?? null
  const room = engine.maxModelLen - promptIds.length
  if (room < (asked ?? 1)) return bad(tooLong(engine, promptIds.length, asked ?? 0), 'input_tokens')
  return { ok: true, request, promptIds, maxTokens: asked ?? room }
}

type Complaint = { readonly message: string; readonly param: string | null; readonly status: number } | null

function vllmComplaint(engine: ChatEngine, request: ChatRequest): Complaint {
  const bad = (message: string, param: string): Complaint => ({ message, param, status: 400 })
  if (request.model !== undefined && request.model !== null && request.model !== engine.model) {
    return { message: `The model \`${request.model}\` does not exist.`, param: 'model', status: 404 }
  }
  if (request.stream_options && request.stream !== true)
    return bad('Stream options can only be defined when `stream=True`.', 'stream_options')
  if (request.tools?.length === 0)
    return bad('`tools` must not be an empty array. Either provide at least one tool or omit the field.', 'tools')
  if (request.top_logprobs && request.logprobs !== true)
    return bad('when using `top_logprobs`, `logprobs` must be set to true.', 'top_logprobs')
  if (request.tool_choice && request.tool_choice !== 'none' && !request.tools)
    return bad('When using `tool_choice`, `tools` must be set.', 'tool_choice')
  return null
}

function sglangComplaint(request: ChatRequest): Complaint {
  const refusal = streamRefusal(request)
  return refusal === null ? null : { message: refusal, param: null, status: 400 }
}

function tooLong(engine: ChatEngine, promptTokens: number, outputTokens: number): string {
  const total = promptTokens + outputTokens
  switch (engine.shape) {
    case 'vllm':
      return `This model's maximum context length is ${engine.maxModelLen} tokens. However, you requested ${outputTokens} output tokens and your prompt contains ${promptTokens} input tokens, for a total of ${total} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`
    case 'sglang':
      return `Requested token count exceeds the model's maximum context length of ${engine.maxModelLen} tokens. You requested a total of ${total} tokens: ${promptTokens} tokens from the input messages and ${outputTokens} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.`
    default:
      return unreachable(engine.shape)
  }
}

export function errorBody(shape: EngineShape, status: number, message: string, param: string | null): object {
  return shape === 'vllm' ? vllmError(status, message, param) : sglangError(status, message, param)
}

// Opens and closes one scripted engine: an HTTP server that answers by script with real Qwen3 token ids.
import { createServer } from 'node:http'
import type { Scheduler } from '../../kernel/clock.ts'
import { openEventLoop } from '../../kernel/event-loop.ts'
import { SHAPES, type ShapeName } from '../wire/shape.ts'
import { type AnswerSource, openScriptAnswers } from './answers.ts'
import { openBatch } from './batch.ts'
import { type FaultPlan, openFaultDesk } from './faults.ts'
import { type GeneratorInput, openGeneratorAnswers } from './generator.ts'
import { openTally } from './metrics.ts'
import type { Latency } from './pace.ts'
import { loadQwen } from './qwen.ts'
import { sendJson } from './reply.ts'
import { type EngineRequest, openRequestLog } from './request-log.ts'
import type { ServedEngine } from './route.ts'
import { type ScriptInput, scriptSchema } from './script.ts'
import { serveRequest } from './server.ts'

export type AnswersFrom =
  | { readonly script: ScriptInput }
  | { readonly generator: GeneratorInput }
  /** A source shared by several engines: replicas of one model draw from one bag. */
  | { readonly answers: AnswerSource }

export type ScriptedEngineOptions = AnswersFrom & EngineSettings

export type EngineSettings = {
  /** 0, the default, takes a free one. */
  readonly port?: number
  readonly host?: string
  readonly shape?: ShapeName
  readonly seed?: number
  readonly model?: string
  readonly maxModelLen?: number
  /** False refuses images, as an engine of a text model does. */
  readonly multimodal?: boolean
  readonly latency?: Partial<Latency>
  /** Tokens per streamed chunk. */
  readonly tokensPerChunk?: number
  /** How many requests generate at once; further ones wait in line. */
  readonly concurrency?: number
  /** How many may wait; one more is answered 503. */
  readonly waiting?: number
  /** By default as the shape's engine has it: SGLang processed, the others raw. */
  readonly logprobMode?: 'raw' | 'processed'
  /** Data-parallel ranks, of which a request may name one; by default one. */
  readonly dataParallelRanks?: number
  readonly weightVersion?: string
  readonly faults?: readonly FaultPlan[]
  readonly scheduler?: Scheduler
}

export type ScriptedEngine = {
  readonly url: string
  readonly port: number
  /** The last requests for generations, oldest first. */
  requests(): readonly EngineRequest[]
  /** Adds a fault plan; null clears all. */
  setFault(plan: FaultPlan | null): void
  setWeightVersion(version: string): void
  /** While it is loading every request is answered 503. */
  setLoading(isLoading: boolean): void
  /** Cuts all connections. Idempotent. */
  close(): Promise<void>
}

const DEFAULT_MODEL = 'qwen3-scripted'
const DEFAULT_MAX_MODEL_LEN = 131_072
const LOG_LIMITS = { requests: 4096, promptTokens: 4_000_000 }
const RUNNING_LIMIT = 256
const WAITING_LIMIT = 4096

/** Rejects when the port cannot be listened on, or when a script or generator given as a value is not valid. */
export async function openScriptedEngine(options: ScriptedEngineOptions): Promise<ScriptedEngine> {
  const shapeName = options.shape ?? 'vllm'
  const shape = SHAPES[shapeName]
  const seed = options.seed ?? 0
  const log = openRequestLog(LOG_LIMITS)
  const faults = openFaultDesk(options.faults ?? [])
  const batch = openBatch({ running: options.concurrency ?? RUNNING_LIMIT, waiting: options.waiting ?? WAITING_LIMIT })
  let weightVersion = options.weightVersion ?? 'default'
  let isLoading = false
  const engine: ServedEngine = {
    shape,
    shapeName,
    seed,
    model: options.model ?? DEFAULT_MODEL,
    maxModelLen: options.maxModelLen ?? DEFAULT_MAX_MODEL_LEN,
    takesImages: options.multimodal ?? true,
    logprobMode: options.logprobMode ?? shape.defaultLogprobMode,
    latency: { ttftMs: options.latency?.ttftMs ?? 0, msPerToken: options.latency?.msPerToken ?? 0 },
    ranks: options.dataParallelRanks ?? 1,
    tokensPerChunk: Math.max(1, options.tokensPerChunk ?? 1),
    qwen: await loadQwen(),
    answers: openAnswers(options, seed),
    batch,
    faults,
    log,
    tally: openTally(),
    scheduler: options.scheduler ?? openEventLoop(),
    weightVersion: () => weightVersion,
    isLoading: () => isLoading,
    setWeightVersion(version) {
      weightVersion = version
    },
  }

  const server = createServer((request, response) => {
    // A client may go at any time; a write to it then is no news.
    response.on('error', () => {})
    void serveRequest(engine, request, response).catch((error: unknown) => {
      // A bug of ours must show on the wire and leave the other requests alone.
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
      if (response.headersSent) response.destroy()
      else sendJson(response, 500, shape.error({ status: 500, message, param: null }))
    })
  })
  const host = options.host ?? '127.0.0.1'
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, host, resolve)
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  let closing: Promise<void> | null = null
  return {
    port,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    requests: log.list,
    setFault: faults.set,
    setWeightVersion: engine.setWeightVersion,
    setLoading(loads) {
      isLoading = loads
    },
    close() {
      closing ??= new Promise((resolve) => {
        batch.close()
        server.close(() => resolve())
        server.closeAllConnections()
      })
      return closing
    },
  }
}

/** An answer source of its own, for engines that are to share it. */
export function openAnswers(from: AnswersFrom, seed: number): AnswerSource {
  if ('answers' in from) return from.answers
  if ('script' in from) return openScriptAnswers(scriptSchema.parse(from.script), seed)
  return openGeneratorAnswers(from.generator, seed)
}

// Opens and closes one scripted engine: an HTTP server that answers by script with real Qwen3 token ids.
import type { Scheduler } from '../../kernel/clock.ts'
import { openEventLoop } from '../../kernel/event-loop.ts'
import { openBatch } from '../serve/batch.ts'
import { thinkingOf } from '../serve/chat-template.ts'
import type { Language } from '../serve/language.ts'
import { openTally } from '../serve/metrics.ts'
import type { ServedEngine } from '../serve/route.ts'
import { openServer } from '../serve/server.ts'
import { SHAPES, type ShapeName } from '../wire/shape.ts'
import { type AnswerSource, openScriptAnswers } from './answers.ts'
import { type GeneratingEngine, serveGeneration } from './exchange.ts'
import { faultRoutes } from './fault-routes.ts'
import { type FaultPlan, openFaultDesk } from './faults.ts'
import { type GeneratorInput, openGeneratorAnswers } from './generator.ts'
import type { Latency } from './pace.ts'
import { loadQwen, type Qwen } from './qwen.ts'
import { type EngineRequest, openRequestLog } from './request-log.ts'
import { type ScriptInput, scriptSchema } from './script.ts'
import { openSleep, sleepRoutes } from './sleep-routes.ts'

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
/** Rows of Qwen3's embedding, more than it has tokens. */
const QWEN3_IDS = 151_936
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
  const sleep = openSleep()
  const qwen = await loadQwen()
  let weightVersion = options.weightVersion ?? 'default'
  let isLoading = false
  const engine: GeneratingEngine = {
    shape,
    seed,
    model: options.model ?? DEFAULT_MODEL,
    maxModelLen: options.maxModelLen ?? DEFAULT_MAX_MODEL_LEN,
    takesImages: options.multimodal ?? true,
    logprobMode: options.logprobMode ?? shape.defaultLogprobMode,
    latency: { ttftMs: options.latency?.ttftMs ?? 0, msPerToken: options.latency?.msPerToken ?? 0 },
    ranks: options.dataParallelRanks ?? 1,
    tokensPerChunk: Math.max(1, options.tokensPerChunk ?? 1),
    qwen,
    language: languageOf(qwen),
    answers: openAnswers(options, seed),
    batch,
    faults,
    log,
    tally: openTally(),
    scheduler: options.scheduler ?? openEventLoop(),
    weightVersion: () => weightVersion,
    isAsleep: sleep.isAsleep,
  }
  const setWeightVersion = (version: string) => {
    weightVersion = version
  }
  const served: ServedEngine = {
    ...engine,
    kind: 'scripted',
    shapeName,
    ownRoutes: { ...faultRoutes(faults), ...(shapeName === 'vllm' ? sleepRoutes(sleep) : {}) },
    reader: () => (isLoading ? null : engine),
    setWeightVersion,
    cacheUsage: () => 0,
    serveGeneration: (read, incoming, response) => serveGeneration(engine, read, incoming, response),
  }
  const server = await openServer(served, { host: options.host ?? '127.0.0.1', port: options.port ?? 0 })
  return {
    port: server.port,
    url: server.url,
    requests: log.list,
    setFault: faults.set,
    setWeightVersion,
    setLoading(loads) {
      isLoading = loads
    },
    close() {
      batch.close()
      return server.close()
    },
  }
}

function languageOf(qwen: Qwen): Language {
  return {
    encode: qwen.encode,
    decode: qwen.decode,
    vocabularySize: QWEN3_IDS,
    textStartId: null,
    renderPrompt: ({ templateArguments, ...prompt }) => ({
      ok: true,
      text: qwen.renderPrompt({ ...prompt, enableThinking: thinkingOf(templateArguments) }),
    }),
  }
}

/** An answer source of its own, for engines that are to share it. */
export function openAnswers(from: AnswersFrom, seed: number): AnswerSource {
  if ('answers' in from) return from.answers
  if ('script' in from) return openScriptAnswers(scriptSchema.parse(from.script), seed)
  return openGeneratorAnswers(from.generator, seed)
}

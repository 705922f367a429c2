// Opens and closes the embedded engine: an HTTP server over a model that samples, whose weights can be replaced.
import { basename } from 'node:path'
import type { Scheduler } from '../../kernel/clock.ts'
import { openEventLoop } from '../../kernel/event-loop.ts'
import type { Reader } from '../serve/asked.ts'
import { openBatch } from '../serve/batch.ts'
import { openTally } from '../serve/metrics.ts'
import type { ServedEngine } from '../serve/route.ts'
import { openServer } from '../serve/server.ts'
import { SHAPES, type ShapeName } from '../wire/shape.ts'
import { serveGeneration } from './exchange.ts'
import type { GeneratingEngine } from './generating-engine.ts'
import { openLanguage } from './language.ts'
import { openModel } from './llama.ts'
import { weightRoutes } from './weight-routes.ts'
import { type Loaded, type OpenModel, openWeightDesk, type Weights } from './weights.ts'

export type EmbeddedEngineOptions = {
  /** A GGUF file. */
  readonly modelPath: string
  /** 0, the default, takes a free one. */
  readonly port?: number
  readonly host?: string
  readonly shape?: ShapeName
  /** The served name; by default the file's. */
  readonly model?: string
  /** Fixes what is drawn for requests that bring no seed. */
  readonly seed?: number
  /** Tokens of prompt and answer together; by default as many as the model was trained for, or as memory allows. */
  readonly contextTokens?: number
  /** How many generations go on at once; further ones wait in line. */
  readonly sequences?: number
  readonly threads?: number
  /** How many may wait; one more is answered 503. */
  readonly waiting?: number
  readonly weightVersion?: string
  /** By default as the shape's engine has it: SGLang processed, the others raw. */
  readonly logprobMode?: 'raw' | 'processed'
  readonly scheduler?: Scheduler
}

export type EmbeddedEngine = {
  readonly url: string
  readonly port: number
  /** The served name. */
  readonly model: string
  readonly parameters: number
  readonly contextTokens: number
  weightVersion(): string
  /** New weights, once what runs has ended; on failure the old ones go on serving. */
  load(modelPath: string, version: string | null): Promise<Loaded>
  /** Cuts all connections and frees the weights. Idempotent. */
  close(): Promise<void>
}

export type OpenedEngine = { readonly ok: true; readonly engine: EmbeddedEngine } | { readonly ok: false; readonly error: string }

const SEQUENCES = 8
const WAITING_LIMIT = 4096

/** Rejects when the port cannot be listened on. Until the weights are loaded the port answers 503. */
export function openEmbeddedEngine(options: EmbeddedEngineOptions): Promise<OpenedEngine> {
  return openEngineOf(openModel, options)
}

/** The same engine over another way to open a model. */
export async function openEngineOf(open: OpenModel, options: EmbeddedEngineOptions): Promise<OpenedEngine> {
  const shapeName = options.shape ?? 'vllm'
  const shape = SHAPES[shapeName]
  const sequences = options.sequences ?? SEQUENCES
  const batch = openBatch({ running: sequences, waiting: options.waiting ?? WAITING_LIMIT })
  const file = { contextTokens: options.contextTokens ?? null, sequences, threads: options.threads ?? 1 }
  const desk = openWeightDesk(open, file, batch)
  const model = options.model ?? basename(options.modelPath, '.gguf')
  const readerOf = readerFor(model, shapeName)
  const engine: GeneratingEngine = {
    shape,
    model,
    seed: options.seed ?? 0,
    logprobMode: options.logprobMode ?? shape.defaultLogprobMode,
    batch,
    tally: openTally(),
    scheduler: options.scheduler ?? openEventLoop(),
    weights: desk.current,
    readerOf,
  }
  const weightVersion = () => desk.current()?.version ?? 'none'
  const served: ServedEngine = {
    ...engine,
    kind: 'embedded',
    shapeName,
    ownRoutes: weightRoutes(desk),
    reader() {
      const weights = desk.current()
      return weights === null ? null : readerOf(weights)
    },
    weightVersion,
    setWeightVersion(version) {
      const weights = desk.current()
      if (weights !== null) weights.version = version
    },
    cacheUsage: () => usageOf(desk.current()),
    serveGeneration: (read, incoming, response) => serveGeneration(engine, read, incoming, response),
  }
  const server = await openServer(served, { host: options.host ?? '127.0.0.1', port: options.port ?? 0 })
  let closing: Promise<void> | null = null
  const close = () => {
    closing ??= (async () => {
      batch.close()
      await server.close()
      await desk.close()
    })()
    return closing
  }
  const loaded = await desk.load(options.modelPath, options.weightVersion ?? 'default', 'wait')
  const weights = desk.current()
  if (!loaded.ok || weights === null) {
    await close()
    return { ok: false, error: loaded.ok ? 'the engine has been closed' : loaded.error }
  }
  const { parameters, contextTokens } = weights.model.facts
  const { url, port } = server
  return {
    ok: true,
    engine: {
      url,
      port,
      model: engine.model,
      parameters,
      contextTokens,
      weightVersion,
      close,
      load: (path, version) => desk.load(path, version, 'wait'),
    },
  }
}

/** One reader for each set of weights: compiling a chat template takes time. */
function readerFor(model: string, shapeName: ShapeName): (weights: Weights) => Reader {
  const readers = new WeakMap<Weights, Reader>()
  return (weights) => {
    const known = readers.get(weights)
    if (known !== undefined) return known
    const { facts } = weights.model
    const reader = {
      shape: SHAPES[shapeName],
      model,
      maxModelLen: facts.contextTokens,
      takesImages: false,
      language: openLanguage(weights.model),
    }
    readers.set(weights, reader)
    return reader
  }
}

function usageOf(weights: Weights | null): number {
  if (weights === null) return 0
  const { sequences, contextTokens } = weights.model.facts
  return weights.model.usedTokens() / (sequences * contextTokens)
}

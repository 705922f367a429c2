// The native llama.cpp of this thread: brought in when first asked for, and what it says when a file cannot be loaded.
import type { Llama, LlamaContext, LlamaModel } from 'node-llama-cpp'
import type { ModelFile } from './model.ts'

export type LoadedWeights = { readonly model: LlamaModel; readonly context: LlamaContext }
export type WeightsResult = { readonly ok: true; readonly weights: LoadedWeights } | { readonly ok: false; readonly error: string }

/** A prompt is read in pieces of this many tokens: what a cancel, or the next token of another sequence, may have to wait for. */
export const STEP_TOKENS = 256

const LOG_DELAY_MS = 20
/** Lines since the last load began: a library that complains of each step must not fill the memory. */
const LONGEST_LOG = 1000
const HEADER_FAULT = 'gguf_init_from_reader: '
const LOAD_FAULT = 'llama_model_load: error loading model: '

type Runtime = { readonly llama: Llama; readonly log: string[] }

/** A native library is loaded once in a thread and stays, as any. */
let loading: Promise<Runtime> | undefined
/** One load at a time: what the library logs meanwhile is about that one. */
let lastLoad: Promise<unknown> = Promise.resolve()

export function loadWeights(file: ModelFile, contextTokens: number): Promise<WeightsResult> {
  const load = lastLoad.then(() => loadAlone(file, contextTokens))
  lastLoad = load
  return load
}

async function loadAlone(file: ModelFile, contextTokens: number): Promise<WeightsResult> {
  loading ??= startRuntime()
  const runtime = await loading.catch(messageOf)
  if (typeof runtime === 'string') {
    loading = undefined
    return { ok: false, error: `this model runs through node-llama-cpp, which cannot be loaded here; ${installing()} (${runtime})` }
  }
  runtime.log.length = 0
  try {
    return { ok: true, weights: await readWeights(runtime.llama, file, contextTokens) }
  } catch (error) {
    // What it logs arrives on a later turn of the event loop than its failure.
    await new Promise((resolve) => setTimeout(resolve, LOG_DELAY_MS))
    return { ok: false, error: `${file.path} cannot be loaded: ${reasonIn(runtime.log) ?? messageOf(error)}` }
  }
}

async function startRuntime(): Promise<Runtime> {
  const { getLlama, LlamaLogLevel } = await import('node-llama-cpp')
  const log: string[] = []
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    logLevel: LlamaLogLevel.error,
    maxThreads: 0,
    logger: (_, message) => void (log.length < LONGEST_LOG && log.push(message.trim())),
  })
  return { llama, log }
}

function installing(): string {
  const platform = process.platform === 'darwin' ? `mac-${process.arch === 'arm64' ? 'arm64-metal' : process.arch}` : process.platform
  const build = process.platform === 'darwin' ? platform : `${platform === 'win32' ? 'win' : platform}-${process.arch}`
  return `npm i --omit=optional node-llama-cpp@3.21.1 @node-llama-cpp/${build}@3.21.1 installs it`
}

async function readWeights(llama: Llama, file: ModelFile, contextTokens: number): Promise<LoadedWeights> {
  // Read and not mapped: a trainer may write the next weights over a file whose weights are used.
  const model = await llama.loadModel({ modelPath: file.path, gpuLayers: 0, useMmap: false })
  try {
    const context = await model.createContext({
      contextSize: contextTokens,
      sequences: file.sequences,
      threads: file.threads,
      batchSize: STEP_TOKENS,
      // With float16 keys and values logprobs are off by up to 5e-3, with float32 and no flash attention by 2e-4.
      flashAttention: false,
      experimentalKvCacheKeyType: 'F32',
      experimentalKvCacheValueType: 'F32',
      // A sliding window that forgets cannot give back a shared prefix.
      swaFullCache: true,
      failedCreationRemedy: false,
    })
    return { model, context }
  } catch (error) {
    await model.dispose()
    throw error
  }
}

/** llama.cpp's own words: what is wrong with the header comes first, and is not told again. */
function reasonIn(log: readonly string[]): string | null {
  const line = log.find((each) => each.startsWith(HEADER_FAULT)) ?? log.findLast((each) => each.includes(LOAD_FAULT))
  return line?.replace(HEADER_FAULT, '').replace(LOAD_FAULT, '') ?? null
}

/** Settles what goes on with these weights, then lets them go. */
export async function closeWeights({ model, context }: LoadedWeights): Promise<void> {
  await context.dispose()
  await model.dispose()
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

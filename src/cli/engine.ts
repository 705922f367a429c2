// `polar engine`: runs a model, or one or several scripted engines, until it is told to stop.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { type EmbeddedEngineOptions, openEmbeddedEngine } from '../engine/embedded/engine.ts'
import { type AnswersFrom, openAnswers, openScriptedEngine, type ScriptedEngine } from '../engine/scripted/engine.ts'
import { FAULT_NAMES } from '../engine/scripted/faults.ts'
import { loadScript } from '../engine/scripted/script.ts'
import { EXIT, type ExitCode } from './exit.ts'

/** One message, whatever is wrong with it: no number, a fraction, out of its range. */
function whole(from: number, to?: number) {
  const message = `must be a whole number from ${from} ${to === undefined ? 'on' : `to ${to}`}`
  return z.coerce
    .number(message)
    .int()
    .min(from)
    .max(to ?? Number.MAX_SAFE_INTEGER)
}

const count = whole(1)
const milliseconds = z.coerce.number('must be a number of milliseconds').min(0)
const text = z.string().min(1, 'must not be empty')

const listening = {
  host: text.default('127.0.0.1'),
  /** 0 takes a free one; further replicas take the next ports. */
  port: whole(0, 65_535).default(0),
  shape: z.enum(['vllm', 'sglang', 'llamacpp'], 'must be vllm, sglang or llamacpp').default('vllm'),
  seed: z.coerce.number('must be a whole number').int().default(0),
}

const scriptedSchema = z.object({
  ...listening,
  scripted: z.literal(true),
  /** YAML or JSON; without one a seeded generator answers. */
  script: text.optional(),
  replicas: whole(1, 64).default(1),
  model: text.default('qwen3-scripted'),
  maxModelLen: count.default(131_072),
  ttftMs: milliseconds.default(0),
  msPerToken: milliseconds.default(0),
  concurrency: count.default(256),
  /** Each `name` or `name:times`. */
  fault: z.array(z.string().regex(/^[a-z0-9-]+(:[1-9]\d*)?$/, 'must be <name> or <name>:<times>')).default([]),
})

const embeddedSchema = z.object({
  ...listening,
  modelPath: text.optional(),
  model: text.optional(),
  maxModelLen: count.optional(),
  sequences: whole(1, 256).default(8),
  threads: whole(1, 256).default(1),
  weightVersion: text.optional(),
})

type ScriptedOptions = z.output<typeof scriptedSchema>
type EmbeddedOptions = z.output<typeof embeddedSchema>

export type EngineCommandIo = {
  readonly out: (line: string) => void
  readonly error: (line: string) => void
  /** Resolves when the engines are to stop. */
  readonly stopped: () => Promise<void>
}

/** Runs until SIGINT or SIGTERM; when it cannot start, the reason is said in the user's terms. */
export async function runEngineCommand(options: Readonly<Record<string, unknown>>, io: EngineCommandIo = processIo): Promise<ExitCode> {
  const isScripted = options.scripted === true
  const foreign = foreignFlags(options, isScripted)
  const started = foreign === null ? await (isScripted ? startScripted(options) : startEmbedded(options)) : foreign
  if (!started.ok) {
    io.error(`polar engine: ${started.error}`)
    return started.exit
  }
  io.out(started.line)
  await io.stopped()
  await started.close()
  return EXIT.ok
}

type Started =
  | { readonly ok: true; readonly line: string; readonly close: () => Promise<unknown> }
  | { readonly ok: false; readonly exit: ExitCode; readonly error: string }

const wrong = (error: string): Started => ({ ok: false, exit: EXIT.usage, error })

function invalid(error: z.ZodError): Started {
  return wrong(error.issues.map((issue) => `--${flagName(issue.path)}: ${issue.message}`).join('; '))
}

/** An option that would be passed over in silence is refused. */
function foreignFlags(options: Readonly<Record<string, unknown>>, isScripted: boolean): Started | null {
  const [own, other] = isScripted ? [scriptedSchema, embeddedSchema] : [embeddedSchema, scriptedSchema]
  const foreign = Object.keys(options).filter((name) => name !== 'scripted' && !(name in own.shape) && name in other.shape)
  if (foreign.length === 0) return null
  const flags = foreign.map((name) => `--${flagName([name])}`).join(', ')
  return wrong(`${flags}: ${isScripted ? 'not of a scripted engine; leave out --scripted to run a model' : 'only with --scripted'}`)
}

const builtInModel = fileURLToPath(new URL('../../assets/tiny-policy.gguf', import.meta.url))

async function startEmbedded(given: Readonly<Record<string, unknown>>): Promise<Started> {
  const parsed = embeddedSchema.safeParse(given)
  if (!parsed.success) return invalid(parsed.error)
  const options = parsed.data
  const modelPath = options.modelPath ?? builtInModel
  if (options.modelPath === undefined && !existsSync(modelPath)) {
    return wrong(`--model-path: the built-in model ${modelPath} is not there; name a GGUF file, or give --scripted`)
  }
  try {
    const opened = await openEmbeddedEngine(embeddedOptions(options, modelPath))
    if (!opened.ok) return wrong(opened.error)
    const { engine } = opened
    const size = `${engine.parameters.toLocaleString('en')} parameters, context ${engine.contextTokens.toLocaleString('en')}`
    return { ok: true, line: `embedded engine (${options.shape}) serving ${engine.model} (${size}) at ${engine.url}`, close: engine.close }
  } catch (error) {
    return { ok: false, exit: EXIT.failed, error: listenError(error, options.host, options.port) }
  }
}

function embeddedOptions({ model, maxModelLen, weightVersion, ...options }: EmbeddedOptions, modelPath: string): EmbeddedEngineOptions {
  return {
    ...options,
    modelPath,
    ...(model === undefined ? {} : { model }),
    ...(maxModelLen === undefined ? {} : { contextTokens: maxModelLen }),
    ...(weightVersion === undefined ? {} : { weightVersion }),
  }
}

async function startScripted(given: Readonly<Record<string, unknown>>): Promise<Started> {
  const parsed = scriptedSchema.safeParse(given)
  if (!parsed.success) return invalid(parsed.error)
  const options = parsed.data
  const unknown = options.fault.map((text) => text.split(':')[0]).find((name) => !FAULT_NAMES.some((known) => known === name))
  if (unknown !== undefined) return wrong(`--fault: there is no fault ${unknown}; there are ${FAULT_NAMES.join(', ')}`)
  let from: AnswersFrom = { generator: {} }
  if (options.script !== undefined) {
    const script = await loadScript(options.script)
    if (!script.ok) return wrong(script.error)
    from = { script: script.value }
  }
  // Replicas draw from one source, so that variants keep their proportion over all of them.
  const answers = openAnswers(from, options.seed)
  const engines: ScriptedEngine[] = []
  const close = () => Promise.all(engines.map((engine) => engine.close()))
  for (let replica = 0; replica < options.replicas; replica += 1) {
    const port = options.port === 0 ? 0 : options.port + replica
    try {
      engines.push(await openScriptedEngine(engineOptions(options, answers, port)))
    } catch (error) {
      await close()
      return { ok: false, exit: EXIT.failed, error: listenError(error, options.host, port) }
    }
  }
  const urls = engines.map((engine) => engine.url).join(' ')
  return { ok: true, line: `scripted engine (${options.shape}) serving ${options.model} at ${urls}`, close }
}

function engineOptions(options: ScriptedOptions, answers: ReturnType<typeof openAnswers>, port: number) {
  const { host, shape, seed, model, maxModelLen, ttftMs, msPerToken, concurrency } = options
  const faults = options.fault.flatMap((text) => {
    const [name, times] = text.split(':')
    const fault = FAULT_NAMES.find((known) => known === name)
    return fault === undefined ? [] : [{ fault, ...(times === undefined ? {} : { times: Number(times) }) }]
  })
  return { answers, port, host, shape, seed, model, maxModelLen, concurrency, faults, latency: { ttftMs, msPerToken } }
}

function listenError(error: unknown, host: string, port: number): string {
  const code = error instanceof Error && 'code' in error ? error.code : null
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} of ${host} is in use; choose another with --port`
    case 'EACCES':
      return `port ${port} may not be used by this user; choose one above 1023 with --port`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return `${host} is no address of this machine`
    default:
      return error instanceof Error ? error.message : String(error)
  }
}

function flagName(path: readonly PropertyKey[]): string {
  const [name = 'options'] = path
  return String(name).replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

const processIo: EngineCommandIo = {
  out: (line) => void process.stdout.write(`${line}\n`),
  error: (line) => void process.stderr.write(`${line}\n`),
  stopped: () =>
    new Promise((resolve) => {
      process.once('SIGINT', () => resolve())
      process.once('SIGTERM', () => resolve())
    }),
}

// `polar engine`: runs one or several scripted engines until it is told to stop.
import { z } from 'zod'
import { type AnswersFrom, openAnswers, openScriptedEngine, type ScriptedEngine } from '../engine/scripted/engine.ts'
import { FAULT_NAMES } from '../engine/scripted/faults.ts'
import { loadScript } from '../engine/scripted/script.ts'
import { EXIT, type ExitCode } from './exit.ts'

const number = z.coerce.number('must be a number')
const count = number.int().min(1)
const milliseconds = number.min(0)

const optionsSchema = z.object({
  scripted: z.literal(true, 'only --scripted engines can be run'),
  /** YAML or JSON; without one a seeded generator answers. */
  script: z.string().min(1).optional(),
  host: z.string().min(1).default('127.0.0.1'),
  /** 0 takes a free one; further replicas take the next ports. */
  port: number.int().min(0).max(65_535).default(0),
  replicas: count.max(64).default(1),
  shape: z.enum(['vllm', 'sglang', 'llamacpp']).default('vllm'),
  seed: number.int().default(0),
  model: z.string().min(1).default('qwen3-scripted'),
  maxModelLen: count.default(131_072),
  ttftMs: milliseconds.default(0),
  msPerToken: milliseconds.default(0),
  concurrency: count.default(256),
  /** Each `name` or `name:times`. */
  fault: z.array(z.string().regex(/^[a-z0-9-]+(:[1-9]\d*)?$/, 'must be <name> or <name>:<times>')).default([]),
})

export type EngineCommandIo = {
  readonly out: (line: string) => void
  readonly error: (line: string) => void
  /** Resolves when the engines are to stop. */
  readonly stopped: () => Promise<void>
}

/** Runs until SIGINT or SIGTERM; when it cannot start, the reason is said in the user's terms. */
export async function runEngineCommand(options: unknown, io: EngineCommandIo = processIo): Promise<ExitCode> {
  const parsed = optionsSchema.safeParse(options)
  if (!parsed.success) {
    const reasons = parsed.error.issues.map((issue) => `--${flagName(issue.path)}: ${issue.message}`)
    io.error(`polar engine: ${reasons.join('; ')}`)
    return EXIT.usage
  }
  const started = await start(parsed.data)
  if (!started.ok) {
    io.error(`polar engine: ${started.error}`)
    return started.exit
  }
  const { engines } = started
  io.out(`scripted engine (${parsed.data.shape}) serving ${parsed.data.model} at ${engines.map((engine) => engine.url).join(' ')}`)
  await io.stopped()
  await Promise.all(engines.map((engine) => engine.close()))
  return EXIT.ok
}

type Started =
  | { readonly ok: true; readonly engines: readonly ScriptedEngine[] }
  | { readonly ok: false; readonly exit: ExitCode; readonly error: string }

async function start(options: z.output<typeof optionsSchema>): Promise<Started> {
  const unknown = options.fault.map((text) => text.split(':')[0]).find((name) => !FAULT_NAMES.some((known) => known === name))
  if (unknown !== undefined) {
    return { ok: false, exit: EXIT.usage, error: `--fault: there is no fault ${unknown}; there are ${FAULT_NAMES.join(', ')}` }
  }
  let from: AnswersFrom = { generator: {} }
  if (options.script !== undefined) {
    const script = await loadScript(options.script)
    if (!script.ok) return { ...script, exit: EXIT.usage }
    from = { script: script.value }
  }
  // Replicas draw from one source, so that variants keep their proportion over all of them.
  const answers = openAnswers(from, options.seed)
  const engines: ScriptedEngine[] = []
  for (let replica = 0; replica < options.replicas; replica += 1) {
    const port = options.port === 0 ? 0 : options.port + replica
    try {
      engines.push(await openScriptedEngine(engineOptions(options, answers, port)))
    } catch (error) {
      await Promise.all(engines.map((engine) => engine.close()))
      return { ok: false, exit: EXIT.failed, error: listenError(error, options.host, port) }
    }
  }
  return { ok: true, engines }
}

function engineOptions(options: z.output<typeof optionsSchema>, answers: ReturnType<typeof openAnswers>, port: number) {
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

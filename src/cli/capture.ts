// `polar capture`: a session for an agent that is started elsewhere, or by this command, and whose model calls the node captures.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { askNode } from './asking.ts'
import { type ControlClient, exitOf, type Reply } from './control-client.ts'
import { counted } from './counted.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { hearInterrupts } from './interrupts.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type CaptureOptions = TargetOptions & {
  readonly task?: string
  readonly gateway?: string
  /** A shell command. */
  readonly run?: string
  /** An open capture. */
  readonly finish?: string
  readonly reward?: number
  readonly evaluation?: boolean
  readonly json?: boolean
}

const openedSchema = z.object({
  session_id: z.string(),
  task_id: z.string(),
  metadata: z.object({
    polar_node: z.object({
      api_key: z.string().nullable(),
      base_urls: z.object({ openai: z.string(), anthropic: z.string(), google: z.string() }).nullable(),
    }),
  }),
})

const endedSchema = z.object({
  status: z.string(),
  completion_count: z.number(),
  result: z
    .object({
      trajectory: z.object({ traces: z.array(z.unknown()) }),
      metadata: z.object({ polar_node: z.object({ outcome: z.string(), reward: z.number().nullable(), trained_tokens: z.number() }) }),
    })
    .optional(),
})

type Environment = Readonly<Record<string, string>>

const LOOK_EVERY_MS = 200

export async function runCapture(options: CaptureOptions): Promise<ExitCode> {
  if (options.finish !== undefined && options.run !== undefined) return endWith(EXIT.usage, '--finish ends a capture, --run opens one')
  if (options.finish === undefined && options.run === undefined && options.reward !== undefined)
    return endWith(EXIT.usage, '--reward is given when a capture ends: with --run or --finish')
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const { client } = target
  if (options.finish !== undefined) return finish(client, options.finish, options)
  const opened = await client.post(`${placeOf(options)}/sessions`, {
    ...(options.task === undefined ? {} : { task_id: options.task }),
    ...(options.evaluation === true ? { metadata: { polar_node: { purpose: 'evaluation' } } } : {}),
  })
  if (opened.status !== 200) return endWith(exitOf(opened), opened.detail)
  const read = openedSchema.safeParse(opened.body)
  const environment = read.success ? environmentOf(read.data) : null
  if (!read.success || environment === null) return endWith(EXIT.unreachable, 'the node opened a capture and gave no key for it')
  const { session_id: session } = read.data
  if (options.run === undefined) {
    process.stdout.write(options.json === true ? `${JSON.stringify({ session_id: session, env: environment })}\n` : exportsOf(environment))
    process.stderr.write(`polar: capture ${session} is open; end it with: polar capture --finish ${session}${namedBy(options)}\n`)
    return EXIT.ok
  }
  const code = await runCommand(options.run, environment)
  const ended = await finish(client, session, options)
  if (code !== 0) process.stderr.write(`polar: the command ended with exit code ${code}\n`)
  return ended === EXIT.ok && code !== 0 ? EXIT.failed : ended
}

function placeOf({ gateway }: CaptureOptions): string {
  return gateway === undefined ? '' : `/gateways/${encodeURIComponent(gateway)}`
}

/** Under the names that the vendors' clients read, and those that Polar gives its agents; null: the capture is over. */
function environmentOf({ session_id, task_id, metadata }: z.infer<typeof openedSchema>): Environment | null {
  const { api_key: key, base_urls: urls } = metadata.polar_node
  if (key === null || urls === null) return null
  return {
    OPENAI_BASE_URL: urls.openai,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: urls.anthropic,
    ANTHROPIC_API_KEY: key,
    GOOGLE_GEMINI_BASE_URL: urls.google,
    GOOGLE_API_URL: urls.google,
    GEMINI_API_KEY: key,
    GOOGLE_API_KEY: key,
    SESSION_ID: session_id,
    TASK_ID: task_id,
  }
}

/** For `eval "$(polar capture)"`. */
function exportsOf(environment: Environment): string {
  return Object.entries(environment)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", `'\\''`)}'\n`)
    .join('')
}

/** Signals go to the command, which is in the same group: this one waits for its end in any case, so that the capture has one, too. */
async function runCommand(command: string, environment: Environment): Promise<number> {
  const interrupts = hearInterrupts()
  try {
    const child = spawn('/bin/sh', ['-c', command], { stdio: 'inherit', env: { ...process.env, ...environment } })
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
  } finally {
    interrupts.ignore()
  }
}

/** Ends it, waits for its result, and tells what was captured. */
async function finish(client: ControlClient, session: string, options: CaptureOptions): Promise<ExitCode> {
  const path = `/sessions/${encodeURIComponent(session)}`
  const finished = await client.post(`${path}/finish`, options.reward === undefined ? {} : { reward: options.reward })
  if (finished.status !== 200) return endWith(exitOf(finished), finished.detail)
  if (options.reward !== undefined && hadEnded(finished.body))
    process.stderr.write(`polar: capture ${session} had ended before: this reward is not taken\n`)
  return askNode(
    options,
    () => resultOf(client, path),
    (body: unknown) => describe(session, body),
  )
}

function hadEnded(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'finished' in body && body.finished === false
}

async function resultOf(client: ControlClient, path: string): Promise<Reply> {
  for (;;) {
    const reply = await client.get(path)
    const read = endedSchema.safeParse(reply.body)
    if (reply.status !== 200 || !read.success || read.data.result !== undefined) return reply
    await delay(LOOK_EVERY_MS)
  }
}

function describe(session: string, body: unknown): string {
  const read = endedSchema.safeParse(body)
  if (!read.success || read.data.result === undefined) return `capture ${session} ended\n`
  const { status, completion_count: calls, result } = read.data
  const { outcome, reward, trained_tokens: tokens } = result.metadata.polar_node
  return `capture ${session} ${status} (${outcome}): ${counted(calls, 'call')}, ${counted(result.trajectory.traces.length, 'trace')}, ${counted(tokens, 'token')} to train, reward ${reward ?? '–'}\n`
}

/** A URL may hold the token: it is not repeated. */
function namedBy({ config, rolloutUrl }: TargetOptions): string {
  if (rolloutUrl !== undefined) return ' and the same --rollout-url'
  return config === undefined ? '' : ` --config ${config}`
}

// `polar submit`: sends a task, follows its sessions, says how each ended.
import { readFile } from 'node:fs/promises'
import { parse as parseYaml } from 'yaml'
import type { ControlClient } from './control-client.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { ignoredKeys } from './ignored-keys.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type SubmitOptions = TargetOptions & {
  readonly json?: boolean
  readonly wait: boolean
  /** Seconds between two looks at a task that reports nothing. */
  readonly pollInterval: number
}

type SessionRow = {
  readonly session_id: string
  readonly status: string
  readonly outcome: string | null
  readonly reward: number | null
  readonly error: string | null
}

const ENDED = new Set(['completed', 'failed', 'cancelled'])

export async function runSubmit(file: string, options: SubmitOptions): Promise<ExitCode> {
  let task: unknown
  try {
    // JSON is a part of YAML.
    task = parseYaml(await readFile(file, 'utf8'))
  } catch (error) {
    return endWith(EXIT.usage, `cannot read the task ${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const { client } = target

  const submitted = await client.post('/rollout/task/submit', task)
  if (submitted.status === 0) return endWith(EXIT.unreachable, submitted.detail)
  if (submitted.status !== 200)
    return endWith(isRefusal(submitted.status) ? EXIT.usage : EXIT.unreachable, `the task was not accepted: ${submitted.detail}`)
  const ignored = ignoredKeys(task)
  if (ignored.length > 0) process.stderr.write(`polar: note: the task has keys that mean nothing here: ${ignored.join(', ')}\n`)
  const id = textOf(submitted.body, 'task_id')
  const status = textOf(submitted.body, 'status')
  const told = ENDED.has(status)
    ? `task ${id} was submitted before and is ${status}; to run it again, give it another task_id`
    : `task ${id} submitted`
  say(options, { event: 'submitted', task_id: id, status }, told)
  if (!options.wait) return EXIT.ok
  return follow(client, id, options)
}

/** The node understood the task and will not have it, now or later. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 404 && status !== 429
}

async function follow(client: ControlClient, id: string, options: SubmitOptions): Promise<ExitCode> {
  const stop = new AbortController()
  const news = watchEvents(client, id, options, stop.signal)
  try {
    for (;;) {
      const row = await readTask(client, id)
      if (row === null) return endWith(EXIT.unreachable, `task ${id} can no longer be read at ${client.url}`)
      if (ENDED.has(row.status)) return await report(client, id, row.status, options)
      await newsWithin(news, options.pollInterval * 1000)
    }
  } finally {
    stop.abort()
  }
}

/** Prints state changes as they come; `changed` resolves with the task's next event. Without events, polling alone tells. */
function watchEvents(client: ControlClient, id: string, options: SubmitOptions, signal: AbortSignal): { changed(): Promise<void> } {
  let wake: () => void = () => {}
  let next = new Promise<void>((resolve) => {
    wake = resolve
  })
  async function watch(): Promise<void> {
    for await (const { type, data } of client.events(signal)) {
      if (textOf(data, 'task_id') !== id) continue
      if (type === 'session.state_changed') {
        const session = textOf(data, 'session_id')
        say(
          options,
          { event: type, session_id: session, status: textOf(data, 'status') },
          `  ${session.slice(0, 17)}…  ${textOf(data, 'status')}`,
        )
      }
      if (type === 'task.completed' || type === 'task.updated') {
        wake()
        next = new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  }
  void watch().catch(() => {})
  return { changed: () => next }
}

async function readTask(client: ControlClient, id: string): Promise<{ readonly status: string } | null> {
  const reply = await client.get('/rollout/status')
  if (reply.status !== 200 || typeof reply.body !== 'object' || reply.body === null || !('tasks' in reply.body)) return null
  const status = textOf(reply.body.tasks, id)
  return status === '' ? null : { status }
}

async function report(client: ControlClient, id: string, status: string, options: SubmitOptions): Promise<ExitCode> {
  const reply = await client.get(`/tasks/${encodeURIComponent(id)}/sessions`)
  const sessions = rowsOf(reply.body)
  for (const session of sessions) {
    const { session_id, outcome, reward, error } = session
    say(
      options,
      { event: 'session', ...session },
      `${session_id}  ${outcome ?? session.status}  reward ${reward ?? '–'}${error === null ? '' : `  (${error})`}`,
    )
  }
  const solved = sessions.filter((session) => session.reward === 1).length
  say(
    options,
    { event: 'task', task_id: id, status, sessions: sessions.length, solved },
    `task ${id} ${status}: ${sessions.length} sessions, ${solved} with reward 1`,
  )
  return status === 'completed' ? EXIT.ok : EXIT.failed
}

function rowsOf(body: unknown): readonly SessionRow[] {
  if (typeof body !== 'object' || body === null || !('sessions' in body) || !Array.isArray(body.sessions)) return []
  return body.sessions as SessionRow[] // our own API's shape, as tested there
}

function textOf(value: unknown, key: string): string {
  if (typeof value !== 'object' || value === null) return ''
  const found: unknown = Reflect.get(value, key)
  return typeof found === 'string' ? found : ''
}

function say(options: { readonly json?: boolean }, record: Readonly<Record<string, unknown>>, line: string): void {
  process.stdout.write(`${options.json === true ? JSON.stringify(record) : line}\n`)
}

/** The timer holds the process open: without events nothing else does between two looks. */
async function newsWithin(news: { changed(): Promise<void> }, ms: number): Promise<void> {
  const pause = Promise.withResolvers<void>()
  const timer = setTimeout(pause.resolve, ms)
  await Promise.race([news.changed(), pause.promise])
  clearTimeout(timer)
}

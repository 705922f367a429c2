// `polar submit`: sends a task, follows its sessions, says how each ended.
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { parse as parseYaml } from 'yaml'
import type { ControlClient, ControlEvent } from './control-client.ts'
import { counted } from './counted.ts'
import { describeDelivery } from './delivery.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { ignoredKeys } from './ignored-keys.ts'
import { hearInterrupts } from './interrupts.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type SubmitOptions = TargetOptions & {
  readonly json?: boolean
  readonly wait: boolean
  /** Seconds between two looks at a task that reports nothing. */
  readonly pollInterval: number
}

type SessionRow = {
  readonly session_id: string
  readonly attempt: number
  readonly status: string
  readonly outcome: string | null
  readonly reward: number | null
  readonly error: string | null
}

type Events = AsyncIterable<ControlEvent>

const EVENTS_WITHIN_MS = 2_000
const LAST_EVENTS_MS = 500
const DELIVERY_LOOKS = 4
const ENDED = new Set(['completed', 'failed', 'cancelled'])

export async function runSubmit(file: string, options: SubmitOptions): Promise<number> {
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
  const stop = new AbortController()
  try {
    // Before the task is there: a short one would be over before its first event is heard.
    const events = options.wait ? await eventsSoon(client, stop.signal) : null
    return await submit(task, client, events, options)
  } finally {
    stop.abort()
  }
}

async function submit(task: unknown, client: ControlClient, events: Events | null, options: SubmitOptions): Promise<number> {
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
  return follow(client, id, ENDED.has(status) ? null : events, options)
}

/** The node understood the task and will not have it, now or later. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 404 && status !== 429
}

/** A node that does not answer here is not waited for: looking at the task tells everything in the end. */
async function eventsSoon(client: ControlClient, signal: AbortSignal): Promise<Events | null> {
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(late.resolve, EVENTS_WITHIN_MS, null)
  const events = await Promise.race([client.openEvents(signal), late.promise])
  clearTimeout(timer)
  return events
}

async function follow(client: ControlClient, id: string, events: Events | null, options: SubmitOptions): Promise<number> {
  const news = openNews()
  const interrupts = hearInterrupts()
  interrupts.signal.addEventListener('abort', () => {
    // A second signal ends this process by itself, also while the node does not answer.
    interrupts.ignore()
    news.tell()
  })
  // A stream that breaks leaves the looks.
  const printed = events === null ? Promise.resolve() : printEvents(events, id, options, news.tell).catch(() => {})
  for (;;) {
    const row = await readTask(client, id)
    const interrupted = interrupts.code()
    if (interrupted !== null) {
      process.stderr.write(`polar: interrupted: task ${id} goes on; 'polar status ${id}' shows it, 'polar cancel ${id}' ends it\n`)
      return interrupted
    }
    if (row === null) return endWith(EXIT.unreachable, `task ${id} can no longer be read at ${client.url}`)
    if (ENDED.has(row.status)) {
      await Promise.race([printed, delay(LAST_EVENTS_MS, undefined, { ref: false })])
      return report(client, id, row.status, options)
    }
    await news.within(options.pollInterval * 1000)
  }
}

/** Until the task has ended. */
async function printEvents(events: Events, id: string, options: SubmitOptions, tell: () => void): Promise<void> {
  for await (const { type, data } of events) {
    if (textOf(data, 'task_id') !== id) continue
    if (type === 'session.state_changed') {
      const [session, status, attempt] = [textOf(data, 'session_id'), textOf(data, 'status'), attemptOf(data)]
      say(
        options,
        { event: type, session_id: session, status, attempt },
        `  ${session.slice(0, 17)}…  ${status}${describeAttempt(attempt)}`,
      )
    }
    if (type === 'task.completed' || type === 'task.updated') tell()
    if (type === 'task.completed') return
  }
}

/** One reader, who hears also of what was told while it did not listen. */
function openNews(): { tell(): void; within(ms: number): Promise<void> } {
  let isTold = false
  let wake: () => void = () => {}
  return {
    tell() {
      isTold = true
      wake()
    },
    async within(ms) {
      // The timer holds the process open: without events nothing else does between two looks.
      const timer = setTimeout(() => wake(), ms)
      if (!isTold) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      isTold = false
      clearTimeout(timer)
    },
  }
}

function describeAttempt(attempt: number): string {
  return attempt > 1 ? `  (attempt ${attempt})` : ''
}

function attemptOf(data: unknown): number {
  return typeof data === 'object' && data !== null && 'attempt' in data ? Number(data.attempt) : 1
}

async function readTask(client: ControlClient, id: string): Promise<{ readonly status: string } | null> {
  const reply = await client.get('/rollout/status')
  if (reply.status !== 200 || typeof reply.body !== 'object' || reply.body === null || !('tasks' in reply.body)) return null
  const status = textOf(reply.body.tasks, id)
  return status === '' ? null : { status }
}

async function report(client: ControlClient, id: string, status: string, options: SubmitOptions): Promise<ExitCode> {
  const read = async (): Promise<unknown> => (await client.get(`/tasks/${encodeURIComponent(id)}/sessions`)).body
  const body = await read()
  const sessions = rowsOf(body)
  for (const session of sessions) {
    const { session_id, attempt, outcome, reward, error } = session
    say(
      options,
      { event: 'session', ...session },
      `${session_id}${describeAttempt(attempt)}  ${outcome ?? session.status}  reward ${reward ?? '–'}${error === null ? '' : `  (${error})`}`,
    )
  }
  let delivery = textOf(body, 'delivery')
  // Most trainers take a result at once: one interval is enough to see it.
  for (let look = 0; look < DELIVERY_LOOKS && delivery === 'pending'; look += 1) {
    await delay((options.pollInterval * 1000) / DELIVERY_LOOKS)
    delivery = textOf(await read(), 'delivery')
  }
  const callback = describeDelivery(delivery)
  const solved = sessions.filter((session) => session.reward === 1)
  const completed = sessions.filter((session) => session.status === 'COMPLETED').length
  say(
    options,
    {
      event: 'task',
      task_id: id,
      status,
      sessions: sessions.length,
      completed,
      solved: solved.length,
      solved_sessions: solved.map(({ session_id: name }) => name),
      delivery,
    },
    [
      `task ${id} ${status}: ${counted(sessions.length, 'session')}, ${solved.length} with reward 1${callback === null ? '' : `; callback ${callback}`}`,
      `completed sessions: ${completed}/${sessions.length}`,
      `sessions with reward 1.0: ${solved.length === 0 ? 'none' : solved.map(({ session_id: name }) => name).join(', ')}`,
    ].join('\n'),
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

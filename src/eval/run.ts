// Runs a plan on a node: a bounded number of tasks at a time, each submitted again only where the node does not know it.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { PlannedTask } from './plan.ts'
import type { Vote } from './report.ts'

/** The control API of the node, as far as an evaluation asks it. */
export type EvalControl = {
  get(path: string): Promise<EvalReply>
  post(path: string, body: unknown): Promise<EvalReply>
}

type EvalReply = { readonly status: number; readonly body: unknown; readonly detail: string }

export type RunOptions = {
  /** Tasks at a time. */
  readonly concurrency: number
  /** Between two looks at a task of which nothing is heard; asked for each. */
  readonly pollMs: () => number
  readonly signal: AbortSignal
  /** Hears of each task that has ended, before the next one begins in its place. */
  readonly ended: (task: PlannedTask, votes: readonly Vote[]) => Promise<void>
}

export type Ran = { readonly ok: true } | { readonly ok: false; readonly isRefusal: boolean; readonly problem: string }

/** Wakes whoever waits for a task. */
export type Bell = {
  ring(id: string): void
  ringAll(): void
  wait(id: string, ms: number, signal: AbortSignal): Promise<void>
}

const MAX_SUBMITS = 3
const MAX_SILENCES = 5
const RETRY_MS = 1_000

/** The first problem ends it all: the node goes on with what it has, and the next run of the same plan finds it. Rejects when aborted. */
export async function runEval(control: EvalControl, tasks: readonly PlannedTask[], bell: Bell, options: RunOptions): Promise<Ran> {
  const waiting = tasks.values()
  const over = new AbortController()
  const signal = AbortSignal.any([options.signal, over.signal])
  const problems: Extract<Ran, { ok: false }>[] = []
  const work = async (): Promise<void> => {
    // One iterator for all of them: each takes the next task.
    for (const task of waiting) {
      const ran = await runTask(control, task, bell, { ...options, signal })
      if (ran.ok) await options.ended(task, ran.votes)
      else {
        problems.push(ran)
        over.abort()
        return
      }
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: Math.min(options.concurrency, tasks.length) }, work))
  options.signal.throwIfAborted()
  const [problem] = problems
  if (problem !== undefined) return problem
  const broken = ended.find((one) => one.status === 'rejected')
  if (broken !== undefined) throw broken.reason
  return { ok: true }
}

type TaskRan = { readonly ok: true; readonly votes: readonly Vote[] } | Extract<Ran, { ok: false }>

async function runTask(control: EvalControl, task: PlannedTask, bell: Bell, { pollMs, signal }: RunOptions): Promise<TaskRan> {
  for (let submits = 0; submits < MAX_SUBMITS; submits += 1) {
    const refusal = await submit(control, task, signal)
    if (refusal !== null) return refusal
    const found = await follow(control, task, bell, pollMs, signal)
    // A node that was started again knows of nothing.
    if (found !== 'unknown') return found
  }
  return { ok: false, isRefusal: false, problem: `the node forgot task ${task.name} (${task.id}) ${MAX_SUBMITS} times` }
}

async function submit(control: EvalControl, task: PlannedTask, signal: AbortSignal): Promise<Extract<Ran, { ok: false }> | null> {
  for (let silences = 0; ; ) {
    const reply = await control.post('/rollout/task/submit', task.request)
    if (reply.status === 200) return null
    const problem = `task ${task.name} was not accepted: ${reply.detail}`
    if (reply.status >= 400 && reply.status < 500 && reply.status !== 429) return { ok: false, isRefusal: reply.status !== 404, problem }
    if (reply.status !== 429) silences += 1
    if (silences > MAX_SILENCES) return { ok: false, isRefusal: false, problem }
    await delay(RETRY_MS, undefined, { signal })
  }
}

const sessionsSchema = z.object({
  status: z.string(),
  sessions: z.array(
    z.object({
      session_id: z.string(),
      status: z.string(),
      outcome: z.string().nullable(),
      reward: z.number().nullable(),
      error: z.string().nullable(),
    }),
  ),
})

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

/** Until the task has ended: its sessions in sample order. */
async function follow(control: EvalControl, task: PlannedTask, bell: Bell, pollMs: () => number, signal: AbortSignal) {
  for (let silences = 0; ; ) {
    signal.throwIfAborted()
    const reply = await control.get(`/tasks/${encodeURIComponent(task.id)}/sessions`)
    const read = sessionsSchema.safeParse(reply.body)
    if (reply.status === 404) return 'unknown' as const
    if (reply.status === 200 && read.success) {
      silences = 0
      if (ENDED.has(read.data.status)) return { ok: true, votes: read.data.sessions.map(voteOf) } as const
    } else {
      silences += 1
      const problem = `task ${task.name} can no longer be read: ${reply.detail || 'its sessions have another shape'}`
      if (silences > MAX_SILENCES) return { ok: false, isRefusal: false, problem } as const
    }
    await bell.wait(task.id, silences === 0 ? pollMs() : Math.min(RETRY_MS, pollMs()), signal)
  }
}

function voteOf({ session_id: session, status, outcome, reward, error }: z.infer<typeof sessionsSchema>['sessions'][number]): Vote {
  return { session, status, outcome, reward, error }
}

/** A bell that rang before anybody waited has rung: the next one who waits for it goes on at once. Only these ids have one. */
export function openBell(ids: ReadonlySet<string>): Bell {
  const rung = new Set<string>()
  const wakes = new Map<string, () => void>()
  return {
    ring(id) {
      const wake = wakes.get(id)
      if (wake !== undefined) wake()
      else if (ids.has(id)) rung.add(id)
    },
    ringAll() {
      for (const wake of wakes.values()) wake()
    },
    async wait(id, ms, signal) {
      if (rung.delete(id)) return
      const heard = new Promise<void>((resolve) => wakes.set(id, resolve))
      const timer = new AbortController()
      await Promise.race([heard, delay(ms, undefined, { signal: AbortSignal.any([signal, timer.signal]) })]).finally(() => {
        wakes.delete(id)
        timer.abort()
      })
    },
  }
}

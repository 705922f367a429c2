// Runs the tasks on a node: submits them, follows every session to its end, and reads what came of it.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { Control, ControlReply } from './control.ts'
import type { HarnessRun } from './drift-report.ts'
import { readSessions, taskResultsSchema } from './drift-results.ts'
import { type DriftTask, requestFor } from './drift-tasks.ts'
import { plain } from './drift-text.ts'
import { readReadiness } from './engine-readiness.ts'
import type { Look } from './harness-choice.ts'

const LOOK_EVERY_MS = 200
/** A run that says nothing for so long says what it waits for. */
const SILENCE_MS = 15_000

export type DriftPlan = {
  readonly looks: readonly Look[]
  /** The name under which agents ask for the model; null leaves it to the harness. */
  readonly model: string | null
  readonly samples: number
}

export type Ran =
  | { readonly ok: true; readonly runs: readonly HarnessRun[] }
  /** `isRefusal`: the node understood a task and will not have it. */
  | { readonly ok: false; readonly isRefusal: boolean; readonly problem: string }

type Submitted = { readonly harness: string; readonly task: DriftTask; readonly id: string }
type Progress = (line: string) => void

/** `progress` hears of every session that ends. Rejects when `signal` aborts; the sessions are then the node's to end. */
export async function runTasks(control: Control, plan: DriftPlan, progress: Progress, signal: AbortSignal): Promise<Ran> {
  const { looks, model, samples } = plan
  const submitted: Submitted[] = []
  for (const { harness, tasks } of looks) {
    for (const task of tasks) {
      const request = requestFor(task, harness, model, samples)
      const reply = await control.post('/rollout/task/submit', request)
      if (reply.status !== 200)
        return { ok: false, isRefusal: reply.status === 422, problem: `task ${task.name} for ${harness} was not accepted: ${reply.detail}` }
      submitted.push({ harness, task, id: String(request.task_id) })
    }
  }
  const total = submitted.length * samples
  progress(`${total} sessions: ${looks.map(({ harness, tasks }) => `${harness} × ${tasks.map(({ name }) => name).join(', ')}`).join('; ')}`)
  const problem = await follow(control, submitted, total, progress, signal)
  return problem === null ? collect(control, looks, submitted) : { ok: false, isRefusal: false, problem }
}

/** Until every session has ended: null; or until no engine has been there for so long that those that wait for one would wait for ever. */
async function follow(
  control: Control,
  submitted: readonly Submitted[],
  total: number,
  progress: Progress,
  signal: AbortSignal,
): Promise<string | null> {
  const ended = new Set<string>()
  let saidAtMs = performance.now()
  let isForsaken = false
  for (;;) {
    signal.throwIfAborted()
    const states = await Promise.all(submitted.map(async (of) => ({ of, ...(await readState(control, of)) })))
    for (const { of, sessions } of states) {
      for (const { session_id, outcome, error } of sessions) {
        if (outcome === null || ended.has(session_id)) continue
        ended.add(session_id)
        saidAtMs = performance.now()
        progress(`${ended.size}/${total}  ${describe(of)}: ${outcome}${error === null ? '' : ` (${plain(error)})`}`)
      }
    }
    const open = states.filter(({ hasEnded }) => !hasEnded).map(({ of }) => describe(of))
    if (open.length === 0) return null
    if (performance.now() - saidAtMs > SILENCE_MS) {
      const readiness = await readReadiness(control)
      if (readiness.type === 'unfit' && isForsaken) return readiness.problem
      isForsaken = readiness.type === 'unfit'
      saidAtMs = performance.now()
      progress(`still waiting for ${open.join(', ')}${readiness.type === 'unfit' ? `: ${plain(readiness.problem)}` : ''}`)
    }
    await delay(LOOK_EVERY_MS, undefined, { signal })
  }
}

async function collect(control: Control, looks: readonly Look[], submitted: readonly Submitted[]): Promise<Ran> {
  const sessions = new Map<string, HarnessRun['sessions'][number][]>(looks.map(({ harness }) => [harness, []]))
  for (const of of submitted) {
    const reply = await control.get(`/rollout/task/${encodeURIComponent(of.id)}`)
    const parsed = taskResultsSchema.safeParse(reply.body)
    if (!parsed.success) {
      const problem = `the result of ${describe(of)} cannot be read: ${reply.detail || parsed.error.message}`
      return { ok: false, isRefusal: false, problem }
    }
    sessions.get(of.harness)?.push(...readSessions(of.task.name, parsed.data))
  }
  return { ok: true, runs: [...sessions].map(([harness, found]) => ({ harness, sessions: found })) }
}

const sessionsSchema = z.object({
  status: z.string(),
  sessions: z.array(z.object({ session_id: z.string(), outcome: z.string().nullable(), error: z.string().nullable() })),
})

async function readState(control: Control, { id }: Submitted) {
  const { body }: ControlReply = await control.get(`/tasks/${encodeURIComponent(id)}/sessions`)
  const parsed = sessionsSchema.safeParse(body)
  // A node that is too busy to answer this time will the next.
  return parsed.success
    ? { hasEnded: parsed.data.status !== 'running' && parsed.data.status !== 'cancelling', sessions: parsed.data.sessions }
    : { hasEnded: false, sessions: [] }
}

const describe = ({ harness, task }: Submitted): string => `${harness} ${task.name}`

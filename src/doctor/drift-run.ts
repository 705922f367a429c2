// Runs the tasks on a node: waits for its engines, submits, follows every session to its end, and reads what came of it.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { HarnessRun } from './drift-report.ts'
import { readSessions, taskResultsSchema } from './drift-results.ts'
import { type DriftTask, requestFor } from './drift-tasks.ts'
import { plain } from './drift-text.ts'
import type { Look } from './harness-choice.ts'

/** The node's control API, as far as it is needed here. */
export type Control = {
  get(path: string): Promise<ControlReply>
  post(path: string, body: unknown): Promise<ControlReply>
}
type ControlReply = { readonly status: number; readonly body: unknown; readonly detail: string }

const READY_MS = 60_000
const LOOK_EVERY_MS = 200

const replicaSchema = z.object({
  id: z.string(),
  role: z.string().nullish(),
  url: z.string(),
  state: z.string(),
  tier: z.string().nullable(),
  detail: z.string().nullish(),
  logprob_mode: z.string(),
  max_model_len: z.number().nullable(),
})
const nodesSchema = z.array(z.object({ node_id: z.string(), replicas: z.array(replicaSchema) }))

export type FoundReplica = z.infer<typeof replicaSchema>
export type Readiness =
  | { readonly type: 'ready'; readonly replica: FoundReplica }
  | { readonly type: 'waiting'; readonly detail: string }
  | { readonly type: 'unfit'; readonly problem: string }

/** What the node's engines allow: ready when there is one whose tokens can be trained, and none that sessions would be refused by. */
export function readinessOf(nodes: z.infer<typeof nodesSchema>): Readiness {
  const replicas = nodes.flatMap((node) => node.replicas)
  const workers = replicas.filter(({ role }) => role !== 'router')
  const lacking = workers.find(({ state, tier }) => state === 'up' && tier === 'eval')
  if (lacking !== undefined) {
    const why = lacking.detail == null ? '' : `: ${lacking.detail}`
    return { type: 'unfit', problem: `the engine at ${lacking.url} does not give what training needs, token ids and logprobs${why}` }
  }
  const waiting = replicas.filter(({ state }) => state === 'unprobed' || state === 'paused')
  const serving = workers.find(({ state, tier }) => state === 'up' && tier === 'train')
  if (waiting.length === 0 && serving !== undefined) return { type: 'ready', replica: serving }
  const down = replicas.filter(({ state }) => state === 'down')
  if (down.length > 0 && down.length === replicas.length) {
    const told = down.map(({ url, detail }) => `${url}: ${detail ?? 'no answer'}`)
    return { type: 'unfit', problem: `no engine can be reached: ${told.join('; ')}` }
  }
  const told = waiting.map(({ url, state }) => `${url} is ${state}`)
  return { type: 'waiting', detail: told.length === 0 ? 'there is no engine yet' : told.join(', ') }
}

export type Awaited = { readonly ok: true; readonly replica: FoundReplica } | { readonly ok: false; readonly problem: string }

/** Rejects when `signal` aborts. */
export async function awaitEngines(control: Control, signal: AbortSignal): Promise<Awaited> {
  const until = performance.now() + READY_MS
  for (;;) {
    const reply = await control.get('/nodes')
    const nodes = nodesSchema.safeParse(reply.body)
    if (!nodes.success) return { ok: false, problem: `the node does not say what its engines are: ${reply.detail}` }
    const readiness = readinessOf(nodes.data)
    if (readiness.type === 'ready') return { ok: true, replica: readiness.replica }
    if (readiness.type === 'unfit') return { ok: false, problem: readiness.problem }
    if (performance.now() > until) return { ok: false, problem: `no engine was ready after ${READY_MS / 1000} s: ${readiness.detail}` }
    await delay(LOOK_EVERY_MS, undefined, { signal })
  }
}

export type DriftPlan = {
  readonly looks: readonly Look[]
  /** The name under which agents ask for the model; null leaves it to the harness. */
  readonly model: string | null
  readonly samples: number
}

type Submitted = { readonly harness: string; readonly task: DriftTask; readonly id: string }
export type Ran =
  | { readonly ok: true; readonly runs: readonly HarnessRun[] }
  /** `isRefusal`: the node understood a task and will not have it. */
  | { readonly ok: false; readonly isRefusal: boolean; readonly problem: string }

/** `progress` hears a line for every session that ends. Rejects when `signal` aborts; the sessions are then the node's to end. */
export async function runTasks(
  control: Control,
  { looks, model, samples }: DriftPlan,
  progress: (line: string) => void,
  signal: AbortSignal,
): Promise<Ran> {
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
  const told = new Set<string>()
  for (;;) {
    signal.throwIfAborted()
    const lists = await Promise.all(submitted.map(({ id }) => control.get(`/tasks/${encodeURIComponent(id)}/sessions`)))
    const states = lists.map((reply, at) => ({ of: submitted[at], ...readState(reply) }))
    for (const { of, sessions } of states) {
      for (const { session_id, outcome, error } of sessions) {
        if (outcome === null || told.has(session_id)) continue
        told.add(session_id)
        progress(`${told.size}/${total}  ${of?.harness} ${of?.task.name}: ${outcome}${error === null ? '' : ` (${plain(error)})`}`)
      }
    }
    if (states.every(({ hasEnded }) => hasEnded)) break
    await delay(LOOK_EVERY_MS, undefined, { signal })
  }
  return collect(control, looks, submitted)
}

async function collect(control: Control, looks: readonly Look[], submitted: readonly Submitted[]): Promise<Ran> {
  const sessions = new Map<string, HarnessRun['sessions'][number][]>(looks.map(({ harness }) => [harness, []]))
  for (const { harness, task, id } of submitted) {
    const reply = await control.get(`/rollout/task/${encodeURIComponent(id)}`)
    const parsed = taskResultsSchema.safeParse(reply.body)
    if (!parsed.success)
      return {
        ok: false,
        isRefusal: false,
        problem: `the result of task ${task.name} for ${harness} cannot be read: ${reply.detail || parsed.error.message}`,
      }
    sessions.get(harness)?.push(...readSessions(task.name, parsed.data))
  }
  return { ok: true, runs: [...sessions].map(([harness, found]) => ({ harness, sessions: found })) }
}

const sessionsSchema = z.object({
  status: z.string(),
  sessions: z.array(z.object({ session_id: z.string(), outcome: z.string().nullable(), error: z.string().nullable() })),
})

function readState({ body }: ControlReply) {
  const parsed = sessionsSchema.safeParse(body)
  // A node that is too busy to answer this time will the next.
  return parsed.success
    ? { hasEnded: parsed.data.status !== 'running' && parsed.data.status !== 'cancelling', sessions: parsed.data.sessions }
    : { hasEnded: false, sessions: [] }
}

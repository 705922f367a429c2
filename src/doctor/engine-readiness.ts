// Whether the node's engines can serve what is to be looked at, and waiting until they can.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { Control } from './control.ts'

const READY_MS = 60_000
const LOOK_EVERY_MS = 200
/** Most engines answer their probe sooner; those that wait are told why. */
const TELL_AFTER_MS = 3_000

const replicaSchema = z.object({
  role: z.string().nullish(),
  url: z.string(),
  state: z.string(),
  tier: z.string().nullable(),
  detail: z.string().nullish(),
  logprob_mode: z.string(),
  max_model_len: z.number().nullable(),
})
const nodesSchema = z.array(z.object({ replicas: z.array(replicaSchema) }))

export type FoundReplica = z.infer<typeof replicaSchema>
export type Readiness =
  | { readonly type: 'ready'; readonly replica: FoundReplica }
  | { readonly type: 'waiting'; readonly detail: string }
  | { readonly type: 'unfit'; readonly problem: string }

/** Ready when there is an engine whose tokens can be trained, and none that would be refused to sessions. */
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

export async function readReadiness(control: Control): Promise<Readiness> {
  const reply = await control.get('/nodes')
  const nodes = nodesSchema.safeParse(reply.body)
  return nodes.success
    ? readinessOf(nodes.data)
    : { type: 'unfit', problem: `the node does not say what its engines are: ${reply.detail || nodes.error.message}` }
}

export type Awaited = { readonly ok: true; readonly replica: FoundReplica } | { readonly ok: false; readonly problem: string }

/** `progress` hears what is waited for. Rejects when `signal` aborts. */
export async function awaitEngines(control: Control, progress: (line: string) => void, signal: AbortSignal): Promise<Awaited> {
  const begun = performance.now()
  let isTold = false
  for (;;) {
    const readiness = await readReadiness(control)
    if (readiness.type === 'ready') return { ok: true, replica: readiness.replica }
    if (readiness.type === 'unfit') return { ok: false, problem: readiness.problem }
    const waitedMs = performance.now() - begun
    if (waitedMs > READY_MS) return { ok: false, problem: `no engine was ready after ${READY_MS / 1000} s: ${readiness.detail}` }
    if (waitedMs > TELL_AFTER_MS && !isTold) {
      isTold = true
      progress(`waiting for an engine: ${readiness.detail}`)
    }
    await delay(LOOK_EVERY_MS, undefined, { signal })
  }
}

// The replicas of one gateway thread in virtual time: engines and routers that do as the test says, and every connection counted.
import { Buffer } from 'node:buffer'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import type { ReplicaChange } from '../../src/contract/replica.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import type { ReplicaConfig, ReplicaView } from '../../src/proxy/boundary.ts'
import type { Transport, TransportReply } from '../../src/proxy/engines/transport.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import { type Lease, openPool, type Pool } from '../../src/proxy/pool/pool.ts'
import { openReplicaSet, type ReplicaSet } from '../../src/proxy/pool/replica-set.ts'
import type { ReplicaLimits } from '../../src/proxy/pool/state.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'
import { countTimers } from './counted-timers.ts'
import { completionBody } from './proxy-fixture.ts'

/** What stands at one URL; changed while it runs. */
type Host = {
  isUp: boolean
  /** Takes requests and answers none. */
  hangs: boolean
  /** Whether ids come back with a generation. */
  trains: boolean
  model: string
  maxModelLen: number
  /** What a router answers, by path; other paths are 404. Null: an engine. */
  lists: Readonly<Record<string, unknown>> | null
  /** Every request it was sent, with the rank it named. */
  readonly asked: { readonly path: string; readonly rank: string | null }[]
  /** Answers what hangs, and hangs no more. */
  thaw(): void
  connections: number
}

type HangingHost = Host & { readonly hung: Set<() => void> }

export type Call = {
  /** `waiting`, the id of the replica on which it has its place, or why it got none. */
  place(): string
  release(outcome?: Parameters<Lease['release']>[0]): void
  abort(): void
}

export type Replicas = {
  readonly world: World
  readonly kernel: Kernel
  readonly pool: Pool
  readonly set: ReplicaSet
  /** Whether any replica serves, each time that changed. */
  readonly serving: readonly boolean[]
  /** What a router's list has changed. */
  readonly reports: readonly string[]
  /** Timers that are still to come. */
  timers(): number
  host(url: string): Host
  /** An engine unless told otherwise. */
  add(id: string, url: string, config?: Partial<ReplicaConfig>): ReplicaChange
  remove(id: string): ReplicaChange
  views(): Promise<readonly ReplicaView[]>
  /** `id state`, for each. */
  states(): Promise<readonly string[]>
  /** A call of a session asks for a place; everything that needs no time has happened when this resolves. */
  call(session: number, tier?: 'train' | 'eval'): Promise<Call>
  settle(): Promise<void>
  close(): Promise<void>
}

export const LIMITS: ReplicaLimits = { inFlight: 4, line: 8, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } }
export const ROUTER_READ_MS = { every: 5_000, deadline: 10_000 }

export function openReplicas({ seed = 1, limits = LIMITS, model = '' } = {}): Replicas {
  const world = openWorld({ seed })
  const scheduler = countTimers(world)
  const kernel = openKernel({ thread: threadId('gateway-0'), incarnation: 1, scheduler, random: world.random, peers: 0 })
  const hosts = new Map<string, HangingHost>()
  const serving: boolean[] = []
  const reports: string[] = []

  function host(url: string): HangingHost {
    const known = hosts.get(url)
    if (known !== undefined) return known
    const made: HangingHost = {
      hung: new Set(),
      thaw() {
        made.hangs = false
        for (const answerNow of made.hung) answerNow()
      },
      isUp: true,
      hangs: false,
      trains: true,
      model: 'policy',
      maxModelLen: 4_096,
      lists: null,
      asked: [],
      connections: 0,
    }
    hosts.set(url, made)
    return made
  }

  const transport: Transport = (url) => {
    const at = host(url)
    at.connections += 1
    return {
      async send({ path, headers, body }, signal) {
        at.asked.push({ path, rank: headers['x-data-parallel-rank'] ?? null })
        if (!at.isUp) return { ok: false, error: 'refused', detail: 'ECONNREFUSED' }
        if (!at.hangs) return answer(at, path, body)
        const { promise, resolve } = Promise.withResolvers<TransportReply>()
        signal.addEventListener('abort', () => resolve({ ok: false, error: 'aborted', detail: 'aborted' }), { once: true })
        at.hung.add(() => resolve(answer(at, path, body)))
        return promise
      },
      async close() {
        at.connections -= 1
      },
    }
  }

  const pool = openPool({
    kernel,
    model,
    profileOf: openProfiles([]),
    acquireDeadlineMs: 600_000,
    probeDeadlineMs: 60_000,
    onServing: (isServing) => serving.push(isServing),
  })
  const set = openReplicaSet({
    kernel,
    pool,
    transport,
    maxResponseBytes: 2 ** 20,
    engineOf: () => vllm,
    limits,
    routerReadMs: ROUTER_READ_MS,
    report: (event, { worker }) => reports.push(`${event} ${worker}`),
  })
  const settle = (): Promise<void> => world.advance(0)
  async function views(): Promise<readonly ReplicaView[]> {
    await settle()
    const asked = set.views()
    await settle()
    return asked
  }

  return {
    world,
    kernel,
    pool,
    set,
    serving,
    reports,
    timers: scheduler.timers,
    host,
    add: (id, url, config = {}) => set.add({ id: replicaId(id), url, engine: 'vllm', ...config }),
    remove: (id) => set.remove(replicaId(id)),
    views,
    async states() {
      return (await views()).map(({ id, state }) => `${id} ${state}`)
    },
    async call(session, tier = 'train') {
      const abort = new AbortController()
      let lease: Lease | null = null
      let place = 'waiting'
      void pool.acquire(sessionId(`${session}`), tier, new Set(), abort.signal).then((acquired) => {
        if (acquired.ok) lease = acquired.lease
        place = acquired.ok ? acquired.lease.replica.id : `${acquired.failure.code}: ${acquired.failure.message}`
      })
      await settle()
      return { place: () => place, release: (outcome = 'ok') => lease?.release(outcome, null), abort: () => abort.abort() }
    },
    settle,
    async close() {
      await set.close()
      await kernel.close()
    },
  }
}

function answer(at: Host, path: string, body: string | null): TransportReply {
  const reply = (status: number, value: unknown): TransportReply => ({
    ok: true,
    response: { status, headers: {}, body: Buffer.from(JSON.stringify(value)) },
  })
  if (at.lists !== null) return path in at.lists ? reply(200, at.lists[path]) : reply(404, { detail: 'Not Found' })
  if (path === '/v1/models') return reply(200, { data: [{ id: at.model, max_model_len: at.maxModelLen }] })
  if (path === '/v1/chat/completions' && body !== null) {
    const ids = [21, 22].slice(0, JSON.parse(body).max_tokens)
    const usage = { prompt_tokens: 2, completion_tokens: ids.length, total_tokens: 2 + ids.length }
    const alternatives = [{ token: 'other', logprob: -2.5 }]
    return reply(200, completionBody({ ids: at.trains ? ids : undefined, logprobs: ids.map(() => -0.5), usage, alternatives }))
  }
  if (path === '/tokenize') return reply(200, { count: 7 })
  return path === '/health' ? reply(200, {}) : reply(404, {})
}

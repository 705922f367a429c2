// Which inference servers a gateway thread has: entries that come and go, their ranks, and the workers of routers.
import { type ReplicaId, replicaId } from '../../contract/ids.ts'
import { MAX_REPLICAS, type ReplicaChange, shareOf } from '../../contract/replica.ts'
import type { Address } from '../../kernel/address.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { ReplicaConfig, ReplicaView } from '../boundary.ts'
import { within } from '../deadline.ts'
import type { Engine } from '../engines/engine.ts'
import type { Connection, Transport } from '../engines/transport.ts'
import { openEndpoints } from './endpoints.ts'
import type { Membership, Pool } from './pool.ts'
import { routerActor } from './router/actor.ts'
import type { RouterCommand, RouterStatus } from './router/protocol.ts'
import { readWorkers, type Worker, type WorkerList, workerKey } from './router/workers.ts'
import type { ReplicaLimits } from './state.ts'

export type ReplicaSetOptions = {
  readonly kernel: Kernel
  readonly pool: Pick<Pool, 'join' | 'views' | 'close'>
  readonly transport: Transport
  readonly maxResponseBytes: number
  readonly engineOf: (config: ReplicaConfig) => Engine
  readonly limits: ReplicaLimits
  /** How often a router is asked for its workers, and how long it may take to answer. */
  readonly routerReadMs: { readonly every: number; readonly deadline: number }
  /** Told what nobody asked for: workers that a router has and has no more. */
  readonly report: (event: string, detail: Readonly<Record<string, unknown>>) => void
}

export type ReplicaSet = {
  add(config: ReplicaConfig): ReplicaChange
  remove(id: ReplicaId): ReplicaChange
  /** Routers first, then engines in the order in which they joined. */
  views(): Promise<readonly ReplicaView[]>
  close(): Promise<void>
}

/** One entry of the operator's: an engine, an engine with ranks, or a router and its workers. */
type Entry = {
  readonly config: ReplicaConfig
  /** By URL and rank. */
  readonly members: Map<string, { readonly worker: Worker; readonly membership: Membership }>
  router: Router | null
}

type Router = { readonly address: Address<RouterCommand>; readonly connection: Connection; readonly stop: AbortController }

const VIEW_DEADLINE_MS = 1_000
const MAX_WORKERS = 256

export function openReplicaSet(options: ReplicaSetOptions): ReplicaSet {
  const { kernel, pool, routerReadMs } = options
  const endpoints = openEndpoints(options.transport, options.maxResponseBytes)
  const entries = new Map<ReplicaId, Entry>()
  let isClosed = false

  function joinMember(entry: Entry, worker: Worker, id: ReplicaId, sharers: number): void {
    const { config } = entry
    const { url, rank } = worker
    const { inFlight = options.limits.inFlight, line = options.limits.line } = config
    const membership = pool.join({
      id,
      url,
      rank,
      engine: options.engineOf(config),
      connection: endpoints.open(url, rank),
      limits: { ...options.limits, inFlight: shareOf(inFlight, sharers), line: shareOf(line, sharers) },
    })
    entry.members.set(workerKey(worker), { worker, membership })
  }

  /** The entry, other than this one, that calls the same server. */
  function holderOf({ url, rank }: Worker, but: Entry | null): Entry | null {
    for (const entry of entries.values()) {
      if (entry === but) continue
      if (entry.router !== null && entry.config.url === url) return entry
      for (const { worker } of entry.members.values()) {
        if (worker.url === url && (worker.rank === rank || worker.rank === null || rank === null)) return entry
      }
    }
    return null
  }

  function follow(entry: Entry): Router {
    const { id, url } = entry.config
    const connection = endpoints.open(url, null)
    const stop = new AbortController()
    const address = kernel.spawn(
      routerActor({
        id,
        everyMs: routerReadMs.every,
        read: async () =>
          ownWorkers(entry, await within(kernel.scheduler, routerReadMs.deadline, stop.signal, (cut) => readWorkers(connection, cut))),
        onJoined(worker) {
          options.report('worker-joined', { router: id, worker: workerKey(worker) })
          joinMember(entry, worker, workerId(id, worker), 1)
        },
        onLeft(worker) {
          options.report('worker-left', { router: id, worker: workerKey(worker) })
          leaveMember(entry, workerKey(worker))
        },
      }),
    )
    return { address, connection, stop }
  }

  /** A server that was named by itself is not called as a router's worker as well: its cap would count twice. */
  function ownWorkers(entry: Entry, list: WorkerList): WorkerList {
    if (list.type === 'unread') return list
    const workers: Worker[] = []
    const passed = [...list.passed]
    for (const worker of list.workers) {
      const holder = holderOf(worker, entry)
      if (holder !== null) passed.push(`${workerKey(worker)} is replica ${holder.config.id}`)
      else if (workers.length < MAX_WORKERS) workers.push(worker)
      else passed.push(`${workerKey(worker)} is one more than ${MAX_WORKERS}`)
    }
    return { type: 'listed', workers, passed }
  }

  function leaveMember(entry: Entry, key: string): void {
    void entry.members.get(key)?.membership.leave()
    entry.members.delete(key)
  }

  function stopRouter({ address, connection, stop }: Router): Promise<void> {
    stop.abort()
    kernel.stop(address)
    return connection.close()
  }

  async function viewOfRouter({ id, url, engine }: ReplicaConfig, { address }: Router): Promise<ReplicaView | null> {
    const answer = await kernel.ask<RouterCommand, RouterStatus>(address, (ask) => ({ type: 'read-router', ask }), VIEW_DEADLINE_MS)
    if (!answer.ok) return null
    return { id, url, engine, role: 'router', ...answer.value, ...NO_CALLS }
  }

  return {
    add(config) {
      const { id, url, ranks, router = false } = config
      if (isClosed) return { ok: false, error: 'closed', detail: 'the gateway is stopping' }
      if (!URL.canParse(url)) return { ok: false, error: 'invalid', detail: `${url} is no URL` }
      if (ranks !== undefined && ranks < 1) return { ok: false, error: 'invalid', detail: `${ranks} ranks are none` }
      if (entries.has(id)) return { ok: false, error: 'taken', detail: `there is a replica ${id} already` }
      const holder = holderOf({ url, rank: null }, null)
      if (holder !== null) return { ok: false, error: 'taken', detail: `${url} is replica ${holder.config.id} already` }
      if (entries.size >= MAX_REPLICAS) return { ok: false, error: 'full', detail: `a gateway has at most ${MAX_REPLICAS} replicas` }
      const entry: Entry = { config, members: new Map(), router: null }
      entries.set(id, entry)
      if (router) entry.router = follow(entry)
      else if (ranks === undefined) joinMember(entry, { url, rank: null }, id, 1)
      else for (let rank = 0; rank < ranks; rank += 1) joinMember(entry, { url, rank }, memberId(id, '', rank), ranks)
      return { ok: true }
    },
    remove(id) {
      const entry = entries.get(id)
      if (entry === undefined) {
        const whole = replicaId(id.split(/[@/]/, 1)[0] ?? '')
        return whole !== id && entries.has(whole)
          ? { ok: false, error: 'part', detail: `${id} is a part of replica ${whole}: remove that` }
          : { ok: false, error: 'unknown', detail: `there is no replica ${id}` }
      }
      entries.delete(id)
      if (entry.router !== null) void stopRouter(entry.router)
      for (const key of entry.members.keys()) leaveMember(entry, key)
      return { ok: true }
    },
    async views() {
      const routers = [...entries.values()].map(({ config, router }) => (router === null ? null : viewOfRouter(config, router)))
      const views = await Promise.all([...routers, pool.views()])
      return views.flat().filter((view) => view !== null)
    },
    async close() {
      isClosed = true
      await Promise.all([...entries.values()].map(({ router }) => (router === null ? null : stopRouter(router))))
      await pool.close()
    },
  }
}

const NO_CALLS = {
  tier: 'unknown',
  rank: null,
  inFlight: 0,
  maxInFlight: 0,
  waiting: 0,
  weightVersion: null,
  logprobMode: 'unknown',
  maxModelLen: null,
} as const

/** No id of an operator's holds a slash or an at sign, so a part's id is nobody else's. */
function workerId(router: ReplicaId, { url, rank }: Worker): ReplicaId {
  return memberId(router, `/${url.replace(/^https?:\/\//, '')}`, rank)
}

function memberId(id: ReplicaId, suffix: string, rank: number | null): ReplicaId {
  return replicaId(`${id}${suffix}${rank === null ? '' : `@${rank}`}`)
}

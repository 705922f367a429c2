// One inference server as its operator names it: under `replicas` in polar.yaml, or to the control API while the node runs.
import { z } from 'zod'
import type { EngineKind } from './call.ts'
import { httpUrl } from './http-url.ts'
import { type GatewayId, ID_PATTERN, type ReplicaId, replicaId } from './ids.ts'

export type ReplicaSpec = {
  readonly id: ReplicaId
  /** Without a trailing slash and without `/v1`. */
  readonly url: string
  readonly engine: EngineKind
  /** Of the whole node: divided among the gateways that send to it, then among its ranks. Of a router: for each of its workers. */
  readonly maxInFlight: number
  /** Calls that may wait for it, on each gateway. */
  readonly maxWaiting: number
  /** Ranks behind the one URL, each addressed by header; null: the server places calls itself. */
  readonly dataParallelRanks: number | null
  /** A router of SGLang's: it takes no call itself, its workers are addressed directly. */
  readonly isRouter: boolean
}

/** What became of an addition or a removal. */
export type ReplicaChange =
  | { readonly ok: true }
  | {
      readonly ok: false
      /** `invalid`: no such server can be; `taken`: its id or its URL is another's; `unknown`: no such id; `part`: of another id; `full`: as many as there may be. */
      readonly error: 'invalid' | 'taken' | 'unknown' | 'part' | 'full' | 'closed'
      readonly detail: string
    }

/** At one gateway; null when it does not answer. */
export type GatewayChange = { readonly gateway: GatewayId; readonly change: ReplicaChange | null }

export const MAX_REPLICAS = 64
const MAX_RANKS = 256

const count = z.int().min(1).max(1_000_000)
export const idSchema = z.string().regex(ID_PATTERN, 'must match [A-Za-z0-9][A-Za-z0-9_.-]{0,127}')
const MAX_URL_CHARS = 2_048
/** What stands in a URL beside its origin and path is never sent, and would be shown. */
export const engineUrlSchema = httpUrl
  .refine((url) => url.length <= MAX_URL_CHARS, `must have at most ${MAX_URL_CHARS} characters`)
  .refine((url) => hasNone(url, ['username', 'password']), 'must not hold a user name or password')
  .refine((url) => hasNone(url, ['search', 'hash']), 'must not hold a query or a fragment')
export const engineSchema = z.enum(['sglang', 'sglang-native', 'vllm', 'llamacpp'])

function hasNone(url: string, parts: readonly ('username' | 'password' | 'search' | 'hash')[]): boolean {
  if (!URL.canParse(url)) return true
  const parsed = new URL(url)
  return parts.every((part) => parsed[part] === '')
}

const shape = {
  url: engineUrlSchema,
  max_in_flight: count.default(64),
  max_waiting: count.default(256),
  data_parallel_ranks: z.int().min(1).max(MAX_RANKS).optional(),
  router: z.boolean().default(false),
}

/** A router that lists ranks is addressed by rank anyway. */
const ROUTER_RANKS = {
  path: ['data_parallel_ranks'],
  error: 'is not for a router: its workers are addressed by the ranks that it lists',
}
const fits = (entry: { readonly router: boolean; readonly data_parallel_ranks?: number | undefined }): boolean =>
  !entry.router || entry.data_parallel_ranks === undefined

/** Without an engine, the gateway's own kind holds. */
export const listedReplicaSchema = z.strictObject({ id: idSchema, engine: engineSchema.optional(), ...shape }).refine(fits, ROUTER_RANKS)

/** Without an id, its host and port become one. */
export const addedReplicaSchema = z
  .strictObject({ id: idSchema.optional(), engine: engineSchema, ...shape })
  .refine(fits, ROUTER_RANKS)
  .meta({ id: 'ReplicaRequest' })

export function replicaSpec(
  entry: z.output<typeof listedReplicaSchema> | z.output<typeof addedReplicaSchema>,
  engine: EngineKind,
): ReplicaSpec {
  const url = engineRoot(entry.url)
  return {
    id: replicaId(entry.id ?? idOf(url)),
    url,
    engine: entry.engine ?? engine,
    maxInFlight: entry.max_in_flight,
    maxWaiting: entry.max_waiting,
    dataParallelRanks: entry.data_parallel_ranks ?? null,
    isRouter: entry.router,
  }
}

/** A cap divided: nobody gets less than one place. */
export function shareOf(cap: number, sharers: number): number {
  return Math.max(1, Math.floor(cap / sharers))
}

/** Operators write the base URL with or without `/v1`; the engine's other routes hang off its root. One server, one spelling. */
function engineRoot(url: string): string {
  return new URL(url).href.replace(/\/+$/, '').replace(/\/v1$/, '')
}

function idOf(url: string): string {
  const text = url.replace(/^https?:\/\//, '').replace(/[^A-Za-z0-9_.-]+/g, '-')
  return text.replace(/^[^A-Za-z0-9]+|-+$/g, '').slice(0, 128) || 'replica'
}

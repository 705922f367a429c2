// One route of an engine: the engine as its routes know it, what a route is given, and what it answers.
import type { ServerResponse } from 'node:http'
import type { Scheduler } from '../../kernel/clock.ts'
import type { Complaint, ShapeName, WireShape } from '../wire/shape.ts'
import type { Reader, ReadRequest } from './asked.ts'
import type { Batch } from './batch.ts'
import type { Tally } from './metrics.ts'

/** An engine behind the shared HTTP side: everything but how it generates. */
export type ServedEngine = {
  /** Named where a real engine names its version. */
  readonly kind: 'scripted' | 'embedded'
  readonly shape: WireShape
  readonly shapeName: ShapeName
  /** The served name. */
  readonly model: string
  readonly batch: Batch
  readonly tally: Tally
  readonly scheduler: Scheduler
  /** Routes that only this engine has; they go before those of its shape. */
  readonly ownRoutes: Readonly<Record<string, Route>>
  /** What requests are read with from now on; null while weights are loaded, when nothing is served. */
  reader(): Reader | null
  weightVersion(): string
  setWeightVersion(version: string): void
  /** The part of the cache that running generations hold, from 0 to 1: what is only kept for later ones is free, as engines count it. */
  cacheUsage(): number
  /** Answers one request; resolves when its last byte was written or its client is gone. */
  serveGeneration(read: ReadRequest, incoming: IncomingGeneration, response: ServerResponse): Promise<void>
}

export type IncomingGeneration = {
  readonly path: string
  readonly body: unknown
  /** The data-parallel rank the request names, by header or in its body. */
  readonly rank: number | null
}

export type Reply = { readonly status: number; readonly json: unknown } | { readonly status: number; readonly text: string }

export type RouteInput = {
  readonly engine: ServedEngine
  readonly reader: Reader
  readonly query: URLSearchParams
  /** The parsed body; undefined without one. */
  readonly body: unknown
  readonly isLoopback: boolean
}

export type Route = (input: RouteInput) => Reply | Promise<Reply>

export const ok = (json: unknown): Reply => ({ status: 200, json })
export const empty: Reply = { status: 200, text: '' }
export const refused = (engine: ServedEngine, complaint: Complaint): Reply => ({
  status: complaint.status,
  json: engine.shape.error(complaint),
})
export const bad = (engine: ServedEngine, message: string, param: string | null): Reply => refused(engine, { status: 400, message, param })

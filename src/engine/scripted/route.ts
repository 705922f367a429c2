// One route of the engine: what it is given, and what it answers.
import type { ShapeName } from '../wire/shape.ts'
import type { GeneratingEngine } from './exchange.ts'

export type ServedEngine = GeneratingEngine & {
  readonly shapeName: ShapeName
  setWeightVersion(version: string): void
  isLoading(): boolean
}

export type Reply = { readonly status: number; readonly json: unknown } | { readonly status: number; readonly text: string }

export type RouteInput = {
  readonly engine: ServedEngine
  readonly query: URLSearchParams
  /** The parsed body; undefined without one. */
  readonly body: unknown
  readonly isLoopback: boolean
}

export type Route = (input: RouteInput) => Reply | Promise<Reply>

export const ok = (json: unknown): Reply => ({ status: 200, json })
export const empty: Reply = { status: 200, text: '' }
export const bad = (engine: ServedEngine, message: string, param: string | null): Reply => ({
  status: 400,
  json: engine.shape.error({ status: 400, message, param }),
})

// Sessions in Polar's words: one of them, and the rows of a gateway's list.
import type { GatewaySessionView, SessionAccess } from '../actors/gateway/protocol.ts'
import type { SessionView } from '../actors/rollout-server/protocol.ts'
import { API_TYPES } from '../contract/call.ts'
import type { RouteContext } from './control-api.ts'

type Shape = Readonly<Record<string, unknown>>

export function sessionHead(view: SessionView, calls: number): Shape {
  return {
    session_id: view.session,
    task_id: view.task,
    created_at: view.createdAtMs / 1_000,
    completion_count: calls,
    status: view.status,
    node_id: view.gateway,
    attempt: view.attempt,
  }
}

/** `access` null: the session is over, and its key with it. */
export function captureHead(
  view: SessionView,
  calls: number,
  access: SessionAccess | null,
  { modelUrl }: Pick<RouteContext, 'modelUrl'>,
): Shape {
  const base = access === null || view.gateway === null ? null : modelUrl(view.gateway, access.modelPort) + access.basePath
  return {
    session_id: view.session,
    task_id: view.task,
    created_at: view.createdAtMs / 1_000,
    completion_count: calls,
    status: access === null ? view.status : 'RUNNING',
    metadata: {
      polar_node: {
        node_id: view.gateway,
        api_key: access?.key ?? null,
        base_urls: base === null ? null : { openai: `${base}/v1`, anthropic: base, google: base },
      },
    },
  }
}

/** `live`: what its gateway says of it, while it holds it. */
export function gatewaySessionRow(view: SessionView, live: GatewaySessionView | undefined, wallMs: number): Shape {
  const ageMs = live?.ageMs ?? Math.max(0, wallMs - view.createdAtMs)
  // One that has ended has been idle since.
  const idleMs = live?.idleMs ?? Math.max(0, ageMs - (view.summary?.timing.e2e_ms ?? 0))
  const model = view.summary?.model ?? live?.model ?? null
  return {
    session_id: view.session,
    task_id: view.task,
    status: view.summary === null ? (live?.status ?? view.status) : view.status,
    age_seconds: ageMs / 1_000,
    idle_seconds: idleMs / 1_000,
    completion_count: view.summary?.calls ?? live?.calls ?? 0,
    model_requested: model?.requested ?? null,
    model_used: model?.used ?? null,
    api_type: model === null ? null : API_TYPES[model.dialect],
    created_at: view.createdAtMs / 1_000,
    node_id: view.gateway,
  }
}

// The rollout server's views in Polar's words.
import type { GatewaySnapshot, InferenceStatus } from '../actors/gateway/protocol.ts'
import type { GatewayView, SessionView, TaskView } from '../actors/rollout-server/protocol.ts'

/** Gateways live in this process: a heartbeat is every answer. Kept for clients that read it. */
const HEARTBEAT_INTERVAL_SECONDS = 30

export function taskRow(view: TaskView): Readonly<Record<string, unknown>> {
  return {
    task_id: view.task,
    status: view.status,
    harness: view.harness,
    model: view.model,
    num_samples: view.totalSessions,
    completed_sessions: view.completedSessions,
    errored_sessions: view.erroredSessions,
    mean_reward: view.meanReward,
    mean_traces: view.meanTraces,
    mean_completions: view.meanCalls,
    created_at: view.createdAtMs / 1_000,
    updated_at: view.updatedAtMs / 1_000,
    source: 'live',
    delivery: view.delivery,
    early_stop: earlyStop(view),
  }
}

export function sessionRow(view: SessionView): Readonly<Record<string, unknown>> {
  return {
    session_id: view.session,
    task_id: view.task,
    status: view.status,
    node_id: view.gateway,
    attempt: view.attempt,
    outcome: view.summary?.outcome ?? null,
    reward: view.summary?.reward ?? null,
    timing: view.summary?.timing ?? {},
    error: view.summary?.error ?? null,
    earlier_attempts: view.earlier.map(({ attempt, gateway, outcome, error }) => ({ attempt, node_id: gateway, outcome, error })),
  }
}

/** `snapshot` is null when the gateway does not answer. */
export function nodeInfo(
  view: GatewayView,
  snapshot: GatewaySnapshot | null,
  gatewayUrl: string,
  embeddedUrl: string | null,
  wallMs: number,
): Readonly<Record<string, unknown>> {
  return {
    node_id: view.gateway,
    gateway_url: gatewayUrl,
    max_init_workers: view.limits.maxInitWorkers,
    max_run_workers: view.limits.maxRunWorkers,
    max_postrun_workers: view.limits.maxPostrunWorkers,
    max_ready_sessions: view.limits.maxReadySessions,
    heartbeat_interval_seconds: HEARTBEAT_INTERVAL_SECONDS,
    metrics: stageMetrics(snapshot),
    dispatch_reservations: view.demand,
    sessions: view.sessions,
    healthy: view.healthy && snapshot !== null,
    draining: view.draining,
    last_heartbeat: snapshot === null ? null : wallMs / 1_000,
    model_port: snapshot?.modelPort ?? null,
    replicas: snapshot?.replicas.map((replica) => replicaInfo(replica, embeddedUrl)) ?? [],
  }
}

function stageMetrics(snapshot: GatewaySnapshot | null): Readonly<Record<string, number>> {
  const metrics = snapshot?.metrics
  return {
    init_queue_depth: metrics?.initQueueDepth ?? 0,
    init_inflight: metrics?.initInflight ?? 0,
    ready_depth: metrics?.readyDepth ?? 0,
    run_inflight: metrics?.runInflight ?? 0,
    postrun_queue_depth: metrics?.postrunQueueDepth ?? 0,
    postrun_inflight: metrics?.postrunInflight ?? 0,
  }
}

/** Polar's health of a gateway; `inference` is what a server said of its own. */
export function gatewayHealthInfo(snapshot: GatewaySnapshot, gatewayUrl: string, inference: unknown): Readonly<Record<string, unknown>> {
  const { limits, metrics, sessions } = snapshot
  const counts = new Map<string, number>()
  for (const { status } of sessions) counts.set(status, (counts.get(status) ?? 0) + 1)
  return {
    status: 'ok',
    node_id: snapshot.gateway,
    gateway_url: gatewayUrl,
    inference,
    metrics: stageMetrics(snapshot),
    active_status_counts: Object.fromEntries(counts),
    active_sessions: sessions.map(({ session, task, status, ageMs, idleMs }) => ({
      session_id: session,
      task_id: task,
      status,
      age_seconds: ageMs / 1_000,
      idle_seconds: idleMs / 1_000,
    })),
    available_init: Math.max(0, limits.maxInitWorkers - metrics.initInflight),
    available_run: Math.max(0, limits.maxRunWorkers - metrics.runInflight),
    available_postrun: Math.max(0, limits.maxPostrunWorkers - metrics.postrunInflight),
  }
}

/** Polar knows one server of a gateway: the first is named in its place. */
export function inferenceInfo({ gateway, paused, inFlight, waiting, replicas }: InferenceStatus, embeddedUrl: string | null) {
  const [first] = replicas
  return {
    paused,
    inflight: inFlight,
    base_url: first?.url ?? null,
    engine: first?.engine ?? null,
    metadata: { polar_node: { node_id: gateway, waiting, replicas: replicas.map((replica) => replicaInfo(replica, embeddedUrl)) } },
  }
}

/** `embeddedUrl`: where the embedded engine serves, if there is one. */
export function replicaInfo(replica: GatewaySnapshot['replicas'][number], embeddedUrl: string | null): Readonly<Record<string, unknown>> {
  return {
    id: replica.id,
    role: replica.role,
    url: replica.url,
    embedded: replica.url === embeddedUrl,
    data_parallel_rank: replica.rank,
    state: replica.state,
    tier: replica.tier,
    detail: replica.detail,
    logprob_mode: replica.logprobMode,
    in_flight: replica.inFlight,
    max_in_flight: replica.maxInFlight,
    waiting: replica.waiting,
    weight_version: replica.weightVersion,
    max_model_len: replica.maxModelLen,
  }
}

function earlyStop({ earlyStop: account }: TaskView): Readonly<Record<string, number>> | null {
  if (account === null) return null
  return {
    threshold: account.threshold,
    usable: account.usable,
    finished: account.finished,
    mean_finished_ms: account.meanFinishedMs,
    stopped_running: account.stoppedRunning,
    mean_stopped_ms: account.meanStoppedMs,
    stopped_waiting: account.stoppedWaiting,
  }
}

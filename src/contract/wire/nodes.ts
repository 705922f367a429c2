// Gateways: their places and their load.
import { z } from 'zod'
import { replicaInfo } from './replicas.ts'
import { count, unixSeconds } from './words.ts'

export const nodeStageMetrics = z
  .object({
    init_queue_depth: count,
    init_inflight: count,
    ready_depth: count,
    run_inflight: count,
    postrun_queue_depth: count,
    postrun_inflight: count,
  })
  .meta({ id: 'NodeStageMetrics', description: 'Sessions by stage.' })

const places = {
  max_init_workers: count,
  max_run_workers: count,
  max_postrun_workers: count,
}

export const gatewayNodeInfo = z
  .object({
    node_id: z.string(),
    gateway_url: z.string().describe("base of this gateway's own routes"),
    ...places,
    max_ready_sessions: count.describe('INIT and READY together'),
    heartbeat_interval_seconds: z.number(),
    metrics: nodeStageMetrics,
    dispatch_reservations: count.describe('READY places that are free and announced'),
    sessions: count.describe('dispatched to it and not yet ended'),
    healthy: z.boolean(),
    draining: z.boolean().describe('gets no new session, and is gone with its last'),
    last_heartbeat: unixSeconds.nullable().describe('seconds since 1970; null: it does not answer'),
    model_port: count.nullable().describe('where agents call the model'),
    replicas: z.array(replicaInfo),
  })
  .meta({ id: 'GatewayNodeInfo', description: 'One gateway.' })

export const nodeList = z.array(gatewayNodeInfo).meta({ id: 'NodeList' })

/** Polar's gateways write this; here they are in the same process, and it changes nothing but a drain. */
export const nodeRegistration = z
  .object({
    node_id: z.string(),
    gateway_url: z.string(),
    max_init_workers: z.int().min(1),
    max_run_workers: z.int().min(1),
    max_postrun_workers: z.int().min(1),
    heartbeat_interval_seconds: z.number().positive().default(30),
  })
  .meta({ id: 'NodeRegistration' })

/** A stage that is left out has nobody in it. */
export const nodeHeartbeat = z.object({ metrics: nodeStageMetrics.partial().default({}) }).meta({ id: 'NodeHeartbeat' })

export const health = z
  .object({
    status: z.literal('ok'),
    nodes: count,
    engine: z.literal('embedded').optional().describe('the node samples from a model of its own'),
  })
  .meta({ id: 'Health' })

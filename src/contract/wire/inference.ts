// What gateways say of their inference servers, and of themselves.
import { z } from 'zod'
import { nodeStageMetrics } from './nodes.ts'
import { replicaInfo } from './replicas.ts'
import { count, jsonObject, sessionStatus } from './words.ts'

export const gatewayRoot = z.object({ status: z.literal('ok'), service: z.literal('polar-gateway') }).meta({ id: 'GatewayRoot' })

export const gatewayHealth = z
  .object({
    status: z.literal('ok').describe('also while no inference server answers'),
    node_id: z.string(),
    gateway_url: z.string(),
    inference: jsonObject.describe('the health of its servers; `{status: "error", error}` while none serves'),
    metrics: nodeStageMetrics,
    active_status_counts: z.record(z.string(), count),
    active_sessions: z.array(
      z.object({
        session_id: z.string(),
        task_id: z.string(),
        status: sessionStatus,
        age_seconds: z.number(),
        idle_seconds: z.number(),
      }),
    ),
    available_init: count,
    available_run: count,
    available_postrun: count,
  })
  .meta({ id: 'GatewayHealth' })

const ofOneGateway = {
  paused: z.boolean(),
  inflight: count.describe('calls that generate now'),
  base_url: z.string().nullable().describe('of the first server'),
  engine: z.string().nullable().describe('of the first server: vllm, sglang, sglang-native or llamacpp'),
}

const ownStatus = z.object({
  node_id: z.string(),
  waiting: count.describe('calls that wait for a place, for a server, or for the end of a pause'),
  replicas: z.array(replicaInfo),
})

export const inferenceStatus = z
  .object({ ...ofOneGateway, metadata: z.object({ polar_node: ownStatus }) })
  .meta({ id: 'InferenceStatus', description: "The use of one gateway's inference servers." })

export const nodeInference = z
  .object({
    paused: z.boolean().describe('every gateway holds its calls'),
    inflight: count.describe('calls that generate now, of all gateways'),
    gateways: z.array(
      z.object({
        ...ofOneGateway,
        metadata: z.object({ polar_node: ownStatus }).optional(),
        node_id: z.string(),
        healthy: z.boolean().describe('false: it does not answer; `paused` is as it will be when it does again'),
      }),
    ),
  })
  .meta({ id: 'NodeInference', description: 'The inference of every gateway.' })

export const promptLength = z
  .object({ count: count.describe('tokens'), max_model_len: count.nullable() })
  .meta({ id: 'PromptLength', description: 'How long a prompt is, and may be.' })

// What gateways say of their inference servers, and of themselves.
import { z } from 'zod'
import { nodeStageMetrics } from './nodes.ts'
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

export const inferenceStatus = z
  .object({
    paused: z.boolean(),
    inflight: count.describe('calls that generate now'),
    base_url: z.string().nullable().describe('of the first server'),
    engine: z.string().nullable().describe('of the first server: vllm, sglang, sglang-native or llamacpp'),
  })
  .meta({ id: 'InferenceStatus' })

// The inference servers behind the gateways.
import { z } from 'zod'
import { count } from './words.ts'

export const replicaInfo = z
  .object({
    id: z.string(),
    role: z.string().describe('engine; router: it takes no call itself'),
    url: z.string(),
    embedded: z.boolean().describe("the node's own engine"),
    data_parallel_rank: count.nullable(),
    state: z.string().describe('up, down, paused, unprobed or removing'),
    tier: z.string().describe('train: its tokens may be trained; eval: they may not; unknown'),
    detail: z.string().nullable().describe('why it is down, of tier eval, or tells answers only when they are whole'),
    logprob_mode: z.string().describe('raw: before temperature; processed: as sampled; unknown'),
    in_flight: count.describe('calls'),
    max_in_flight: count,
    waiting: count.describe('calls'),
    weight_version: z.string().nullable(),
    max_model_len: count.nullable().describe('tokens'),
  })
  .meta({ id: 'Replica', description: 'One inference server, or one rank or worker behind it.' })

export const gatewayReplicas = z
  .object({ gateway_id: z.string(), healthy: z.boolean(), replicas: z.array(replicaInfo) })
  .meta({ id: 'GatewayReplicas' })

export const replicaList = z.object({ gateways: z.array(gatewayReplicas) }).meta({ id: 'ReplicaList' })

export const replicaAdded = z
  .object({ id: z.string(), url: z.string(), gateways: z.array(z.string()).describe('that send to it now') })
  .meta({ id: 'ReplicaAdded' })

export const replicaRemoved = z
  .object({ id: z.string(), state: z.string(), gateways: z.array(z.string()) })
  .meta({ id: 'ReplicaRemoved', description: 'It gets no new call, and is gone with its last.' })

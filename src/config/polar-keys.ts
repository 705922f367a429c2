// Keys of Polar's topology, of either revision, that nothing here depends on: still checked as Polar checks them, and why each is idle.
import { z } from 'zod'
import { engineUrlSchema } from '../contract/replica.ts'

const positive = z.number().positive().finite()
const count = z.int().min(1)

export const idleRolloutKeys = {
  save_dir: z.string().min(1).nullish(),
  dispatch_poll_interval_seconds: positive.optional(),
  callback_grace_seconds: z.number().min(0).finite().optional(),
  http_max_connections: count.optional(),
  http_max_keepalive_connections: count.optional(),
  cleanup_max_concurrency: count.optional(),
  cleanup_max_attempts: z.int().min(1).max(10).optional(),
  cleanup_retry_backoff_seconds: z.number().min(0).finite().optional(),
}

export const idleGatewayKeys = {
  heartbeat_interval_seconds: positive.optional(),
  rollout_server_url: z.url({ protocol: /^https?$/, error: 'must be a URL like http://127.0.0.1:8080' }).nullish(),
  completion_persistence: z
    .strictObject({
      enabled: z.boolean().optional(),
      max_field_bytes: count.optional(),
      queue_size: count.optional(),
      write_workers: count.optional(),
      batch_size: count.optional(),
      write_max_attempts: count.optional(),
      retry_backoff_seconds: z.number().min(0).finite().optional(),
    })
    .nullish(),
}

export const idleNodeKeys = {
  model_pool: z
    .array(
      z.strictObject({
        alias: z.string().startsWith('pool/', 'must begin with pool/'),
        model: z.string().min(1),
        base_url: engineUrlSchema,
        api_key_env: z.string().min(1).nullish(),
        max_concurrency: count.optional(),
      }),
    )
    .nullish(),
}

export const idleInferenceKeys = { scheduler: z.enum(['none', 'thunderagent']).nullish() }

const ONE_PROCESS = 'rollout server and gateways are one process'

/** By path, `*` for any element of a list: what is so instead. */
const REASONS: Readonly<Record<string, string>> = {
  'rollout.save_dir': 'results are kept by the node and read from GET /rollout/task/<id>',
  'rollout.dispatch_poll_interval_seconds': 'a session is dispatched when a gateway announces a free place',
  'rollout.callback_grace_seconds': ONE_PROCESS,
  'rollout.http_max_connections': ONE_PROCESS,
  'rollout.http_max_keepalive_connections': ONE_PROCESS,
  'rollout.cleanup_max_concurrency': ONE_PROCESS,
  'rollout.cleanup_max_attempts': ONE_PROCESS,
  'rollout.cleanup_retry_backoff_seconds': ONE_PROCESS,
  'gateway.heartbeat_interval_seconds': ONE_PROCESS,
  'gateway.rollout_server_url': ONE_PROCESS,
  'gateway.completion_persistence': 'every model call is kept whole with its session',
  'gateway.nodes.*.model_pool': 'models of a pool are not served; a call for one gets the model of the gateway',
  'gateway.nodes.*.inference.scheduler': 'sessions keep to one server, and go to the least loaded first',
}

/** A note for each key that is written, for the start of the node; one that says nothing, as `null`, is not written. */
export function idleKeyNotes(parsed: unknown): readonly string[] {
  return Object.entries(REASONS).flatMap(([key, reason]) =>
    isWritten(parsed, key.split('.')) ? [`${key.replace('.*', '[]')} has no effect here: ${reason}`] : [],
  )
}

function isWritten(value: unknown, [part, ...rest]: readonly string[]): boolean {
  if (part === undefined) return value != null && value !== 'none' && !(Array.isArray(value) && value.length === 0)
  if (value === null || typeof value !== 'object') return false
  if (part === '*') return Object.values(value).some((member) => isWritten(member, rest))
  return isWritten(Reflect.get(value, part), rest)
}

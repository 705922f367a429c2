// The shape of polar.yaml: Polar's topology keys, strict, and everything that is ours under `polar_node`.
import { z } from 'zod'
import { httpUrl } from '../contract/http-url.ts'
import { modelPatternSchema, modelProfileSchema } from '../contract/model-profile.ts'
import { engineSchema, engineUrlSchema, idSchema, listedReplicaSchema, MAX_REPLICAS } from '../contract/replica.ts'
import { sessionBudgetSchema } from '../contract/session-budget.ts'
import { runtimeSpecSchema } from '../contract/task.ts'
import { idleGatewayKeys, idleInferenceKeys, idleNodeKeys, idleRolloutKeys } from './polar-keys.ts'

/** A section may be left out, or written with nothing under it; its defaults hold either way. */
function section<T extends z.core.$ZodLooseShape>(shape: T) {
  const object = z.strictObject(shape)
  return object
    .nullable()
    .transform((value) => value ?? object.parse({}))
    .prefault(null)
}

const host = z.string().min(1)
const port = z.int().min(0).max(65_535)
const seconds = z.number().min(0).max(604_800)
const count = z.int().min(1).max(1_000_000)

const node = z.strictObject({
  id: idSchema.optional(),
  host: host.optional(),
  port: port.optional(),
  /** Where agents that run elsewhere reach the model port. */
  public_url: httpUrl.nullish(),
  model_served: z.string().default(''),
  inference: section({ engine: engineSchema.optional(), base_url: engineUrlSchema.optional(), ...idleInferenceKeys }),
  max_init_workers: count.default(4),
  max_run_workers: count.default(2),
  max_postrun_workers: count.default(4),
  default_runtime: runtimeSpecSchema.nullish(),
  ...idleNodeKeys,
})

/** The engine that comes with the package, for gateways that name no server. */
const embedded = z.strictObject({
  /** A GGUF file; absent: the tiny policy of the package. */
  model: z.string().min(1).optional(),
  served_as: z.string().min(1).max(256).optional(),
  sequences: z.int().min(1).max(256).optional(),
  threads: z.int().min(1).max(256).optional(),
  max_model_len: z.int().min(1).max(16_777_216).optional(),
})

export const fileSchema = z.strictObject({
  rollout: section({
    host: host.optional(),
    port: port.optional(),
    public_url: httpUrl.nullish(),
    ...idleRolloutKeys,
  }),
  gateway: section({
    ...idleGatewayKeys,
    nodes: z.array(node).min(1).max(64).optional(),
  }),
  polar_node: section({
    data_dir: z.string().min(1).optional(),
    control: section({ token_file: z.string().min(1).optional() }),
    topology: z.enum(['threaded', 'inline']).default('threaded'),
    /** INIT + READY of one gateway; by default its init and run workers together. */
    max_ready_sessions: count.optional(),
    max_grader_sandboxes: count.optional(),
    max_attempts: z.int().min(1).max(10).default(2),
    budgets: section({
      init_seconds: seconds.default(600),
      build_seconds: seconds.default(120),
      evaluate_seconds: seconds.default(1_800),
      teardown_seconds: seconds.default(60),
      no_model_call_seconds: seconds.default(300),
      /** How long a capture may have no call in flight before it ends; its own budget may end it earlier. */
      capture_idle_seconds: seconds.default(3_600),
      /** For a model call while no inference server serves. */
      outage_seconds: seconds.default(120),
      /** For the sessions that run when the node is told to stop, and then again for the delivery of their results. */
      drain_seconds: seconds.default(3_600),
      /** Of each session, where its task names none. */
      session: sessionBudgetSchema.nullish(),
    }),
    grade_timeouts: z.boolean().default(true),
    cpu: section({ threads: z.int().min(1).max(256).optional() }),
    arena: section({ max_slabs: z.int().min(1).max(4_096).default(64) }),
    replicas: z.record(idSchema, z.array(listedReplicaSchema).min(1).max(MAX_REPLICAS)).nullish(),
    embedded: z.union([embedded, z.literal(false)], 'must be false, or keys of its own, as { model: policy.gguf }').nullish(),
    models: z.record(modelPatternSchema, modelProfileSchema).nullish(),
    upload_roots: z.array(z.string().min(1)).max(64).nullish(),
    evaluators: z.record(z.string(), z.string().min(1)).nullish(),
    builders: z.record(z.string(), z.string().min(1)).nullish(),
    harnesses: z.record(z.string(), z.string().min(1)).nullish(),
    limits: section({
      body_bytes: z.int().min(1_024).max(1_073_741_824).default(33_554_432),
      /** Each may need a timer and an answer at once; the kernel has places for twice as many. */
      admitted_sessions: z.int().min(1).max(50_000).default(16_384),
      kept_tasks: z.int().min(1).max(100_000).default(1_000),
      ledger_bytes: z.int().min(1_048_576).default(4_294_967_296),
      call_logs: z.int().min(0).max(1_000_000).default(1_000),
      /** Folders of agents' output, one per attempt, kept under the data folder. */
      kept_logs: z.int().min(0).max(1_000_000).default(1_000),
      events: z.int().min(1).max(1_000_000).default(4_096),
      event_readers: z.int().min(1).max(1_024).default(32),
    }),
    callback: section({
      deadline_seconds: z.number().positive().max(3_600).default(30),
      max_attempts: z.int().min(1).max(100).default(10),
      per_target: z.int().min(1).max(256).default(4),
      backoff_seconds: z.number().positive().max(3_600).default(1),
      backoff_cap_seconds: z.number().positive().max(86_400).default(60),
    }),
    weight_updates: section({
      /** A generation that an update cut off: gone on with under the new weights where its engine takes token ids, or begun again. */
      aborted: z.enum(['resume', 'restart']).default('resume'),
    }),
    stream: section({
      /** When a streaming agent is told what its model says: once it was captured, or while it is sampled. */
      mode: z.enum(['synthetic', 'live', 'auto']).default('synthetic'),
      commit_after_seconds: z.number().positive().max(60).default(5),
      beat_seconds: z.number().positive().max(60).default(10),
      linger_seconds: seconds.default(20),
    }),
  }),
})

/** The node of a file that lists none. */
export const DEFAULT_NODE = node.parse({})

export function defaultReplica(replicaId: string, replicaUrl: string) {
  return listedReplicaSchema.parse({ id: replicaId, url: replicaUrl })
}

export type ConfigFile = z.output<typeof fileSchema>

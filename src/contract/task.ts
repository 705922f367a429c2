// What a trainer asks for: Polar's TaskRequest and the specs inside it, parsed once at the edge.
// Source of the shapes: Polar's public wire contract; keys that Polar ignores are ignored here too.
import { z } from 'zod'
import { httpUrl } from './http-url.ts'
import { ID_PATTERN } from './ids.ts'
import { isResultsTold, RESULTS_TOLD, writtenResults } from './result-form.ts'
import { budgetProblems } from './session-budget.ts'

const idText = z.string().regex(ID_PATTERN, 'must match [A-Za-z0-9][A-Za-z0-9_.-]{0,127}')
const jsonObject = z.record(z.string(), z.unknown())
/** May be left out. Pydantic writes what was left out as null. */
const maybe = <T extends z.ZodType>(schema: T) =>
  schema
    .nullish()
    .transform((value) => value ?? undefined)
    .optional()
const textMap = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be an environment variable name'), z.string())

const hostPath = z.string().min(1).describe("a path on the host, under one of the operator's `upload_roots`")
const sandboxPath = z.string().min(1).describe('a path in the sandbox, relative to its working directory unless absolute')

const prepareActionSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('exec'),
    command: z.string().min(1),
    cwd: maybe(z.string()),
    env: textMap.default({}),
    max_attempts: z.int().min(1).max(10).default(1),
    retry_backoff_seconds: z.number().min(0).max(5).default(0.1),
  }),
  z.object({
    type: z.literal('upload_file'),
    source: hostPath,
    target: sandboxPath,
    max_attempts: z.int().min(1).max(10).default(1),
    retry_backoff_seconds: z.number().min(0).max(5).default(0.1),
  }),
  z.object({
    type: z.literal('upload_dir'),
    source: hostPath,
    target: sandboxPath,
    max_attempts: z.int().min(1).max(10).default(1),
    retry_backoff_seconds: z.number().min(0).max(5).default(0.1),
  }),
])

export const runtimeSpecSchema = z
  .object({
    backend: z.string().min(1),
    image: maybe(z.string()),
    prepare: z.array(prepareActionSchema).max(64).default([]).describe('done in order, before the agent starts'),
    eval_prepare: maybe(z.array(prepareActionSchema).max(64)).describe("of the evaluator's own sandbox; without it, `prepare`"),
    env: textMap.default({}),
    network: maybe(z.string()),
    workdir: maybe(z.string()),
    cpus: maybe(z.number().positive()),
    memory_mb: maybe(z.number().positive()),
    gpus: z.unknown().optional(),
    storage_mb: z.null('no runtime limits the storage of a sandbox').optional(),
    allow_internet: maybe(z.boolean()),
    kwargs: jsonObject.default({}),
  })
  .meta({ id: 'RuntimeSpec' })

export const agentSpecSchema = z
  .object({
    harness: maybe(z.string().min(1)),
    import_path: maybe(z.string()),
    model_name: maybe(z.string().min(1).max(256)),
    settings: jsonObject.default({}),
    env: textMap.default({}),
    mcp_servers: z.array(jsonObject).max(64).default([]),
    skills_path: z.string().nullish(),
    custom_shell: maybe(z.object({ command: z.string().min(1), cwd: maybe(z.string()), env: textMap.default({}) })),
  })
  .refine((agent) => (agent.harness === undefined) !== (agent.import_path === undefined), {
    message: 'exactly one of harness and import_path must be set',
    path: ['harness'],
  })
  .meta({ id: 'AgentSpec', description: 'The agent CLI: exactly one of `harness` and `import_path`.' })

export const strategySpecSchema = z.object({ strategy: z.string().min(1), config: jsonObject.default({}) }).meta({ id: 'StrategySpec' })

export const evaluatorSpecSchema = z
  .object({
    strategy: z.string().min(1),
    config: jsonObject.default({}),
    env: textMap.default({}),
    refresh_runtime: z.boolean().default(false),
  })
  .meta({ id: 'EvaluatorSpec' })

/** What a task's sessions are for: those of an evaluation are judged and never trained, so that a model without token ids may serve them. */
export type Purpose = 'training' | 'evaluation'

/** Of a valid task, by its metadata. */
export function purposeOf(metadata: Readonly<Record<string, unknown>>): Purpose {
  return writtenPurpose(metadata) === 'evaluation' ? 'evaluation' : 'training'
}

function writtenPurpose({ polar_node: own }: Readonly<Record<string, unknown>>): unknown {
  return typeof own === 'object' && own !== null ? Reflect.get(own, 'purpose') : undefined
}

function isPurpose(value: unknown): value is Purpose {
  return value === 'training' || value === 'evaluation'
}

export const taskRequestSchema = z
  .object({
    task_id: idText,
    instruction: z
      .string()
      .max(4 * 1024 * 1024)
      .describe('what the agent is asked to do'),
    num_samples: z.int().min(1).max(4096).default(1).describe('sessions'),
    dispatch_priority: z.int().min(0).max(100).default(0).describe('a higher one is dispatched sooner; nothing is preempted'),
    early_stop_min_usable_sessions: z.int().min(1).nullish().describe('usable sessions at which the others are cancelled'),
    timeout_seconds: z.number().positive().finite().default(600).describe("the agent's budget; `metadata.agent_timeout` goes before it"),
    runtime: runtimeSpecSchema.nullish().describe('without it, the default of the gateway'),
    agent: agentSpecSchema,
    builder: strategySpecSchema.default({ strategy: 'per_request', config: {} }),
    evaluator: evaluatorSpecSchema.nullish(),
    callback_url: httpUrl.nullish().describe('is sent the TaskResult'),
    metadata: jsonObject
      .default({})
      .refine(
        (metadata) =>
          metadata.agent_timeout === undefined ||
          (typeof metadata.agent_timeout === 'number' && Number.isFinite(metadata.agent_timeout) && metadata.agent_timeout > 0),
        { message: 'agent_timeout must be a positive finite number of seconds', path: ['agent_timeout'] },
      )
      .refine((metadata) => isPurpose(writtenPurpose(metadata) ?? 'training'), {
        message: 'must be training or evaluation',
        path: ['polar_node', 'purpose'],
      })
      .refine((metadata) => isResultsTold(writtenResults(metadata) ?? 'inline'), {
        message: `must be ${RESULTS_TOLD.join(' or ')}`,
        path: ['polar_node', 'results'],
      })
      .check(({ value, issues }) => {
        for (const { path, message } of budgetProblems(value)) issues.push({ code: 'custom', path: [...path], message, input: value })
      })
      .describe(
        'copied to every result; read here: agent_timeout (seconds), eval_sampling_seed_base, group_id, policy_version, rollout_step, and polar_node with purpose, results and budget',
      ),
  })
  .refine((task) => task.early_stop_min_usable_sessions == null || task.early_stop_min_usable_sessions <= task.num_samples, {
    message: 'must not exceed num_samples',
    path: ['early_stop_min_usable_sessions'],
  })
  .meta({ id: 'TaskRequest', description: 'One prompt, to be rolled out `num_samples` times.' })

export type PrepareAction = z.infer<typeof prepareActionSchema>
export type RuntimeSpec = z.infer<typeof runtimeSpecSchema>
export type AgentSpec = z.infer<typeof agentSpecSchema>
export type StrategySpec = z.infer<typeof strategySpecSchema>
export type EvaluatorSpec = z.infer<typeof evaluatorSpecSchema>
export type TaskRequest = z.infer<typeof taskRequestSchema>
export type TaskStatus = 'running' | 'cancelling' | 'cancelled' | 'completed' | 'failed'

// Polar's models and answers as shapes, transcribed from its public wire contract: required keys, exact types, enums, and no key more.
import {
  anything,
  count,
  either,
  flag,
  holding,
  integer,
  listOf,
  mapOf,
  matching,
  model,
  nullable,
  number,
  type Of,
  object,
  oneOf,
  text,
} from './shape.ts'

export const TASK_STATUSES = ['running', 'cancelling', 'cancelled', 'completed', 'failed'] as const
/** In the order in which a session passes them. */
export const SESSION_STATUSES = ['REGISTERED', 'INITIALIZING', 'READY', 'RUNNING', 'POST_RUN', 'BUILDING', 'EVALUATING'] as const
export const TERMINAL_STATUSES = ['COMPLETED', 'ERROR', 'TIMEOUT'] as const

const taskStatusName = oneOf(...TASK_STATUSES)
const terminalStatus = oneOf(...TERMINAL_STATUSES)
const sessionStatus = oneOf(...SESSION_STATUSES, ...TERMINAL_STATUSES)
const sessionId = matching(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/)
const unixSeconds = holding(number, (value) => (value > 1.5e9 && value < 4e9 ? null : 'is no time in unix seconds'))

/** SessionTiming forbids extra keys: a Polar client rejects the whole result for one that it does not know. */
const STAGES = [
  ...['register_to_init_queue', 'rollout_dispatch', 'rollout_result_wait', 'rollout_pipeline_e2e', 'init', 'ready_queue', 'run'],
  ...['postrun_queue', 'postrun', 'container_start', 'eval_container_start', 'runtime_validation', 'eval_runtime_validation'],
  ...['prepare', 'eval_prepare', 'agent_setup', 'agent_exec', 'agent_postprocess', 'build', 'eval', 'postrun_exec', 'runtime_stop', 'e2e'],
  ...['runtime_exec', 'mini_swe_command'],
]
const COUNTERS = ['runtime_exec', 'mini_swe_command'].flatMap((name) =>
  ['count', 'timeout', 'failure', 'exception', 'cancelled'].map((counter) => `${name}_${counter}`),
)
const sessionTiming = model(
  {},
  {
    ...Object.fromEntries(STAGES.map((stage) => [`${stage}_ms`, nullable(number)])),
    ...Object.fromEntries(COUNTERS.map((name) => [name, nullable(count)])),
  },
)

const traceFields = model(
  {
    prompt_ids: listOf(count),
    response_ids: listOf(count),
    loss_mask: listOf(oneOf(0, 1)),
    prompt_messages: listOf(object),
    response_messages: listOf(object),
    tools: nullable(listOf(object)),
    finish_reason: nullable(text),
    response_logprobs: nullable(listOf(number)),
    reward: nullable(number),
    metadata: object,
  },
  {},
)
const trace = holding(traceFields, ({ response_ids: ids, loss_mask: mask, response_logprobs: logprobs }) => {
  if (mask.length !== ids.length) return `${mask.length} mask bits for ${ids.length} response ids`
  return logprobs !== null && logprobs.length !== ids.length ? `${logprobs.length} logprobs for ${ids.length} response ids` : null
})

const agentResult = model(
  { status: text, return_code: nullable(integer) },
  {
    error: nullable(text),
    timeout_source: nullable(oneOf('agent', 'session')),
    timeout_stage: nullable(oneOf('setup', 'exec', 'postprocess')),
  },
  'allowed',
)
/** What a gateway adds to a trajectory's metadata once the session has run. */
const trajectoryMetadata = model(
  { session_id: text, task_id: text, record_count: count, trace_count: count, task_metadata: object, agent_result: agentResult },
  {
    builder: text,
    api_type: nullable(text),
    model_requested: nullable(text),
    model_used: nullable(text),
    reconstruction_stats: object,
    evaluation: nullable(
      model({ strategy: nullable(text), outcome_reward: nullable(number), trace_rewards: nullable(listOf(number)) }, {}, 'allowed'),
    ),
  },
  'allowed',
)

const trajectory = model({ status: terminalStatus, metadata: trajectoryMetadata, traces: listOf(trace) }, { error: nullable(text) })

export const sessionResult = model(
  { session_id: sessionId, task_id: text, status: terminalStatus, trajectory, timing: sessionTiming, metadata: object },
  { node_id: nullable(text), error: nullable(text) },
)

const taskResultKeys = { task_id: text, status: taskStatusName, results: listOf(sessionResult), result_paths: listOf(text) }
/** What a callback carries. */
export const taskResult = model(taskResultKeys, {})
export const taskStatus = holding(
  model({ ...taskResultKeys, total_sessions: count, completed_sessions: count }, {}),
  ({ results, total_sessions: total, completed_sessions: completed }) =>
    completed > total || results.length > total ? `${results.length} results, ${completed} completed, of ${total}` : null,
)
export const submitted = model({ task_id: text, status: taskStatusName }, {})

const stageMetrics = {
  init_queue_depth: count,
  init_inflight: count,
  ready_depth: count,
  run_inflight: count,
  postrun_queue_depth: count,
  postrun_inflight: count,
}
const nodeStageMetrics = model(stageMetrics, {})
/** Additions of ours that readers of the node list depend on; Polar's model ignores what it does not know there. */
const OWN_NODE_KEYS = { max_ready_sessions: count, sessions: count, model_port: anything, replicas: listOf(object), metadata: object }
export const nodeInfo = model(
  {
    node_id: text,
    gateway_url: matching(/^https?:\/\/[^/]/),
    max_init_workers: count,
    max_run_workers: count,
    max_postrun_workers: count,
    heartbeat_interval_seconds: number,
    metrics: nodeStageMetrics,
    dispatch_reservations: count,
    healthy: flag,
    draining: flag,
    last_heartbeat: nullable(unixSeconds),
  },
  OWN_NODE_KEYS,
)

export const serverHealth = model({ status: oneOf('ok'), nodes: count }, { engine: text })
export const serverStatus = model(
  {
    tasks: mapOf(taskStatusName),
    pipeline: model({ pending_sessions: count }, {}),
    nodes: model({ nodes: listOf(nodeInfo) }, {}),
  },
  {},
)
const taskRow = model(
  {
    task_id: text,
    status: taskStatusName,
    harness: nullable(text),
    model: nullable(text),
    num_samples: count,
    completed_sessions: count,
    errored_sessions: count,
    mean_reward: nullable(number),
    mean_traces: nullable(number),
    mean_completions: nullable(number),
    created_at: unixSeconds,
    updated_at: unixSeconds,
    source: oneOf('live'),
  },
  { delivery: anything, early_stop: anything, metadata: object },
)
export const taskRows = model({ tasks: listOf(taskRow) }, {})
const sessionRow = model(
  {
    session_id: sessionId,
    task_id: text,
    status: sessionStatus,
    node_id: nullable(text),
    reward: nullable(number),
    timing: nullable(sessionTiming),
    error: nullable(text),
  },
  { attempt: count, outcome: nullable(text), earlier_attempts: listOf(object), metadata: object },
)
export const sessionRows = model({ task_id: text, sessions: listOf(sessionRow) }, { status: taskStatusName, delivery: anything })
export const accepted = model({ status: oneOf('accepted') }, {})

export const gatewayRoot = model({ status: oneOf('ok'), service: oneOf('polar-gateway') }, {})
export const gatewayHealth = model(
  {
    status: oneOf('ok'),
    node_id: text,
    gateway_url: matching(/^https?:\/\/[^/]/),
    inference: object,
    metrics: nodeStageMetrics,
    active_status_counts: mapOf(count),
    active_sessions: listOf(
      model({ session_id: sessionId, task_id: text, status: sessionStatus, age_seconds: number, idle_seconds: number }, {}),
    ),
    available_init: count,
    available_run: count,
    available_postrun: count,
  },
  { completion_persistence: anything },
)
export const modelList = model({ data: listOf(model({ id: text }, {}, 'allowed')) }, {}, 'allowed')
export const tokenized = model({ count, max_model_len: count }, {})
export const inferenceStatus = model(
  { paused: flag, inflight: count, base_url: nullable(text), engine: nullable(text) },
  { metadata: object },
)

export const gatewaySessions = model(
  {
    sessions: listOf(
      model(
        {
          session_id: sessionId,
          task_id: nullable(text),
          status: sessionStatus,
          age_seconds: number,
          idle_seconds: number,
          completion_count: count,
          model_requested: nullable(text),
          model_used: nullable(text),
          api_type: nullable(text),
          created_at: unixSeconds,
          node_id: text,
        },
        { metadata: object },
      ),
    ),
    node_id: text,
  },
  {},
)
export const dispatched = model({ session_id: sessionId, task_id: text, status: oneOf('REGISTERED'), node_id: text }, { metadata: object })
const captureKeys = {
  session_id: sessionId,
  task_id: nullable(text),
  created_at: unixSeconds,
  completion_count: count,
  status: sessionStatus,
}
export const captureSession = model(captureKeys, { metadata: object })
export const sessionView = model(captureKeys, { result: sessionResult, metadata: object, node_id: nullable(text), attempt: count })
export const deletedSession = model({ session_id: sessionId, deleted: flag, messages_deleted: count }, {})

/** Extra keys are allowed here by Polar's own model. */
const completionRecord = model(
  {
    completion_id: matching(/^msg_[0-9a-f]{12,}$/),
    timestamp: nullable(text),
    request: holding(object, (request) => (Array.isArray(request.messages) ? null : 'holds no messages')),
    original_request: object,
    response: holding(object, (response) => (Array.isArray(response.choices) ? null : 'holds no choices')),
    metadata: holding(object, (about) =>
      typeof about.session_id === 'string' && typeof about.task_id === 'string' ? null : 'names no session and task',
    ),
  },
  {},
  'allowed',
)
export const completions = model(
  { session_id: sessionId, completions: listOf(completionRecord), node_id: nullable(text) },
  { polar_node: object },
)

export const taskEvent = model({ task_id: text, status: taskStatusName }, {}, 'allowed')
/** An event may also tell that a session is on its way to a gateway, which is no status of it. */
export const sessionEvent = model(
  { session_id: sessionId, task_id: text, status: either(sessionStatus, oneOf('DISPATCHING')) },
  {},
  'allowed',
)

/** FastAPI's errors: a text, or a list of fields. A gateway's upstream trouble is `error`. */
export const errorBody = either(
  model({ detail: either(text, listOf(model({ loc: listOf(either(text, integer)), msg: text, type: text }, {}, 'allowed'))) }, {}),
  // The node says the same in both words.
  model({ error: text }, { detail: text }),
)

export type TaskStatusBody = Of<typeof taskStatus>
export type TaskResultBody = Of<typeof taskResult>
export type SessionResultBody = Of<typeof sessionResult>
export type TraceBody = Of<typeof trace>
export type NodeBody = Of<typeof nodeInfo>

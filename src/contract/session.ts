// What a client asks for with POST /sessions: Polar's SessionDispatchRequest, or a capture of an agent that was started elsewhere.
import { z } from 'zod'
import { type TaskRequest, taskRequestSchema } from './task.ts'

const { task_id: id, timeout_seconds: timeout, ...task } = taskRequestSchema.shape

/** Bounds a capture whose agent never stops calling; one that stops ends by idleness. */
const CAPTURE_SECONDS = 86_400

export const sessionDispatchSchema = z
  .object({
    session_id: id,
    task_id: id,
    instruction: task.instruction,
    dispatch_priority: task.dispatch_priority,
    remaining_timeout_seconds: timeout.removeDefault().describe("the agent's budget; `metadata.agent_timeout` goes before it"),
    runtime: task.runtime,
    agent: task.agent,
    builder: task.builder,
    evaluator: task.evaluator,
    callback_url: task.callback_url.describe('is sent the SessionResult'),
    metadata: task.metadata,
  })
  .meta({ id: 'SessionDispatchRequest', description: 'One session with an agent of this node, by itself.' })

export const captureSchema = z
  .object({
    session_id: id.nullish().describe('a new one when left out; the same id with the same body is the same session'),
    task_id: id.nullish().describe("what its result names; the session's own id when left out"),
    timeout_seconds: timeout.removeDefault().default(CAPTURE_SECONDS).describe('`metadata.agent_timeout` goes before it'),
    builder: task.builder,
    callback_url: task.callback_url.describe('is sent the SessionResult'),
    metadata: task.metadata,
  })
  .meta({
    id: 'CaptureRequest',
    description: 'A session for an agent that was started elsewhere and needs no more than a base URL and a key.',
  })

/** The first where it has `agent` and `session_id`, as in Polar. */
export const sessionRequestSchema = z.union([sessionDispatchSchema, captureSchema]).meta({ id: 'SessionRequest' })

export const captureEndSchema = z
  .object({ reward: z.number().nullish().describe("in an evaluator's place; left out: not graded") })
  .meta({ id: 'CaptureEnd', description: 'The agent is done: what was captured is built.' })

/** As the task of one that it is inside; what is sent to `callback_url` is no task's result. */
export function dispatchedTask({
  session_id: _,
  remaining_timeout_seconds,
  callback_url: __,
  ...asked
}: z.infer<typeof sessionDispatchSchema>): TaskRequest {
  return { ...asked, num_samples: 1, timeout_seconds: remaining_timeout_seconds }
}

export function capturedTask(session: string, { task_id, timeout_seconds, builder, metadata }: z.infer<typeof captureSchema>): TaskRequest {
  return {
    task_id: task_id ?? session,
    instruction: '',
    num_samples: 1,
    dispatch_priority: 0,
    timeout_seconds,
    agent: { harness: 'capture', settings: {}, env: {}, mcp_servers: [] },
    builder,
    metadata,
  }
}

// Tasks and their sessions in lists: numbers, no tokens.
import { z } from 'zod'
import { gatewayNodeInfo } from './nodes.ts'
import { count, deliveryState, jsonObject, milliseconds, outcome, reward, sessionStatus, taskState, unixSeconds } from './words.ts'

export const taskSubmitted = z
  .object({ task_id: z.string(), status: taskState.describe('running; of a task that is known already, its own') })
  .meta({ id: 'TaskSubmitted', description: 'The task is recorded; the same id with the same body is the same task.' })

const earlyStop = z.object({
  threshold: count.describe('usable sessions that stop the rest'),
  usable: count,
  finished: count.describe('sessions that had ended by then'),
  mean_finished_ms: milliseconds,
  stopped_running: count,
  mean_stopped_ms: milliseconds,
  stopped_waiting: count.describe('stopped before they were dispatched'),
})

export const taskRow = z
  .object({
    task_id: z.string(),
    status: taskState,
    harness: z.string(),
    model: z.string().nullable(),
    num_samples: count,
    completed_sessions: count.describe('with a terminal result, whatever it is'),
    errored_sessions: count,
    mean_reward: reward.nullable().describe('over the sessions that have one'),
    mean_traces: z.number().nullable(),
    mean_completions: z.number().nullable(),
    created_at: unixSeconds,
    updated_at: unixSeconds,
    source: z.string().describe('live'),
    delivery: deliveryState,
    early_stop: earlyStop.nullable().describe('what an early stop did to the group, which favours fast sessions'),
  })
  .meta({ id: 'TaskRow', description: 'One task of a list.' })

export const taskList = z.object({ tasks: z.array(taskRow).describe('newest first') }).meta({ id: 'TaskList' })

export const sessionRow = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    status: sessionStatus,
    node_id: z.string().nullable(),
    attempt: count,
    outcome: outcome.nullable(),
    reward: reward.nullable(),
    timing: jsonObject.describe('milliseconds by stage; empty before the end'),
    error: z.string().nullable(),
    earlier_attempts: z
      .array(z.object({ attempt: count, node_id: z.string(), outcome, error: z.string().nullable() }))
      .describe('that failed for a reason which another attempt may not meet'),
  })
  .meta({ id: 'SessionRow', description: 'One session of a task.' })

export const taskSessions = z
  .object({ task_id: z.string(), status: taskState, delivery: deliveryState, sessions: z.array(sessionRow).describe('in sample order') })
  .meta({ id: 'TaskSessions' })

export const rolloutStatus = z
  .object({
    tasks: z.record(z.string(), taskState).describe('by id; those that are kept'),
    pipeline: z.object({ pending_sessions: count.describe('admitted, not yet dispatched') }),
    nodes: z.object({ nodes: z.array(gatewayNodeInfo) }),
  })
  .meta({ id: 'RolloutStatus' })

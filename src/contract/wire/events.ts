// The data of server-sent events, by the event's type.
import { z } from 'zod'
import { count, outcome, reward, sessionStatus, taskState, unixSeconds } from './words.ts'

export const taskEvent = z
  .object({ task_id: z.string(), status: taskState, at: unixSeconds })
  .meta({ id: 'TaskEvent', description: 'Of task.created, task.updated and task.completed.' })

export const sessionEvent = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    status: z.union([sessionStatus, z.literal('DISPATCHING')]).describe('`DISPATCHING`: on its way to a gateway'),
    node_id: z.string().nullable().describe('the gateway that holds it, or held it last'),
    attempt: count,
    outcome: outcome.optional().describe('with the last one'),
    reward: reward.nullable().optional(),
    error: z.string().nullable().optional(),
    at: unixSeconds,
  })
  .meta({ id: 'SessionEvent', description: 'Of session.state_changed.' })

export const eventsLost = z
  .object({ after: z.string().describe('the `Last-Event-ID` that was asked for') })
  .meta({ id: 'EventsLost', description: 'Of events.lost: what came just after that id is no longer kept.' })

export const nodeEvent = z.union([taskEvent, sessionEvent, eventsLost]).meta({ id: 'NodeEvent', description: 'The data of any event.' })

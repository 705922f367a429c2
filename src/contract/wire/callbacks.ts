// Deliveries of results: how each stands, what is driven again, and what Polar's gateways report to their rollout server.
import { z } from 'zod'
import { httpUrl } from '../http-url.ts'
import { ID_PATTERN } from '../ids.ts'
import { count, deliveryState, terminalStatus, unixSeconds } from './words.ts'

const MAX_NAMED = 10_000

const ids = z.array(z.string().regex(ID_PATTERN, 'must be an id')).min(1).max(MAX_NAMED)

export const callbackRow = z
  .object({
    task_id: z.string().nullable().describe('null for the result of a session by itself'),
    session_id: z.string().nullable().describe('of a session by itself'),
    state: deliveryState,
    origin: z.string().nullable().describe('of the receiver; the rest of its URL may hold a secret'),
    tries: count.describe('since it was last driven'),
    detail: z.string().nullable().describe('how the last try went'),
    ended_at: unixSeconds.nullable(),
  })
  .meta({ id: 'CallbackRow' })

export const callbackList = z.object({ callbacks: z.array(callbackRow) }).meta({ id: 'CallbackList' })

export const redriveSchema = z
  .object({
    task_ids: ids.optional().describe('whatever became of them'),
    session_ids: ids.optional().describe('sessions by themselves'),
    state: deliveryState.optional().describe('all in this state; without it and without ids: all that are pending or dead'),
    callback_url: httpUrl.optional().describe('where to, from now on; without it to where each was to go'),
  })
  .refine((body) => body.state === undefined || (body.task_ids ?? body.session_ids) === undefined, {
    message: 'give ids or a state, not both',
    path: ['state'],
  })
  .meta({ id: 'RedriveRequest' })

export const redriven = z
  .object({
    redriven: z.array(z.string()).describe('tasks, and sessions by themselves, in the order of their end'),
    lost: z.array(z.string()).describe('those whose results are no longer kept'),
  })
  .meta({ id: 'Redriven' })

/** As any revision of Polar's gateways writes it. */
export const reportedResult = z
  .looseObject({
    session_id: z.string(),
    task_id: z.string(),
    status: terminalStatus,
    trajectory: z.looseObject({}).nullish(),
    timing: z.looseObject({}).nullish(),
    node_id: z.string().nullish(),
    error: z.string().nullish(),
    metadata: z.looseObject({}).default({}),
  })
  .meta({ id: 'ReportedResult', description: "A SessionResult as one of Polar's gateways reports it." })

export const reportAccepted = z.object({ status: z.literal('accepted') }).meta({ id: 'ReportAccepted' })

// Sessions by themselves: dispatched to a gateway, or captured from an agent that was started elsewhere.
import { z } from 'zod'
import { sessionResult } from './result.ts'
import { count, sessionStatus, unixSeconds } from './words.ts'

export const sessionDispatched = z
  .object({ session_id: z.string(), task_id: z.string(), status: sessionStatus, node_id: z.string().nullable() })
  .meta({ id: 'SessionDispatched' })

export const sessionInfo = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    created_at: unixSeconds,
    completion_count: count.describe('model calls so far'),
    status: sessionStatus,
    node_id: z.string().nullable().optional(),
    attempt: count.optional(),
    result: sessionResult.optional().describe('once it has ended'),
  })
  .meta({ id: 'SessionInfo', description: 'One session, with its result once it has one.' })

export const gatewaySessionRow = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    status: sessionStatus,
    age_seconds: z.number(),
    idle_seconds: z.number().describe('since its last change or call'),
    completion_count: count,
    model_requested: z.string().nullable(),
    model_used: z.string().nullable(),
    api_type: z.string().nullable(),
    created_at: unixSeconds,
    node_id: z.string().nullable(),
  })
  .meta({ id: 'GatewaySessionRow' })

export const gatewaySessionList = z
  .object({ sessions: z.array(gatewaySessionRow).describe('newest first'), node_id: z.string().nullable() })
  .meta({ id: 'GatewaySessionList' })

export const sessionDeleted = z
  .object({ session_id: z.string(), deleted: z.boolean(), messages_deleted: count.describe('always 0: nothing that was captured is lost') })
  .meta({ id: 'SessionDeleted' })

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

export const captureOpened = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    created_at: unixSeconds,
    completion_count: count,
    status: sessionStatus,
    metadata: z.object({
      polar_node: z.object({
        node_id: z.string().nullable(),
        api_key: z.string().nullable().describe('for model calls as this session; null: it is over'),
        base_urls: z
          .object({ openai: z.string(), anthropic: z.string(), google: z.string() })
          .nullable()
          .describe("what each vendor's client takes as its base URL"),
      }),
    }),
  })
  .meta({
    id: 'CaptureOpened',
    description: 'A session for an agent that was started elsewhere, with all that it needs to call the model.',
  })

export const sessionOpened = z.union([sessionDispatched, captureOpened]).meta({ id: 'SessionOpened' })

export const captureEnded = z
  .object({
    session_id: z.string(),
    task_id: z.string(),
    status: sessionStatus,
    finished: z.boolean().describe('false: something else has ended it before'),
  })
  .meta({ id: 'CaptureEnded' })

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

// Model calls as they were captured.
import { z } from 'zod'
import { count, jsonObject } from './words.ts'

export const completionRecord = z
  .looseObject({
    completion_id: z.string(),
    timestamp: z.string().nullish().describe('ISO 8601; when the answer was there'),
    request: jsonObject.describe("the chat request, before the engine's flags"),
    original_request: z.unknown().describe("the provider's body as it was sent, where it is kept"),
    response: z.unknown().describe('the canonical chat answer, complete'),
    metadata: jsonObject.describe("the session's, with session_id and task_id"),
  })
  .meta({ id: 'CompletionRecord', description: 'One model call.' })

export const sessionCompletions = z
  .object({
    session_id: z.string(),
    completions: z.array(completionRecord).describe('in the order of the calls; empty for an unknown session'),
    node_id: z.string().nullable(),
    polar_node: z
      .object({
        total: count.describe('calls of the session so far'),
        offset: count,
        next_offset: count.nullable().describe('where the next part begins; null behind the last call'),
        failed: z
          .array(completionRecord.omit({ request: true, response: true }).extend({ error: z.string().nullable() }))
          .describe('calls that got no answer: what is known of them beside their messages'),
      })
      .optional(),
  })
  .meta({ id: 'SessionCompletions' })

export const completionSession = z
  .looseObject({
    session_id: z.string(),
    created_at: z.union([z.string(), z.number()]),
    completion_count: count,
    task_id: z.string().nullable(),
    model_requested: z.string().nullable(),
    model_used: z.string().nullable(),
    api_type: z.string().nullable(),
    metadata: jsonObject,
    completions: z.array(completionRecord),
  })
  .meta({ id: 'CompletionSession' })

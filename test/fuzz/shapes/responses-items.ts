// The output items of the Responses API, from the SDK's types.
import { z } from 'zod'
import { count, nonEmpty } from './folded.ts'

const status = z.enum(['in_progress', 'completed', 'incomplete'])
const logprob = z.strictObject({ token: z.string(), logprob: z.number(), bytes: z.array(count), top_logprobs: z.array(z.unknown()) })

export const textPart = z.strictObject({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.never()),
  logprobs: z.array(logprob).optional(),
})
export const summaryPart = z.strictObject({ type: z.literal('summary_text'), text: z.string() })

const called = { id: nonEmpty, call_id: z.string().regex(/^[\w.-]{1,64}$/), status }
const named = { name: nonEmpty, namespace: nonEmpty.optional() }

export const item = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('reasoning'),
    id: nonEmpty,
    summary: z.array(summaryPart),
    content: z.array(z.strictObject({ type: z.literal('reasoning_text'), text: z.string() })).optional(),
    encrypted_content: nonEmpty.nullable().optional(),
    status: status.optional(),
  }),
  z.strictObject({ type: z.literal('message'), id: nonEmpty, role: z.literal('assistant'), status, content: z.array(textPart) }),
  z.strictObject({ type: z.literal('function_call'), ...called, ...named, arguments: z.string() }),
  z.strictObject({ type: z.literal('custom_tool_call'), ...called, ...named, input: z.string() }),
  z.strictObject({
    type: z.literal('shell_call'),
    ...called,
    environment: z.null(),
    action: z.strictObject({ commands: z.array(z.string()), timeout_ms: z.int().nullable(), max_output_length: z.int().nullable() }),
  }),
  z.strictObject({
    type: z.literal('local_shell_call'),
    ...called,
    action: z.strictObject({
      type: z.literal('exec'),
      command: z.array(z.string()),
      env: z.record(z.string(), z.string()),
      timeout_ms: z.int().nullable().optional(),
      user: z.string().nullable().optional(),
      working_directory: z.string().nullable().optional(),
    }),
  }),
  z.strictObject({ type: z.literal('tool_search_call'), ...called, execution: z.literal('client'), arguments: z.unknown() }),
])
export type Item = z.infer<typeof item>

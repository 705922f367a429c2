// Every message of the wire by its name: what /schemas serves, what OpenAPI refers to, and what must stay compatible.
import type { z } from 'zod'
import { taskRequestSchema } from '../task.ts'
import { errorMessage } from './error.ts'

export type Message = {
  /** `taken`: a client writes it; `given`: the node does. */
  readonly direction: 'taken' | 'given'
  /** Its id is the message's name. */
  readonly schema: z.ZodType
}

const taken = (schema: z.ZodType): Message => ({ direction: 'taken', schema })
const given = (schema: z.ZodType): Message => ({ direction: 'given', schema })

export const MESSAGES: Readonly<Record<string, Message>> = {
  TaskRequest: taken(taskRequestSchema),
  Error: given(errorMessage),
}

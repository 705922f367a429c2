// What a route takes and gives, in the words of its zod schemas: the source of /openapi.json.
// Its types are what lets a route's schema say tags and a summary.
import '@fastify/swagger'
import type { FastifySchema } from 'fastify'
import { z } from 'zod'
import { ERRORS, type ErrorCode, errorBody } from './errors.ts'

export type Operation = {
  readonly tag: 'tasks' | 'sessions' | 'results' | 'callbacks' | 'nodes' | 'inference' | 'service'
  readonly summary: string
  readonly description?: string
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  /** The answer when all goes well, as JSON; null: other bytes, which `description` tells of. */
  readonly answer: z.ZodType | null
  /** Of that answer; 200 if absent. */
  readonly status?: number
  /** What else it may answer, beside 401 and 503 that every route but the open ones may. */
  readonly errors?: readonly ErrorCode[]
  /** Needs no token. */
  readonly isOpen?: boolean
}

/** Given to Fastify with the route. */
export function operation(about: Operation): { readonly schema: FastifySchema } {
  const { tag, summary, description, params, query, body, answer, status = 200, errors = [], isOpen = false } = about
  const codes: readonly ErrorCode[] = [...(isOpen ? [] : (['token-missing'] as const)), ...errors, 'unavailable']
  const response: Record<number, object> = {
    [status]: answer === null ? { description: description ?? summary } : jsonSchema(answer, 'output'),
  }
  for (const code of codes) response[ERRORS[code].status] ??= { description: ERRORS[code].detail, ...jsonSchema(errorBody, 'output') }
  return {
    schema: {
      tags: [tag],
      summary,
      ...(description === undefined ? {} : { description }),
      ...(params === undefined ? {} : { params: jsonSchema(params, 'input') }),
      ...(query === undefined ? {} : { querystring: jsonSchema(query, 'input') }),
      ...(body === undefined ? {} : { body: jsonSchema(body, 'input') }),
      ...(isOpen ? { security: [] } : {}),
      response,
    },
  }
}

/** `input`: as a client may send it, defaults left out; `output`: as it is answered. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, target: 'openapi-3.0', unrepresentable: 'any' })
  return rest
}

// What a route takes and gives, in the words of its zod schemas: the source of /openapi.json.
// Its types are what lets a route's schema say tags and a summary.
import '@fastify/swagger'
import type { FastifySchema } from 'fastify'
import type { z } from 'zod'
import { errorMessage } from '../contract/wire/error.ts'
import { type JsonSchema, jsonSchema } from '../contract/wire/json-schema.ts'
import { ERRORS, type ErrorCode } from './errors.ts'

export type Operation = {
  readonly tag: 'tasks' | 'sessions' | 'results' | 'callbacks' | 'nodes' | 'inference' | 'service'
  readonly summary: string
  readonly description?: string
  /** An object schema, like that of `query` and of `headers`; without it the names in the path are documented as texts. */
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  /** Of the request, names in lower case. */
  readonly headers?: z.ZodType
  readonly body?: z.ZodType
  /** A request without a body counts as one with `{}`. */
  readonly isBodyOptional?: boolean
  /** The answer when all goes well, as JSON; null: never as JSON, see `media`. */
  readonly answer: z.ZodType | null
  /** The answer's further forms by content type: the schema of what is in it (of `text/event-stream`: of an event's data), or null. */
  readonly media?: Readonly<Record<string, z.ZodType | null>>
  /** Of that answer; 200 if absent. */
  readonly status?: number
  /** What else goes well, by status, without a body of its own: a part of the answer, or none as nothing has changed. */
  readonly also?: Readonly<Record<number, string>>
  /** What else it may answer, beside 401 and 503 that every route but the open ones may. */
  readonly errors?: readonly ErrorCode[]
  /** Needs no token. */
  readonly isOpen?: boolean
}

/** Fastify's schemas have no word for it; it does not reach the document. */
export const OPTIONAL_BODY = 'x-optional-body'

/** Given to Fastify with the route. */
export function operation(about: Operation): { readonly schema: FastifySchema } {
  const { tag, summary, description, params, query, headers, body, isBodyOptional = false, errors = [], isOpen = false } = about
  const codes: readonly ErrorCode[] = [...(isOpen ? [] : (['token-missing'] as const)), ...errors, 'unavailable']
  return {
    schema: {
      tags: [tag],
      summary,
      ...(description === undefined ? {} : { description }),
      ...(params === undefined ? {} : { params: componentSchema(params) }),
      ...(query === undefined ? {} : { querystring: componentSchema(query) }),
      ...(headers === undefined ? {} : { headers: componentSchema(headers) }),
      ...(body === undefined ? {} : { body: componentSchema(body) }),
      ...(isBodyOptional ? { [OPTIONAL_BODY]: true } : {}),
      ...(isOpen ? { security: [] } : {}),
      response: { ...goodAnswers(about), ...errorAnswers(codes), default: ANY_ERROR },
    },
  }
}

export function componentPlace(id: string): string {
  return `#/components/schemas/${id}`
}

function componentSchema(schema: z.ZodType): JsonSchema {
  return jsonSchema(schema, componentPlace)
}

function goodAnswers({ summary, answer, media = {}, status = 200, also = {} }: Operation): Record<number, object> {
  const forms = Object.entries(answer === null ? media : { 'application/json': answer, ...media })
  const content = Object.fromEntries(forms.map(([type, schema]) => [type, { schema: schema === null ? {} : contentSchema(type, schema) }]))
  const bodiless = Object.entries(also).map(([code, text]) => [code, { description: text, type: 'null' }])
  return {
    ...Object.fromEntries(bodiless),
    [status]: forms.length === 0 ? { description: summary, type: 'null' } : { description: summary, content },
  }
}

/** OpenAPI 3.1 has no word for the items of a stream. */
function contentSchema(type: string, schema: z.ZodType): JsonSchema {
  if (type !== 'text/event-stream') return componentSchema(schema)
  return { type: 'string', description: 'server-sent events', 'x-event-data': componentSchema(schema) }
}

const ERROR_CONTENT = { 'application/json': { schema: componentSchema(errorMessage) } }

const ANY_ERROR = {
  description: 'What befalls any route: a malformed request, a body that is too large or not JSON, an internal error.',
  content: ERROR_CONTENT,
}

/** Several codes may share one status; the header says which it was. */
function errorAnswers(codes: readonly ErrorCode[]): Record<number, object> {
  const answers: Record<number, object> = {}
  for (const { status } of codes.map((code) => ERRORS[code])) {
    const alike = [...new Set(codes)].filter((code) => ERRORS[code].status === status)
    const description = alike.map((code) => `${code}: ${ERRORS[code].detail}`).join('; ')
    answers[status] = { description, headers: { 'x-polar-error': { type: 'string', enum: alike } }, content: ERROR_CONTENT }
  }
  return answers
}

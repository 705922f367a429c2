// Holds answers of the control API against the OpenAPI document that the same node serves.
import { type ErrorObject, type ValidateFunction, Ajv2020 as Validator } from 'ajv/dist/2020.js'
import { isJsonSchema, type JsonSchema } from '../../src/contract/wire/json-schema.ts'

type Answer = { readonly status: number; readonly contentType: string; readonly body: unknown }

/** What the server answers before a route has its say. */
const ANY_ROUTE: ReadonlySet<number> = new Set([400, 413, 415, 500])

export type AnswerCheck = {
  /** What is wrong with an answer to this request; null: nothing. */
  problemOf(method: string, url: string, answer: Answer): string | null
  /** The same of what one event of a stream says. */
  problemOfEvent(url: string, data: unknown): string | null
  /** The same of what the node sent by itself, under the webhook's name. */
  problemOfCall(webhook: string, body: unknown): string | null
  /** Of this request; null when no documented path fits. */
  operationOf(method: string, url: string): { readonly path: string; readonly about: JsonSchema } | null
}

/**
 * Stricter than the document on keys: it lets a node say more than it names, since later ones will; but this one must name what it says.
 */
export function openAnswerCheck(document: JsonSchema): AnswerCheck {
  const validator = new Validator({ strict: false, validateFormats: false, allErrors: true })
  validator.addSchema(closedSchema(document), 'openapi')
  /** A wide schema takes its time to compile. */
  const validators = new Map<string, ValidateFunction>()
  const paths = Object.keys(asObject(document.paths)).map((path) => ({ path, pattern: patternOf(path) }))

  function operationOf(method: string, url: string) {
    const [address = ''] = url.split('?')
    const fitting = paths.filter(({ pattern }) => pattern.test(address)).map(({ path }) => path)
    // A written name goes before a parameter, as in the router.
    const path = fitting.toSorted((a, b) => a.split('{').length - b.split('{').length)[0]
    const about = path === undefined ? undefined : asObject(asObject(document.paths)[path])[method.toLowerCase()]
    return path === undefined || !isJsonSchema(about) ? null : { path, about }
  }

  return {
    operationOf,
    problemOf(method, url, { status, contentType, body }) {
      const operation = operationOf(method, url)
      if (operation === null) return status === 404 || status === 405 ? null : `${method} ${url} is served and not documented`
      const answers = asObject(operation.about.responses)
      const code = answers[String(status)] === undefined && ANY_ROUTE.has(status) ? 'default' : String(status)
      const answer = answers[code]
      if (!isJsonSchema(answer)) return `${method} ${operation.path} does not document the status ${status}`
      if (body === null) return null
      const [type = ''] = contentType.split(';')
      if (asObject(answer.content)[type] === undefined) return `${method} ${operation.path} ${status} does not document ${type}`
      const place = ['paths', operation.path, method.toLowerCase(), 'responses', code, 'content', type, 'schema']
      return problemAt(`${method} ${operation.path} ${status}`, place, body)
    },
    problemOfEvent(url, data) {
      const operation = operationOf('GET', url)
      if (operation === null) return `GET ${url} is served and not documented`
      const place = ['paths', operation.path, 'get', 'responses', '200', 'content', 'text/event-stream', 'schema', 'x-event-data']
      return problemAt(`an event of ${operation.path}`, place, data)
    },
    problemOfCall: (webhook, body) =>
      problemAt(webhook, ['webhooks', webhook, 'post', 'requestBody', 'content', 'application/json', 'schema'], body),
  }

  function problemAt(what: string, place: readonly string[], value: unknown): string | null {
    const reference = `openapi#/${place.map(pointerPart).join('/')}`
    const validate = validators.get(reference) ?? validator.compile({ $ref: reference })
    validators.set(reference, validate)
    return validate(value) ? null : `${what}: ${(validate.errors ?? []).map(sentence).join('; ')}`
  }
}

/** Objects that name keys and say nothing of others have no others. */
export function closedSchema(value: unknown): JsonSchema {
  return asObject(closedPart(value))
}

function closedPart(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closedPart)
  if (!isJsonSchema(value)) return value
  const parts = Object.fromEntries(Object.entries(value).map(([key, part]) => [key, closedPart(part)]))
  const isClosed = value.type === 'object' && isJsonSchema(value.properties) && value.additionalProperties === undefined
  return isClosed ? { ...parts, additionalProperties: false } : parts
}

function patternOf(path: string): RegExp {
  const parts = path.split(/(\{[^}]+\})/).map((part) => (part.startsWith('{') ? '[^/]+' : part.replace(/[.*+?^$()|[\]\\]/g, '\\$&')))
  return new RegExp(`^${parts.join('')}$`)
}

function pointerPart(text: string): string {
  return encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'))
}

function sentence({ instancePath, message, params }: ErrorObject): string {
  const extra = typeof params.additionalProperty === 'string' ? ` (${params.additionalProperty})` : ''
  return `${instancePath || 'the body'} ${message ?? 'is wrong'}${extra}`
}

function asObject(value: unknown): JsonSchema {
  return isJsonSchema(value) ? value : {}
}

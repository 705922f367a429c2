// The OpenAPI document: what the routes say of themselves, beside what holds for all of them.
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger'
import { namedJsonSchemas } from '../contract/wire/json-schema.ts'
import { MESSAGES } from '../contract/wire/messages.ts'
import { SCHEMA_VERSION } from '../contract/wire/version.ts'
import { componentPlace, OPTIONAL_BODY, type Operation } from './operation.ts'
import { WEBHOOKS } from './webhooks.ts'

const TAGS: { readonly [K in Operation['tag']]: string } = {
  tasks: 'What a trainer asks for: submitted, read, listed and cancelled.',
  sessions: 'The rollouts of a task, and capture-only sessions for agents that were started elsewhere.',
  results: 'What sessions gave: trajectories, completions, and the feed to follow them.',
  callbacks: 'Deliveries of results to trainers, and what Polar sends between its own processes.',
  nodes: 'The gateways of this node, their load and their events.',
  inference: 'The inference servers behind the gateways.',
  service: 'This node: its health and its words.',
}

export const OPENAPI: FastifyDynamicSwaggerOptions = {
  openapi: {
    openapi: '3.1.0',
    info: {
      title: 'polar-node',
      description: 'The control plane of a Polar rollout node: rollout server and gateways. Model calls of agents go to the model ports.',
      version: SCHEMA_VERSION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    // Wherever the document was read from.
    servers: [{ url: '/' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    webhooks: WEBHOOKS,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'the control token' },
        basic: { type: 'http', scheme: 'basic', description: 'any user, the control token as password: http://polar:TOKEN@host:8080' },
        header: { type: 'apiKey', in: 'header', name: 'x-polar-control-token', description: 'the control token' },
      },
    },
    // Any one of them.
    security: [{ bearer: [] }, { basic: [] }, { header: [] }],
  },
  convertConstToEnum: false,
  // There are none but those that a route file declares.
  exposeHeadRoutes: true,
  transformObject(document) {
    if (!('openapiObject' in document)) throw new Error('the plugin was not asked for OpenAPI')
    const { openapiObject } = document
    const paths = Object.entries(openapiObject.paths ?? {}).map(([path, item]) => [path, finished(path, item ?? {})])
    return { ...openapiObject, components: { ...openapiObject.components, schemas: components() }, paths: Object.fromEntries(paths) }
  },
}

function components() {
  return namedJsonSchemas(Object.fromEntries(MESSAGES.map(({ name, schema }) => [name, schema])), componentPlace)
}

function finished(path: string, item: object): object {
  return Object.fromEntries(
    Object.entries(item).map(([method, { [OPTIONAL_BODY]: isOptional, requestBody, ...about }]) => {
      // The plugin takes every body for a required one.
      const body = requestBody === undefined ? {} : { requestBody: { ...requestBody, required: isOptional !== true } }
      return [method, { operationId: operationId(method, path), ...about, ...body }]
    }),
  )
}

/** `GET /tasks/{id}/sessions` is `getTasksByIdSessions`; a path that ends in a slash is another one. */
function operationId(method: string, path: string): string {
  const words = path.split('/').flatMap((part) => (part.startsWith('{') ? ['by', part] : [part]))
  return [method, ...words.map(capitalized), path.endsWith('/') ? 'Root' : ''].join('')
}

function capitalized(text: string): string {
  return text.replace(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase()).replace(/[^A-Za-z0-9]/g, '')
}

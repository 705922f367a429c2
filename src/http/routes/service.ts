// What the node says of its own words: the OpenAPI document and the JSON Schema of every message.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { schemaFile } from '../../contract/wire/json-schema.ts'
import { MESSAGES } from '../../contract/wire/messages.ts'
import { schemaList } from '../../contract/wire/service.ts'
import { SCHEMA_VERSION } from '../../contract/wire/version.ts'
import { refuse } from '../errors.ts'
import { operation } from '../operation.ts'

export function serviceRoutes(app: FastifyInstance): void {
  const document = z.record(z.string(), z.unknown())

  const openapi = operation({ tag: 'service', summary: 'This document', answer: document })
  app.get('/openapi.json', openapi, async (_request, reply) => reply.send(app.swagger()))

  const list = operation({ tag: 'service', summary: 'The messages that have a schema', answer: schemaList })
  app.get('/schemas', list, async (_request, reply) =>
    reply.send({
      schema_version: SCHEMA_VERSION,
      schemas: MESSAGES.map(({ name, direction }) => ({ name, direction, url: `/schemas/${name}.json` })),
    }),
  )

  const read = operation({
    tag: 'service',
    summary: 'The JSON Schema of one message, draft 2020-12',
    params: z.object({ name: z.string().describe('of the message, as listed') }),
    answer: null,
    media: { 'application/schema+json': document },
    errors: ['schema-unknown'],
  })
  app.get<{ readonly Params: { readonly name: string } }>('/schemas/:name.json', read, async ({ params }, reply) => {
    const message = MESSAGES.find(({ name }) => name === params.name)
    if (message === undefined) return refuse(reply, 'schema-unknown', `no message ${params.name}`)
    return reply.type('application/schema+json').send(JSON.stringify(schemaFile(message.name, message.schema)))
  })
}

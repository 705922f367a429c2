// What the node says of its own words: the OpenAPI document.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { operation } from '../operation.ts'

export function serviceRoutes(app: FastifyInstance): void {
  const document = z.record(z.string(), z.unknown())

  app.get('/openapi.json', operation({ tag: 'service', summary: 'this document', answer: document }), async (_request, reply) =>
    reply.send(app.swagger()),
  )
}

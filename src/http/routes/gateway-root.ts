// What a gateway says of itself under its `gateway_url`: that it is there, how it is, and what its inference servers say.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import { gatewayHealth, gatewayRoot, promptLength } from '../../contract/wire/inference.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { type OfGateway, silence, withGateway } from '../named-gateway.ts'
import { operation } from '../operation.ts'
import { gatewayHealthInfo } from '../shapes.ts'

export function gatewayRootRoutes(app: FastifyInstance, context: RouteContext): void {
  const greeting = operation({ tag: 'nodes', summary: 'That there is such a gateway', answer: gatewayRoot, errors: ['node-unknown'] })
  for (const url of ['/gateways/:gateway', '/gateways/:gateway/'])
    app.route<OfGateway>({
      ...greeting,
      method: ['GET', 'HEAD'],
      url,
      handler: ({ params }, reply) =>
        withGateway(context, params.gateway, reply, () => reply.send({ status: 'ok', service: 'polar-gateway' })),
    })

  const health = operation({
    tag: 'nodes',
    summary: 'How a gateway is: its stages, its sessions, and the health of its inference servers',
    description: '200 also while no inference server answers; 503 while the gateway itself does not.',
    answer: gatewayHealth,
    errors: ['node-unknown'],
  })
  app.get<OfGateway>('/gateways/:gateway/health', health, ({ params }, reply) =>
    withGateway(context, params.gateway, reply, async (gateway) => {
      const snapshot = await context.readGateway(gateway)
      if (snapshot === null) return refuse(reply, 'unavailable', silence(gateway))
      const got = await context.upstream.get(snapshot.replicas, '/health')
      return reply.send(
        gatewayHealthInfo(snapshot, context.gatewayUrl(gateway), got.ok ? saidBy(got.body) : { status: 'error', error: got.detail }),
      )
    }),
  )

  const models = operation({
    tag: 'inference',
    summary: 'The list of models of its inference server, as that gives it',
    answer: z.unknown(),
    errors: ['node-unknown', 'upstream-failed'],
  })
  app.get<OfGateway>('/gateways/:gateway/v1/models', models, ({ params }, reply) =>
    withGateway(context, params.gateway, reply, async (gateway) => {
      const snapshot = await context.readGateway(gateway)
      if (snapshot === null) return refuse(reply, 'unavailable', silence(gateway))
      const got = await context.upstream.get(snapshot.replicas, '/v1/models')
      return got.ok ? reply.type(got.contentType).send(Buffer.from(got.body)) : refuseUpstream(reply, got.detail)
    }),
  )

  const tokenize = operation({
    tag: 'inference',
    summary: 'How many tokens a prompt has',
    description: 'Of a chat request, whatever model it names, or of the text under `prompt`. Nothing is recorded, and no pause holds it.',
    body: z.looseObject({}),
    answer: promptLength,
    errors: ['bad-request', 'node-unknown', 'upstream-failed'],
  })
  app.post<OfGateway>('/gateways/:gateway/v1/tokenize', tokenize, ({ params, body }, reply) =>
    withGateway(context, params.gateway, reply, async (gateway) => {
      const snapshot = await context.readGateway(gateway)
      if (snapshot === null) return refuse(reply, 'unavailable', silence(gateway))
      const counted = await context.upstream.countTokens(snapshot.replicas, body)
      if (counted.ok) return reply.send({ count: counted.count, max_model_len: counted.maxModelLen })
      return counted.error === 'not-understood' ? refuse(reply, 'bad-request', counted.detail) : refuseUpstream(reply, counted.detail)
    }),
  )

  // In Polar these were model calls. Here an agent's key opens the model port, and the operator's token nothing of the kind.
  for (const url of ['/gateways/:gateway', '/gateways/:gateway/', '/gateways/:gateway/*'])
    app.post<OfGateway>(url, { schema: { hide: true } }, (request, reply) =>
      withGateway(context, request.params.gateway, reply, async (gateway) => {
        const path = request.url.split('?', 1)[0]
        const snapshot = await context.readGateway(gateway)
        const where = snapshot === null ? 'the model port of the gateway' : context.modelUrl(gateway, snapshot.modelPort)
        return refuse(
          reply,
          'route-unknown',
          `no route POST ${path}; model calls go to ${where}/s/<session id>, with the key of that session`,
        )
      }),
    )
}

/** Engines answer with an empty body when all is well. */
function saidBy(body: Uint8Array): unknown {
  try {
    const said: unknown = JSON.parse(Buffer.from(body).toString())
    return typeof said === 'object' && said !== null ? said : { status: 'ok' }
  } catch {
    return { status: 'ok' }
  }
}

/** Polar's clients look for `error`. */
function refuseUpstream(reply: FastifyReply, problem: string): FastifyReply {
  return reply.code(502).header('x-polar-error', 'upstream-failed').send({ error: problem, detail: problem })
}

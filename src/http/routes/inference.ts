// The pause of model calls while weights are updated: of one gateway as in Polar, and of all of them as one.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import type { InferenceStatus } from '../../actors/gateway/protocol.ts'
import { inferenceStatus, nodeInference } from '../../contract/wire/inference.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { PauseRefusal, RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { type OfGateway, silence, withGateway } from '../named-gateway.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'
import { inferenceInfo } from '../shapes.ts'

const DAY_SECONDS = 86_400
const pauseQuery = z.object({
  // No text at all is no number either.
  timeout_seconds: z
    .preprocess((text) => (typeof text === 'string' && text.trim() === '' ? Number.NaN : text), z.coerce.number().min(0).max(DAY_SECONDS))
    .default(300)
    .describe('how long calls in flight may take to end'),
})
const PAUSE =
  'Holds every new call at once and answers when none is in flight. If some still are after `timeout_seconds`, the answer is 504 and this pause holds nothing any more. Pauses that overlap are one: a resume ends them all, and a pause that waits then is answered 409. One that times out ends no other. Agents notice nothing: their calls wait, with beats where they are streams.'

export function inferenceRoutes(app: FastifyInstance, context: RouteContext): void {
  ofOneGateway(app, context)
  ofAllGateways(app, context)
}

function ofOneGateway(app: FastifyInstance, context: RouteContext): void {
  const { inference, embeddedUrl } = context

  const reading = operation({
    tag: 'inference',
    summary: 'Whether the model calls of this gateway are held',
    answer: inferenceStatus,
    errors: ['node-unknown'],
  })
  app.get<OfGateway>('/gateways/:gateway/admin/inference/status', reading, ({ params }, reply) =>
    withGateway(context, params.gateway, reply, async (gateway) => {
      const status = await inference.read(gateway)
      return status === null ? refuse(reply, 'unavailable', silence(gateway)) : reply.send(inferenceInfo(status, embeddedUrl))
    }),
  )

  const pausing = operation({
    tag: 'inference',
    summary: 'Hold the model calls of this gateway',
    description: PAUSE,
    query: pauseQuery,
    answer: inferenceStatus,
    errors: ['node-unknown', 'invalid', 'inference-busy', 'inference-resumed'],
  })
  app.post<OfGateway>('/gateways/:gateway/admin/inference/pause', pausing, ({ params, query }, reply) =>
    withGateway(context, params.gateway, reply, (gateway) =>
      withTimeout(query, reply, async (seconds) => {
        const paused = await inference.pause([gateway], seconds * 1_000)
        if (!paused.ok)
          return paused.error === 'silent' ? refuse(reply, 'unavailable', silence(gateway)) : refusePause(paused, seconds, reply)
        return reply.send(paused.statuses.map((status) => inferenceInfo(status, embeddedUrl))[0])
      }),
    ),
  )

  const resuming = operation({
    tag: 'inference',
    summary: 'Let the model calls of this gateway go on',
    answer: inferenceStatus,
    errors: ['node-unknown'],
  })
  app.post<OfGateway>('/gateways/:gateway/admin/inference/resume', resuming, ({ params }, reply) =>
    withGateway(context, params.gateway, reply, async (gateway) => {
      const [status = null] = await inference.resume([gateway])
      return status === null ? refuse(reply, 'unavailable', silence(gateway)) : reply.send(inferenceInfo(status, embeddedUrl))
    }),
  )
}

function ofAllGateways(app: FastifyInstance, context: RouteContext): void {
  const { inference } = context
  const { gateways } = inference

  const reading = operation({ tag: 'inference', summary: 'Whether the model calls of every gateway are held', answer: nodeInference })
  app.get('/admin/inference/status', reading, async (_request, reply) =>
    reply.send(nodeInfoOf(context, await Promise.all(gateways.map((gateway) => inference.read(gateway))))),
  )

  const pausing = operation({
    tag: 'inference',
    summary: 'Hold the model calls of every gateway, or of none',
    description: `${PAUSE} When one gateway cannot be paused, all that were not paused before go on.`,
    query: pauseQuery,
    answer: nodeInference,
    errors: ['invalid', 'inference-busy', 'inference-resumed'],
  })
  app.post('/admin/inference/pause', pausing, ({ query }, reply) =>
    withTimeout(query, reply, async (seconds) => {
      const paused = await inference.pause(gateways, seconds * 1_000)
      return paused.ok ? reply.send(nodeInfoOf(context, paused.statuses)) : refusePause(paused, seconds, reply)
    }),
  )

  const resuming = operation({ tag: 'inference', summary: 'Let the model calls of every gateway go on', answer: nodeInference })
  app.post('/admin/inference/resume', resuming, async (_request, reply) =>
    reply.send(nodeInfoOf(context, await inference.resume(gateways))),
  )
}

async function withTimeout(query: unknown, reply: FastifyReply, use: (seconds: number) => Promise<FastifyReply>): Promise<FastifyReply> {
  const parsed = pauseQuery.safeParse(query)
  return parsed.success ? use(parsed.data.timeout_seconds) : refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
}

/** `statuses` in the order of the gateways; null: it does not answer, and holds its calls as was last asked when it is back. */
function nodeInfoOf({ inference, embeddedUrl }: RouteContext, statuses: readonly (InferenceStatus | null)[]) {
  const gateways = inference.gateways.map((gateway, index) => {
    const status = statuses[index] ?? null
    if (status !== null) return { ...inferenceInfo(status, embeddedUrl), node_id: gateway, healthy: true }
    return { paused: inference.holds(gateway), inflight: 0, base_url: null, engine: null, node_id: gateway, healthy: false }
  })
  return {
    paused: gateways.every(({ paused }) => paused),
    inflight: gateways.reduce((sum, { inflight }) => sum + inflight, 0),
    gateways,
  }
}

function refusePause({ gateway, error }: PauseRefusal, seconds: number, reply: FastifyReply): FastifyReply {
  switch (error) {
    case 'timed-out':
      return refuse(reply, 'inference-busy', `${gateway}: calls were still in flight after ${seconds} s; this pause holds nothing any more`)
    case 'silent':
      return refuse(reply, 'inference-busy', `${silence(gateway)}; this pause holds nothing any more`)
    case 'resumed':
      return refuse(reply, 'inference-resumed', `${gateway}: a resume came before its calls in flight had ended`)
    default:
      return unreachable(error)
  }
}

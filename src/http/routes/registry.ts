// What Polar's gateways and rollout server tell each other. Here they share a process: a drain is all that these routes can change.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import type { GatewayView, RolloutServerCommand } from '../../actors/rollout-server/protocol.ts'
import { type GatewayId, gatewayId } from '../../contract/ids.ts'
import { reportAccepted, reportedResult } from '../../contract/wire/callbacks.ts'
import { gatewayNodeInfo, nodeHeartbeat, nodeRegistration } from '../../contract/wire/nodes.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { silence } from '../named-gateway.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'
import { type ById, readNode, readNodes } from './nodes.ts'

export function registryRoutes(app: FastifyInstance, context: RouteContext): void {
  const registering = operation({
    tag: 'nodes',
    summary: 'Take back the drain of a gateway',
    description: 'As its registration does in Polar. The gateways of a node are those of its configuration: no other can be registered.',
    body: nodeRegistration,
    answer: gatewayNodeInfo,
    errors: ['invalid', 'node-foreign'],
  })
  app.post('/nodes/register', registering, async ({ body }, reply) => {
    const parsed = nodeRegistration.safeParse(body)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, body))
    const { node_id: name } = parsed.data
    return change(
      context,
      name,
      reply,
      (gateway, ask) => ({ type: 'enrol-gateway', gateway, ask }),
      () =>
        refuse(reply, 'node-foreign', `${name} is no gateway of this node, which runs its own: ${context.inference.gateways.join(', ')}`),
    )
  })

  const beating = operation({
    tag: 'nodes',
    summary: 'A heartbeat of a gateway, which changes nothing',
    description: 'The load of a gateway is always that of this moment.',
    params: z.object({ id: z.string() }),
    body: nodeHeartbeat,
    answer: gatewayNodeInfo,
    errors: ['node-unknown', 'invalid'],
  })
  app.post<ById>('/nodes/:id/heartbeat', beating, async ({ params, body }, reply) => {
    const parsed = nodeHeartbeat.safeParse(body)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, body))
    const nodes = await readNodes(context, params.id)
    if (nodes === null) return refuse(reply, 'unavailable')
    const [node] = nodes
    return node === undefined ? refuse(reply, 'node-unknown', `no node ${params.id}`) : reply.send(node)
  })

  const draining = operation({
    tag: 'nodes',
    summary: 'Drain a gateway',
    description: 'It gets no new session, and is listed until its last one has ended. Registering it takes that back.',
    params: z.object({ id: z.string() }),
    answer: gatewayNodeInfo,
    errors: ['node-unknown'],
  })
  app.delete<ById>('/nodes/:id', draining, ({ params }, reply) =>
    change(
      context,
      params.id,
      reply,
      (gateway, ask) => ({ type: 'drain-gateway', gateway, ask }),
      () => refuse(reply, 'node-unknown', `no node ${params.id}`),
    ),
  )

  const reporting = operation({
    tag: 'callbacks',
    summary: "A gateway's report of a session's end, which changes nothing",
    description: 'The gateways of this node report within the process. Taken as Polar takes it, whatever session it names.',
    body: reportedResult,
    answer: reportAccepted,
    errors: ['invalid'],
  })
  app.post('/callbacks/session_result', reporting, async ({ body }, reply) => {
    const parsed = reportedResult.safeParse(body)
    return parsed.success ? reply.send({ status: 'accepted' }) : refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, body))
  })
}

/** Answers with the gateway as it is after the change. */
async function change(
  context: RouteContext,
  name: string,
  reply: FastifyReply,
  make: (gateway: GatewayId, ask: Ask<GatewayView | null>) => RolloutServerCommand,
  refuseUnknown: () => FastifyReply,
): Promise<FastifyReply> {
  const answer = await context.askServer<GatewayView | null>((ask) => make(gatewayId(name), ask))
  if (!answer.ok) return refuse(reply, 'unavailable')
  if (answer.value !== null) return reply.send(await readNode(context, answer.value))
  const starting = context.inference.gateways.find((gateway) => gateway === name)
  return starting === undefined ? refuseUnknown() : refuse(reply, 'unavailable', silence(starting))
}

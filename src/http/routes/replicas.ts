// The inference servers of the gateways: looked at, added and removed while the node runs, for one gateway or for all.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import { type GatewayId, type ReplicaId, replicaId } from '../../contract/ids.ts'
import { addedReplicaSchema, type ReplicaChange, type ReplicaSpec, replicaSpec } from '../../contract/replica.ts'
import { gatewayReplicas, replicaAdded, replicaList, replicaRemoved } from '../../contract/wire/replicas.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { type OfGateway, silence, withGateway } from '../named-gateway.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'
import { replicaInfo } from '../shapes.ts'

type OneReplica = { readonly Params: { readonly replica: string } }
type OneOfGateway = { readonly Params: { readonly gateway: string; readonly replica: string } }

const gatewayName = z.string().describe('as in gateway.nodes[]')
const replicaName = z.string().describe('its id')
const ofGateway = z.object({ gateway: gatewayName })
const added = {
  tag: 'inference',
  description: 'It is probed first, and serves while the node runs; what the configuration names stands again after a restart.',
  body: addedReplicaSchema,
  answer: replicaAdded,
  status: 201,
  errors: ['bad-request', 'node-unknown', 'replica-conflict', 'not-json', 'invalid'],
} as const
const removed = {
  tag: 'inference',
  answer: replicaRemoved,
  status: 202,
  errors: ['bad-request', 'node-unknown', 'replica-unknown', 'replica-conflict'],
} as const

export function replicaRoutes(app: FastifyInstance, context: RouteContext): void {
  // Drained ones too: one that takes sessions again must serve from what the others serve from.
  const { gateways } = context.inference

  const readAll = operation({ tag: 'inference', summary: 'The inference servers of every gateway', answer: replicaList })
  app.get('/replicas', readAll, async (_request, reply) =>
    reply.send({ gateways: await Promise.all(gateways.map((gateway) => readReplicas(context, gateway))) }),
  )

  const read = operation({
    tag: 'inference',
    summary: 'The inference servers of one gateway',
    params: ofGateway,
    answer: gatewayReplicas,
    errors: ['node-unknown'],
  })
  app.get<OfGateway>('/gateways/:gateway/replicas', read, ({ params }, reply) =>
    withGateway(context, params.gateway, reply, async (gateway) => {
      const row = await readReplicas(context, gateway)
      return row.healthy ? reply.send(row) : refuse(reply, 'unavailable', silence(gateway))
    }),
  )

  app.post('/replicas', operation({ ...added, summary: 'Add an inference server to every gateway' }), ({ body }, reply) =>
    withReplica(body, reply, (replica) => addTo(gateways, replica, reply)),
  )

  const addToOne = operation({ ...added, summary: 'Add an inference server to one gateway', params: ofGateway })
  app.post<OfGateway>('/gateways/:gateway/replicas', addToOne, ({ params, body }, reply) =>
    withReplica(body, reply, (replica) => withGateway(context, params.gateway, reply, (gateway) => addTo([gateway], replica, reply))),
  )

  const removeFromAll = operation({
    ...removed,
    summary: 'Remove an inference server from every gateway that has it',
    params: z.object({ replica: replicaName }),
  })
  app.delete<OneReplica>('/replicas/:replica', removeFromAll, ({ params }, reply) =>
    removeFrom(context, gateways, replicaId(params.replica), reply),
  )

  const removeFromOne = operation({
    ...removed,
    summary: 'Remove an inference server from one gateway',
    params: z.object({ gateway: gatewayName, replica: replicaName }),
  })
  app.delete<OneOfGateway>('/gateways/:gateway/replicas/:replica', removeFromOne, ({ params }, reply) =>
    withGateway(context, params.gateway, reply, (gateway) => removeFrom(context, [gateway], replicaId(params.replica), reply)),
  )

  async function addTo(takers: readonly GatewayId[], replica: ReplicaSpec, reply: FastifyReply): Promise<FastifyReply> {
    const refused = await context.replicas.add(takers, replica)
    if (refused?.change?.ok === false) return refuseChange(reply, refused.gateway, refused.change)
    if (refused !== null) return refuse(reply, 'unavailable', silence(refused.gateway))
    return reply.code(201).send({ id: replica.id, url: replica.url, gateways: takers })
  }
}

async function withReplica(
  body: unknown,
  reply: FastifyReply,
  use: (replica: ReplicaSpec) => Promise<FastifyReply>,
): Promise<FastifyReply> {
  const parsed = addedReplicaSchema.safeParse(body)
  if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, body))
  return use(replicaSpec(parsed.data, parsed.data.engine))
}

async function readReplicas(context: RouteContext, gateway: GatewayId) {
  const snapshot = await context.readGateway(gateway)
  return {
    gateway_id: gateway,
    healthy: snapshot !== null,
    replicas: snapshot?.replicas.map((replica) => replicaInfo(replica, context.embeddedUrl)) ?? [],
  }
}

/** From every one that has it; who did not answer is named, and can be asked again. */
async function removeFrom(
  context: RouteContext,
  gateways: readonly GatewayId[],
  id: ReplicaId,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const changes = await context.replicas.remove(gateways, id)
  const removed = changes.flatMap(({ gateway, change }) => (change?.ok === true ? [gateway] : []))
  const silent = changes.find(({ change }) => change === null)
  if (silent !== undefined) return refuse(reply, 'unavailable', silence(silent.gateway))
  const [first] = changes
  if (removed.length === 0 && first?.change?.ok === false) return refuseChange(reply, first.gateway, first.change)
  return reply.code(202).send({ id, state: 'removing', gateways: removed })
}

function refuseChange(reply: FastifyReply, gateway: GatewayId, change: Extract<ReplicaChange, { ok: false }>): FastifyReply {
  const detail = `${gateway}: ${change.detail}`
  switch (change.error) {
    case 'invalid':
      return refuse(reply, 'bad-request', detail)
    case 'unknown':
      return refuse(reply, 'replica-unknown', detail)
    case 'taken':
    case 'part':
    case 'full':
      return refuse(reply, 'replica-conflict', detail)
    case 'closed':
      return refuse(reply, 'unavailable', detail)
    default:
      return unreachable(change.error)
  }
}

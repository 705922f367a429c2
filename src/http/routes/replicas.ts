// The inference servers of the gateways: looked at, added and removed while the node runs, for one gateway or for all.
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { GatewayView } from '../../actors/rollout-server/protocol.ts'
import { type GatewayId, type ReplicaId, replicaId } from '../../contract/ids.ts'
import { addedReplicaSchema, type ReplicaChange, type ReplicaSpec, replicaSpec } from '../../contract/replica.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { fieldProblems } from '../problems.ts'
import { replicaInfo } from '../shapes.ts'

type OfGateway = { readonly Params: { readonly gateway: string } }
type OneReplica = { readonly Params: { readonly replica: string } }
type OneOfGateway = { readonly Params: { readonly gateway: string; readonly replica: string } }

export function replicaRoutes(app: FastifyInstance, context: RouteContext): void {
  app.get('/replicas', (_request, reply) =>
    withGateways(context, null, reply, async (gateways) =>
      reply.send({ gateways: await Promise.all(gateways.map((gateway) => readReplicas(context, gateway))) }),
    ),
  )

  app.get<OfGateway>('/gateways/:gateway/replicas', ({ params }, reply) =>
    withGateways(context, params.gateway, reply, async ([gateway]) => {
      const row = gateway === undefined ? null : await readReplicas(context, gateway)
      return row?.healthy === true ? reply.send(row) : refuse(reply, 'unavailable', silence(params.gateway))
    }),
  )

  app.post('/replicas', ({ body }, reply) =>
    withReplica(body, reply, (replica) => withGateways(context, null, reply, addTo(replica, reply))),
  )

  app.post<OfGateway>('/gateways/:gateway/replicas', ({ params, body }, reply) =>
    withReplica(body, reply, (replica) => withGateways(context, params.gateway, reply, addTo(replica, reply))),
  )

  app.delete<OneReplica>('/replicas/:replica', ({ params }, reply) =>
    withGateways(context, null, reply, (gateways) => removeFrom(context, gateways, replicaId(params.replica), reply)),
  )

  app.delete<OneOfGateway>('/gateways/:gateway/replicas/:replica', ({ params }, reply) =>
    withGateways(context, params.gateway, reply, (gateways) => removeFrom(context, gateways, replicaId(params.replica), reply)),
  )

  function addTo(replica: ReplicaSpec, reply: FastifyReply) {
    return async (gateways: readonly GatewayId[]): Promise<FastifyReply> => {
      const refused = await context.replicas.add(gateways, replica)
      if (refused?.change?.ok === false) return refuseChange(reply, refused.gateway, refused.change)
      if (refused !== null) return refuse(reply, 'unavailable', silence(refused.gateway))
      return reply.code(201).send({ id: replica.id, url: replica.url, gateways })
    }
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

/** The gateway of this name, or all of them. */
async function withGateways(
  context: RouteContext,
  name: string | null,
  reply: FastifyReply,
  use: (gateways: readonly GatewayId[]) => Promise<FastifyReply>,
): Promise<FastifyReply> {
  const answer = await context.askServer<readonly GatewayView[]>((ask) => ({ type: 'list-gateways', ask }))
  if (!answer.ok) return refuse(reply, 'unavailable')
  const all = answer.value.map(({ gateway }) => gateway)
  const gateways = name === null ? all : all.filter((gateway) => gateway === name)
  if (gateways.length > 0) return use(gateways)
  return name === null
    ? refuse(reply, 'unavailable', 'no gateway has started yet')
    : refuse(reply, 'node-unknown', `no gateway ${name}; there are ${all.join(', ') || 'none yet'}`)
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

function silence(gateway: string): string {
  return `gateway ${gateway} does not answer; it may be starting again`
}

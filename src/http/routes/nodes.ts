// What the node and its gateways are doing: its health, and every gateway in Polar's words.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { GatewayView } from '../../actors/rollout-server/protocol.ts'
import { gatewayNodeInfo, health, nodeList } from '../../contract/wire/nodes.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { operation } from '../operation.ts'
import { nodeInfo } from '../shapes.ts'

export type ById = { readonly Params: { readonly id: string } }

export function nodeRoutes(app: FastifyInstance, context: RouteContext): void {
  // Open to anyone who reaches the port, so it says no more than that the node answers; and where it samples from a model of its own,
  // that it does: a node that was meant to have servers looks healthy otherwise.
  app.get(
    '/health',
    operation({ tag: 'service', summary: 'That the node answers', answer: health, isOpen: true }),
    async (_request, reply) => {
      const answer = await context.askServer<readonly GatewayView[]>((ask) => ({ type: 'list-gateways', ask }))
      if (!answer.ok) return refuse(reply, 'unavailable')
      return reply.send({ status: 'ok', nodes: answer.value.length, ...(context.embeddedUrl === null ? {} : { engine: 'embedded' }) })
    },
  )

  app.get('/nodes', operation({ tag: 'nodes', summary: 'Every gateway', answer: nodeList }), async (_request, reply) => {
    const nodes = await readNodes(context)
    return nodes === null ? refuse(reply, 'unavailable') : reply.send(nodes)
  })

  const one = operation({
    tag: 'nodes',
    summary: 'One gateway',
    params: z.object({ id: z.string() }),
    answer: gatewayNodeInfo,
    errors: ['node-unknown'],
  })
  app.get<ById>('/nodes/:id', one, async ({ params }, reply) => {
    const nodes = await readNodes(context, params.id)
    if (nodes === null) return refuse(reply, 'unavailable')
    const [node] = nodes
    return node === undefined ? refuse(reply, 'node-unknown', `no node ${params.id}`) : reply.send(node)
  })
}

/** GatewayNodeInfo of every gateway, in the order of the configuration, or of one; null when the rollout server does not answer. */
export async function readNodes(context: RouteContext, only?: string): Promise<readonly Readonly<Record<string, unknown>>[] | null> {
  const answer = await context.askServer<readonly GatewayView[]>((ask) => ({ type: 'list-gateways', ask }))
  if (!answer.ok) return null
  const { gateways } = context.inference
  const views = answer.value.filter(({ gateway }) => only === undefined || gateway === only)
  const ordered = views.toSorted((a, b) => gateways.indexOf(a.gateway) - gateways.indexOf(b.gateway))
  return Promise.all(ordered.map((view) => readNode(context, view)))
}

/** With what the gateway itself says, if it does. */
export async function readNode(context: RouteContext, view: GatewayView): Promise<Readonly<Record<string, unknown>>> {
  const snapshot = view.healthy ? await context.readGateway(view.gateway) : null
  return nodeInfo(view, snapshot, context.gatewayUrl(view.gateway), context.embeddedUrl, context.kernel.clock.wallMs())
}

// What the node and its gateways are doing: health, gateways and the event feed.
import type { FastifyInstance } from 'fastify'
import type { GatewayView } from '../../actors/rollout-server/protocol.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { nodeInfo } from '../shapes.ts'

export function nodeRoutes(app: FastifyInstance, context: RouteContext): void {
  // Open to anyone who reaches the port, so it says no more than that the node answers; and where it samples from a model of its own,
  // that it does: a node that was meant to have servers looks healthy otherwise.
  app.get('/health', async (_request, reply) => {
    const answer = await context.askServer<readonly GatewayView[]>((ask) => ({ type: 'list-gateways', ask }))
    if (!answer.ok) return refuse(reply, 'unavailable')
    return reply.send({ status: 'ok', nodes: answer.value.length, ...(context.embeddedUrl === null ? {} : { engine: 'embedded' }) })
  })

  app.get('/nodes', async (_request, reply) => {
    const nodes = await readNodes(context)
    return nodes === null ? refuse(reply, 'unavailable') : reply.send(nodes)
  })

  app.get<{ readonly Params: { readonly id: string } }>('/nodes/:id', async ({ params }, reply) => {
    const nodes = await readNodes(context, params.id)
    if (nodes === null) return refuse(reply, 'unavailable')
    const [node] = nodes
    return node === undefined ? refuse(reply, 'node-unknown', `no node ${params.id}`) : reply.send(node)
  })

  app.get('/events', async (request, reply) => {
    const lastId = request.headers['last-event-id']
    if (!context.events.hasRoom()) return refuse(reply, 'unavailable', 'as many readers as allowed follow the events')
    reply.hijack()
    const { raw } = reply
    raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
    context.events.follow(raw, typeof lastId === 'string' ? lastId : null)
  })
}

/** GatewayNodeInfo of every gateway, or of one; null when the rollout server does not answer. */
export async function readNodes(context: RouteContext, only?: string): Promise<readonly Readonly<Record<string, unknown>>[] | null> {
  const answer = await context.askServer<readonly GatewayView[]>((ask) => ({ type: 'list-gateways', ask }))
  if (!answer.ok) return null
  const views = answer.value.filter((view) => only === undefined || view.gateway === only)
  return Promise.all(
    views.map(async (view) => {
      const snapshot = view.healthy ? await context.readGateway(view.gateway) : null
      return nodeInfo(view, snapshot, context.embeddedUrl, context.kernel.clock.wallMs())
    }),
  )
}

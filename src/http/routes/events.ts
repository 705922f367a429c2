// The event feed over HTTP: of the whole node, and of one gateway's sessions.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { nodeEvent, sessionEvent } from '../../contract/wire/events.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import type { EventFeed } from '../events.ts'
import { type OfGateway, withGateway } from '../named-gateway.ts'
import { operation } from '../operation.ts'

const LAST_ID = 'of the last event that was seen: what came after it is sent first'
const headers = z.object({ 'last-event-id': z.string().optional().describe(LAST_ID) })
const query = z.object({ last_event_id: z.string().optional().describe(`${LAST_ID}; for clients that cannot set the header`) })
const FEED =
  'Server-sent events, with a comment every 15 seconds. A reader that does not keep up is cut off and may resume; `events.lost` says that some of what it missed is no longer kept.'

export function eventRoutes(app: FastifyInstance, context: RouteContext): void {
  const whole = operation({
    tag: 'service',
    summary: 'Follow tasks and sessions',
    description: FEED,
    query,
    headers,
    answer: null,
    media: { 'text/event-stream': nodeEvent },
  })
  app.get('/events', whole, async (request, reply) => follow(context, request, reply))

  const ofGateway = operation({
    tag: 'nodes',
    summary: 'Follow the sessions of one gateway',
    description: FEED,
    query,
    headers,
    answer: null,
    media: { 'text/event-stream': sessionEvent },
    errors: ['node-unknown'],
  })
  app.get<OfGateway>('/gateways/:gateway/events', ofGateway, (request, reply) =>
    withGateway(context, request.params.gateway, reply, (gateway) =>
      follow(context, request, reply, (event) => event.type === 'session.state_changed' && event.gateway === gateway),
    ),
  )
}

function follow(
  { events }: RouteContext,
  request: Pick<FastifyRequest, 'headers' | 'query'>,
  reply: FastifyReply,
  wanted?: Parameters<EventFeed['follow']>[2],
): FastifyReply {
  if (!events.hasRoom()) return refuse(reply, 'unavailable', 'as many readers as allowed follow the events')
  reply.hijack()
  const { raw } = reply
  raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
  events.follow(raw, lastIdOf(request), wanted)
  return reply
}

function lastIdOf(request: Pick<FastifyRequest, 'headers' | 'query'>): string | null {
  const header = request.headers['last-event-id']
  if (typeof header === 'string') return header
  const asked = query.safeParse(request.query)
  return asked.success ? (asked.data.last_event_id ?? null) : null
}

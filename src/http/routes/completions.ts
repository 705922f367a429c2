// The model calls of a session as Polar's completion records, while it runs and afterwards.
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import type { SessionView } from '../../actors/rollout-server/protocol.ts'
import { type GatewayId, knownSessionId } from '../../contract/ids.ts'
import { sessionCompletions } from '../../contract/wire/completions.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { type OfGateway, withGateway } from '../named-gateway.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'

const partQuery = z.object({
  offset: z.coerce.number().int().nonnegative().default(0).describe('how many calls of the session to pass over'),
  limit: z.coerce.number().int().min(1).optional().describe('calls to look at; all if absent'),
})

const about = {
  tag: 'sessions',
  description: 'In the order of the calls. Empty for a session that is unknown, and for one whose gateway was lost with its calls.',
  query: partQuery,
  answer: sessionCompletions,
} as const

export function completionRoutes(app: FastifyInstance, context: RouteContext): void {
  const own = operation({ ...about, summary: 'The model calls of a session', errors: ['invalid'] })
  app.get<{ readonly Params: { readonly id: string } }>('/sessions/:id/completions', own, ({ params, query }, reply) =>
    send(reply, params.id, null, query),
  )

  const ofGateway = operation({ ...about, summary: 'The model calls of a session of one gateway', errors: ['node-unknown', 'invalid'] })
  app.get<{ readonly Params: OfGateway['Params'] & { readonly id: string } }>(
    '/gateways/:gateway/sessions/:id/completions',
    ofGateway,
    ({ params, query }, reply) => withGateway(context, params.gateway, reply, (gateway) => send(reply, params.id, gateway, query)),
  )

  async function send(reply: FastifyReply, id: string, only: GatewayId | null, query: unknown): Promise<FastifyReply> {
    const parsed = partQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    const { offset, limit = null } = parsed.data
    const session = knownSessionId(id)
    const readView = () => context.askServer<SessionView | null>((ask) => ({ type: 'read-session', session, ask }))
    const parts = context.readCompletions({ session, only, wish: { offset, limit }, readView })
    // Also of a client that is gone before the first byte.
    reply.raw.once('close', () => void parts.return(undefined))
    // What usually goes wrong does so before the first bytes, and still gets its status.
    const opening = await parts.next().catch((error: unknown) => String(error))
    if (typeof opening === 'string') return refuse(reply, 'unavailable', opening)
    return reply.type('application/json').send(Readable.from(continued(opening, parts), { objectMode: false }))
  }
}

async function* continued(opening: IteratorResult<Uint8Array>, rest: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (opening.done !== true) yield opening.value
  yield* rest
}

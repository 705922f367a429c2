// One session as its owner sees it, with its result once it has one.
import type { FastifyInstance } from 'fastify'
import type { SessionView } from '../../actors/rollout-server/protocol.ts'
import { knownSessionId } from '../../contract/ids.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'

export function sessionRoutes(app: FastifyInstance, context: RouteContext): void {
  app.get<{ readonly Params: { readonly id: string } }>('/sessions/:id', async ({ params }, reply) => {
    const session = knownSessionId(params.id)
    const answer = await context.askServer<SessionView | null>((ask) => ({ type: 'read-session', session, ask }))
    if (!answer.ok) return refuse(reply, 'unavailable')
    const view = answer.value
    if (view === null) return refuse(reply, 'session-unknown', `no session ${params.id}`)
    const head = {
      session_id: view.session,
      task_id: view.task,
      created_at: view.createdAtMs / 1_000,
      completion_count: await callCount(view, context),
      status: view.status,
      node_id: view.gateway,
      attempt: view.attempt,
    }
    if (view.summary === null) return reply.send(head)
    const rendered = await context.readResult(session)
    if (!rendered.ok) return refuse(reply, rendered.error === 'missing' ? 'results-dropped' : 'unavailable', rendered.detail)
    const open = JSON.stringify(head).slice(0, -1)
    return reply.type('application/json').send(Buffer.concat([Buffer.from(`${open},"result":`), rendered.json, Buffer.from('}')]))
  })
}

/** The summary's count once the session has ended; before that its gateway knows. */
async function callCount(view: SessionView, { readGateway }: RouteContext): Promise<number> {
  if (view.summary !== null) return view.summary.calls
  const snapshot = view.gateway === null ? null : await readGateway(view.gateway)
  return snapshot?.sessions.find((session) => session.session === view.session)?.calls ?? 0
}

// Sessions by themselves, at any gateway and under the one they are at: opened, listed, read, deleted, and captures finished.
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import type { SessionView } from '../../actors/rollout-server/protocol.ts'
import { type GatewayId, gatewayId, isIdText, knownSessionId, taskId } from '../../contract/ids.ts'
import { captureEndSchema, sessionRequestSchema } from '../../contract/session.ts'
import { captureEnded, gatewaySessionList, sessionDeleted, sessionInfo, sessionOpened } from '../../contract/wire/sessions.ts'
import { sessionStatus } from '../../contract/wire/words.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { withGateway } from '../named-gateway.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'
import { openSession } from '../session-opening.ts'
import { callCount, readSession } from '../session-reading.ts'
import { gatewaySessionRow, sessionHead } from '../session-shapes.ts'

/** Of a route at the root `gateway` is absent. */
type Place = { readonly Params: { readonly gateway?: string } }
type ById = { readonly Params: { readonly gateway?: string; readonly id: string } }

const listQuery = z.object({
  status: sessionStatus
    .or(z.literal('active'))
    .optional()
    .describe('active: not yet ended; left out: also what has ended and is still kept'),
  task_id: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
})

export function sessionRoutes(app: FastifyInstance, context: RouteContext): void {
  routesAt(app, context, '')
  routesAt(app, context, '/gateways/:gateway')
}

function routesAt(app: FastifyInstance, context: RouteContext, prefix: '' | '/gateways/:gateway'): void {
  const where = prefix === '' ? 'of the least loaded gateway' : 'of this gateway'

  const opening = operation({
    tag: 'sessions',
    summary: `Open a session ${where}`,
    description:
      'With `agent` and `session_id` it is dispatched: this node runs its agent. Otherwise it is a capture: the answer has the base URLs and the key for an agent that was started elsewhere, and the session ends when it is finished, deleted, idle, or out of time.',
    body: sessionRequestSchema,
    isBodyOptional: true,
    answer: sessionOpened,
    errors: ['bad-request', 'node-unknown', 'session-conflict', 'overloaded'],
  })
  app.post<Place>(`${prefix}/sessions`, opening, ({ params, body }, reply) => openSession(context, placeOf(params), body, reply))

  const listing = operation({
    tag: 'sessions',
    summary: prefix === '' ? 'List sessions' : 'List the sessions of this gateway',
    query: listQuery,
    answer: gatewaySessionList,
    errors: ['node-unknown', 'invalid'],
  })
  app.get<Place>(`${prefix}/sessions`, listing, async ({ params, query }, reply) => {
    const parsed = listQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    if (params.gateway === undefined) return listSessions(context, null, parsed.data, reply)
    return withGateway(context, params.gateway, reply, (gateway) => listSessions(context, gateway, parsed.data, reply))
  })

  const reading = operation({
    tag: 'sessions',
    summary: 'One session, with its result once it has one',
    answer: sessionInfo,
    errors: ['bad-request', 'session-unknown', 'results-dropped'],
  })
  app.get<ById>(`${prefix}/sessions/:id`, reading, ({ params }, reply) =>
    withSession(context, params, reply, (view) => sendSession(context, view, reply)),
  )

  const deleting = operation({
    tag: 'sessions',
    summary: 'End a session as cancelled',
    description: 'Answered at once. `deleted` is false for one that had ended: its result is kept for as long as any other.',
    answer: sessionDeleted,
    errors: ['bad-request', 'session-unknown'],
  })
  app.delete<ById>(`${prefix}/sessions/:id`, deleting, ({ params }, reply) =>
    withSession(context, params, reply, (view) => deleteSession(context, view, reply)),
  )

  const finishing = operation({
    tag: 'sessions',
    summary: 'Finish a capture',
    description: 'Its key ends with this; what was captured is built, made durable and sent to its `callback_url`.',
    body: captureEndSchema,
    isBodyOptional: true,
    answer: captureEnded,
    errors: ['bad-request', 'session-unknown', 'session-conflict', 'invalid'],
  })
  app.post<ById>(`${prefix}/sessions/:id/finish`, finishing, async ({ params, body }, reply) => {
    const parsed = captureEndSchema.safeParse(body ?? {})
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, body))
    return withSession(context, params, reply, (view) => finishCapture(context, view, parsed.data.reward ?? null, reply))
  })
}

function placeOf({ gateway }: Place['Params']): GatewayId | null {
  return gateway === undefined ? null : gatewayId(gateway)
}

/** The session of this id, unless another gateway has it. */
async function withSession(
  context: RouteContext,
  params: ById['Params'],
  reply: FastifyReply,
  use: (view: SessionView) => Promise<FastifyReply>,
): Promise<FastifyReply> {
  if (!isIdText(params.id)) return refuse(reply, 'bad-request', 'a session id matches [A-Za-z0-9][A-Za-z0-9_.-]{0,127}')
  const view = await readSession(context, knownSessionId(params.id))
  if (view === 'unavailable') return refuse(reply, 'unavailable')
  const place = placeOf(params)
  if (view === null || (place !== null && view.gateway !== null && view.gateway !== place)) {
    return refuse(reply, 'session-unknown', `no session ${params.id}${place === null ? '' : ` at gateway ${place}`}`)
  }
  return use(view)
}

async function listSessions(
  context: RouteContext,
  gateway: GatewayId | null,
  { status, task_id, limit }: z.infer<typeof listQuery>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { askServer, readGateway, kernel } = context
  const answer = await askServer<readonly SessionView[]>((ask) => ({
    type: 'list-sessions',
    gateway,
    task: task_id === undefined ? null : taskId(task_id),
    status: status ?? null,
    limit,
    ask,
  }))
  if (!answer.ok) return refuse(reply, 'unavailable')
  const holders = new Set(answer.value.flatMap(({ summary, gateway: holder }) => (summary === null && holder !== null ? [holder] : [])))
  const snapshots = await Promise.all([...holders].map(readGateway))
  const live = new Map(snapshots.flatMap((snapshot) => snapshot?.sessions.map((session) => [session.session, session] as const) ?? []))
  const wallMs = kernel.clock.wallMs()
  return reply.send({ sessions: answer.value.map((view) => gatewaySessionRow(view, live.get(view.session), wallMs)), node_id: gateway })
}

async function sendSession(context: RouteContext, view: SessionView, reply: FastifyReply): Promise<FastifyReply> {
  const head = sessionHead(view, await callCount(view, context))
  if (view.summary === null) return reply.send(head)
  const rendered = await context.readResult(view.session)
  if (!rendered.ok) return refuse(reply, rendered.error === 'missing' ? 'results-dropped' : 'unavailable', rendered.detail)
  const open = JSON.stringify(head).slice(0, -1)
  return reply.type('application/json').send(Buffer.concat([Buffer.from(`${open},"result":`), rendered.json, Buffer.from('}')]))
}

async function deleteSession({ askServer }: RouteContext, { session }: SessionView, reply: FastifyReply): Promise<FastifyReply> {
  const answer = await askServer<SessionView | null>((ask) => ({ type: 'cancel-session', session, ask }))
  if (!answer.ok) return refuse(reply, 'unavailable')
  if (answer.value === null) return refuse(reply, 'session-unknown', `no session ${session}`)
  // What was captured is built and kept all the same, as after any other end.
  return reply.send({ session_id: session, deleted: answer.value.summary === null, messages_deleted: 0 })
}

async function finishCapture(
  { askGateway }: RouteContext,
  { kind, session, task, status, gateway, summary }: SessionView,
  reward: number | null,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (kind !== 'capture') return refuse(reply, 'session-conflict', `session ${session} has an agent of this node, whose end is its own`)
  const answer =
    summary !== null || gateway === null
      ? null
      : await askGateway<boolean>(gateway, (ask) => ({ type: 'finish-capture', session, reward, ask }))
  if (answer?.ok === false) return refuse(reply, 'unavailable')
  const isFinished = answer?.value === true
  return reply.send({ session_id: session, task_id: task, status: isFinished ? 'POST_RUN' : status, finished: isFinished })
}

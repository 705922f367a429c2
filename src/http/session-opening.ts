// POST /sessions: one session by itself, with an agent of this node, or for one that was started elsewhere.
import type { FastifyReply } from 'fastify'
import type { SessionAccess } from '../actors/gateway/protocol.ts'
import type { RolloutServerCommand, SessionView, SubmitSessionReply } from '../actors/rollout-server/protocol.ts'
import { type GatewayId, knownSessionId, sessionId } from '../contract/ids.ts'
import { capturedTask, captureSchema, dispatchedTask, sessionDispatchSchema } from '../contract/session.ts'
import { unreachable } from '../kernel/unreachable.ts'
import type { RouteContext, TaskProblem } from './control-api.ts'
import { type FieldProblem, refuse } from './errors.ts'
import { depthProblems, fieldProblems } from './problems.ts'
import { callCount, readSession } from './session-reading.ts'
import { captureHead } from './session-shapes.ts'

type Submission = Omit<Extract<RolloutServerCommand, { readonly type: 'submit-session' }>, 'type' | 'ask'>
type Asked = { readonly ok: true; readonly submission: Submission } | { readonly ok: false; readonly problems: readonly FieldProblem[] }

/** The door of a capture opens as soon as its gateway hears of it; a gateway that is busy, or starting, may take a moment. */
const ACCESS_MS = 5_000
const NO_PLACE = 'no gateway takes a capture now: each is full, drained or not healthy'
/** Between two looks, more each time: many captures may be opened while their gateway does not answer. */
const LOOK_AGAIN_MS = { first: 20, longest: 500 }

/** `gateway` null: the least loaded. Polar answers 400 here where other routes answer 422. */
export async function openSession(
  context: RouteContext,
  gateway: GatewayId | null,
  body: unknown,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const asked = read(context, gateway, body ?? {})
  if (!asked.ok) return refuse(reply, 'bad-request', asked.problems.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; '))
  const { submission } = asked
  const answer = await context.askServer<SubmitSessionReply>((ask) => ({ type: 'submit-session', ...submission, ask }))
  if (!answer.ok) return refuse(reply, 'unavailable')
  const submitted = answer.value
  switch (submitted.type) {
    case 'opened':
      return submission.kind === 'agent' ? sendDispatched(reply, submitted.view) : sendCapture(context, submitted.view, reply)
    case 'conflict':
      return refuse(reply, 'session-conflict', submitted.detail)
    case 'gateway-unknown':
      return refuse(reply, 'node-unknown', `no gateway ${gateway} takes sessions: it is drained, or not of this node`)
    case 'overloaded':
      reply.header('retry-after', String(submitted.retryAfterSeconds))
      return submission.kind === 'agent' ? refuse(reply, 'overloaded') : refuse(reply, 'overloaded', NO_PLACE)
    case 'not-recorded':
      return refuse(reply, 'unavailable', submitted.detail)
    default:
      return unreachable(submitted)
  }
}

function read(context: RouteContext, gateway: GatewayId | null, body: unknown): Asked {
  const tooDeep = depthProblems(body)
  if (tooDeep.length > 0) return { ok: false, problems: tooDeep }
  return isDispatch(body) ? readDispatch(context, gateway, body) : readCapture(context, gateway, body)
}

/** By Polar's rule. */
function isDispatch(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'agent' in body && 'session_id' in body
}

function readDispatch({ checkTask }: RouteContext, gateway: GatewayId | null, body: unknown): Asked {
  const parsed = sessionDispatchSchema.safeParse(body)
  if (!parsed.success) return { ok: false, problems: fieldProblems('body', parsed.error.issues, body) }
  const { session_id, callback_url: resultUrl = null } = parsed.data
  const request = dispatchedTask(parsed.data)
  const problems = checkTask({ ...request, callback_url: resultUrl }).map(fieldProblem)
  if (problems.length > 0) return { ok: false, problems }
  return { ok: true, submission: { kind: 'agent', gateway, session: knownSessionId(session_id), request, resultUrl } }
}

function readCapture({ checkTask, kernel }: RouteContext, gateway: GatewayId | null, body: unknown): Asked {
  const parsed = captureSchema.safeParse(body)
  if (!parsed.success) return { ok: false, problems: fieldProblems('body', parsed.error.issues, body) }
  const { session_id, callback_url: resultUrl = null } = parsed.data
  const session = session_id == null ? sessionId(kernel.random.uuid()) : knownSessionId(session_id)
  const request = capturedTask(session, parsed.data)
  // It runs nothing here: only what becomes of it can be wrong.
  const problems = checkTask({ ...request, callback_url: resultUrl }).filter(({ path: [part] }) => part !== 'agent' && part !== 'runtime')
  if (problems.length > 0) return { ok: false, problems: problems.map(fieldProblem) }
  return { ok: true, submission: { kind: 'capture', gateway, session, request, resultUrl } }
}

function fieldProblem({ path, message }: TaskProblem): FieldProblem {
  return { loc: ['body', ...path], msg: message, type: 'value_error' }
}

function sendDispatched(reply: FastifyReply, { session, task, status, gateway }: SessionView): FastifyReply {
  return reply.send({ session_id: session, task_id: task, status, node_id: gateway })
}

async function sendCapture(context: RouteContext, opened: SessionView, reply: FastifyReply): Promise<FastifyReply> {
  const access = await accessOf(context, opened)
  if (access === 'unknown') {
    return refuse(reply, 'unavailable', `the gateway of session ${opened.session} does not answer; the same request again gives its key`)
  }
  return reply.send(captureHead(opened, await callCount(opened, context), access, context))
}

/** Null: the session is over. */
async function accessOf(context: RouteContext, opened: SessionView): Promise<SessionAccess | null | 'unknown'> {
  const { session } = opened
  const { clock, scheduler } = context.kernel
  const untilMs = clock.nowMs() + ACCESS_MS
  let view = opened
  for (let pauseMs = LOOK_AGAIN_MS.first; ; pauseMs = Math.min(2 * pauseMs, LOOK_AGAIN_MS.longest)) {
    if (view.status !== 'REGISTERED' && view.status !== 'RUNNING') return null
    const answer =
      view.gateway === null
        ? null
        : await context.askGateway<SessionAccess | null>(view.gateway, (ask) => ({ type: 'read-access', session, ask }))
    if (answer?.ok === true && answer.value !== null) return answer.value
    if (clock.nowMs() >= untilMs) return 'unknown'
    await new Promise<void>((resolve) => scheduler.after(pauseMs, resolve))
    const now = await readSession(context, session)
    if (now === 'unavailable') return 'unknown'
    if (now === null) return null
    view = now
  }
}

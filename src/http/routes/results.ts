// The result of one session by itself: in JSON or MessagePack, whole, in parts or trace by trace.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { SessionView } from '../../actors/rollout-server/protocol.ts'
import { knownSessionId } from '../../contract/ids.ts'
import { type ResultForm, resultTag } from '../../contract/result-form.ts'
import { sessionResult, tracesPage } from '../../contract/wire/result.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import { hasAlready, wantedPart } from '../conditional.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import type { KeptResult } from '../kept-results.ts'
import { CONTENT_TYPES, chooseForm } from '../negotiation.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'

type ById = { readonly Params: { readonly id: string } }

/** No trace of a page is begun behind so many bytes: `next_offset` then says where to go on. */
const PAGE_BYTES = 16 * 2 ** 20

const pageQuery = z.object({
  offset: z.coerce.number().int().nonnegative().default(0),
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
})

const MEDIA = { [CONTENT_TYPES.msgpack]: null }
const FORMS =
  'MessagePack has the same shape, with `prompt_ids`, `response_ids`, `loss_mask` and `response_logprobs` as `{dtype, shape, data}`.'

export function resultRoutes(app: FastifyInstance, context: RouteContext): void {
  const whole = operation({
    tag: 'results',
    summary: 'The result of a session, with all its traces',
    description: `JSON, or MessagePack where Accept prefers it, with a strong ETag, conditional and in byte ranges. ${FORMS}`,
    answer: sessionResult,
    media: MEDIA,
    also: { 206: 'the range that was asked for', 304: 'the client has it already' },
    errors: ['session-unknown', 'not-acceptable', 'session-running', 'results-dropped', 'range-unsatisfiable'],
  })
  const sendWhole = (request: FastifyRequest<ById>, reply: FastifyReply): Promise<FastifyReply> =>
    withEnded(request, reply, async (view, form) => {
      if (hasAlready(request.headers, resultTag(view.session, view.attempt, form))) return unchanged(reply, view, form)
      return sendParts(request, reply, view, form, await context.results.whole(view.session, form))
    })
  app.get<ById>('/sessions/:id/result', whole, sendWhole)
  app.head<ById>('/sessions/:id/result', { schema: { ...whole.schema, summary: 'How long the result of a session is' } }, sendWhole)

  const traces = operation({
    tag: 'results',
    summary: 'Some traces of the result of a session',
    description: `JSON, or MessagePack where Accept prefers it. ${FORMS}`,
    query: pageQuery,
    answer: tracesPage,
    media: MEDIA,
    errors: ['session-unknown', 'not-acceptable', 'session-running', 'results-dropped', 'invalid'],
  })
  app.get<ById>('/sessions/:id/result/traces', traces, (request, reply) => {
    const parsed = pageQuery.safeParse(request.query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, request.query))
    return withEnded(request, reply, async (view, form) => {
      const kept = await context.results.traces(view.session, form, { ...parsed.data, maxBytes: PAGE_BYTES })
      return kept.ok ? reply.type(CONTENT_TYPES[form]).send(Buffer.from(kept.bytes)) : refuseKept(reply, kept)
    })
  })

  /** The session, once it has ended, and the form that the client wants. */
  async function withEnded(
    { params, headers }: FastifyRequest<ById>,
    reply: FastifyReply,
    use: (view: SessionView, form: ResultForm) => Promise<FastifyReply>,
  ): Promise<FastifyReply> {
    reply.header('vary', 'accept').header('cache-control', 'private, no-cache')
    const form = chooseForm(headers.accept)
    if (form === null) return refuse(reply, 'not-acceptable')
    const session = knownSessionId(params.id)
    const answer = await context.askServer<SessionView | null>((ask) => ({ type: 'read-session', session, ask }))
    if (!answer.ok) return refuse(reply, 'unavailable')
    if (answer.value === null) return refuse(reply, 'session-unknown', `no session ${params.id}`)
    if (answer.value.summary === null) return refuse(reply, 'session-running')
    return use(answer.value, form)
  }
}

function sendParts(request: FastifyRequest, reply: FastifyReply, view: SessionView, form: ResultForm, kept: KeptResult): FastifyReply {
  if (!kept.ok) return refuseKept(reply, kept)
  const { attempt, bytes } = kept
  const tag = resultTag(view.session, attempt, form)
  const length = bytes.byteLength
  reply.header('etag', tag).header('accept-ranges', 'bytes').type(CONTENT_TYPES[form])
  const wanted = request.method === 'GET' ? wantedPart(request.headers, tag, length) : { type: 'whole' as const }
  switch (wanted.type) {
    case 'whole':
      return reply.send(Buffer.from(bytes.buffer, bytes.byteOffset, length))
    case 'part': {
      const { start, end } = wanted
      reply.code(206).header('content-range', `bytes ${start}-${end}/${length}`)
      return reply.send(Buffer.from(bytes.buffer, bytes.byteOffset + start, end + 1 - start))
    }
    case 'unsatisfiable':
      return refuse(reply.header('content-range', `bytes */${length}`), 'range-unsatisfiable')
    default:
      return unreachable(wanted)
  }
}

function unchanged(reply: FastifyReply, { session, attempt }: SessionView, form: ResultForm): FastifyReply {
  return reply
    .code(304)
    .header('etag', resultTag(session, attempt, form))
    .send()
}

function refuseKept(reply: FastifyReply, { error, detail }: Extract<KeptResult, { ok: false }>): FastifyReply {
  return refuse(reply, error === 'missing' ? 'results-dropped' : 'unavailable', detail)
}

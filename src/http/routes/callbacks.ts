// What became of callbacks, and how a trainer that moved gets those it missed.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { CallbackCommand, DeliveryView, RedriveReply } from '../../actors/callback/protocol.ts'
import { knownSessionId, nameOfKey, soleTaskId, taskId } from '../../contract/ids.ts'
import { callbackList, type callbackRow, redriven, redriveSchema } from '../../contract/wire/callbacks.ts'
import { deliveryState } from '../../contract/wire/words.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'

const OUTBOX_DEADLINE_MS = 15_000
const UNDELIVERED: readonly DeliveryView['state'][] = ['pending', 'dead']

const listQuery = z.object({
  state: deliveryState.optional().describe('absent: of every task that has a receiver'),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
})

export function callbackRoutes(app: FastifyInstance, { kernel, callback }: RouteContext): void {
  const list = operation({
    tag: 'callbacks',
    summary: 'Deliveries of results, the newest first',
    query: listQuery,
    answer: callbackList,
    errors: ['invalid'],
  })
  app.get('/callbacks', list, async ({ query }, reply) => {
    const parsed = listQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    const { state, limit } = parsed.data
    const answer = await kernel.ask<CallbackCommand, readonly DeliveryView[]>(
      callback,
      (ask) => ({ type: 'list-deliveries', state: state ?? null, limit, ask }),
      OUTBOX_DEADLINE_MS,
    )
    return answer.ok ? reply.send({ callbacks: answer.value.map(rowOf) }) : refuse(reply, 'unavailable')
  })

  const redrive = operation({
    tag: 'callbacks',
    summary: 'Deliver results again, to where they were to go or to another URL',
    description:
      'The body and the Idempotency-Key of each are those it had before. A try that is under way to another URL is cut first: there are never two for one task.',
    body: redriveSchema,
    isBodyOptional: true,
    answer: redriven,
    errors: ['task-unknown', 'invalid'],
  })
  app.post('/callbacks/redrive', redrive, async ({ body }, reply) => {
    const given = body ?? {}
    const parsed = redriveSchema.safeParse(given)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, given))
    const { task_ids: tasks, session_ids: sessions, state, callback_url: url } = parsed.data
    const named = [...(tasks ?? []).map(taskId), ...(sessions ?? []).map((session) => soleTaskId(knownSessionId(session)))]
    const answer = await kernel.ask<CallbackCommand, RedriveReply>(
      callback,
      (ask) => ({
        type: 'redrive',
        tasks: named.length === 0 ? null : named,
        states: state === undefined ? UNDELIVERED : [state],
        url: url ?? null,
        ask,
      }),
      OUTBOX_DEADLINE_MS,
    )
    if (!answer.ok) return refuse(reply, 'unavailable')
    const driven = answer.value
    switch (driven.type) {
      case 'redriven':
        return reply.send({ redriven: driven.tasks.map(nameOfKey), lost: driven.lost.map(nameOfKey) })
      case 'unknown':
        return refuse(reply, 'task-unknown', driven.detail)
      case 'target':
        return refuse(reply, 'invalid', [{ loc: ['body', 'callback_url'], msg: driven.detail, type: 'value_error' }])
      default:
        return unreachable(driven)
    }
  })
}

function rowOf({ task, session, state, origin, tries, detail, endedAtMs }: DeliveryView): z.input<typeof callbackRow> {
  const ended_at = endedAtMs === null ? null : endedAtMs / 1_000
  return { task_id: session === null ? task : null, session_id: session, state, origin, tries, detail, ended_at }
}

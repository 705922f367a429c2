// The trainer's routes: submit, read, cancel and list tasks.
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { z } from 'zod'
import type { ServerStatus, SubmitReply, TaskView } from '../../actors/rollout-server/protocol.ts'
import { taskId } from '../../contract/ids.ts'
import { RESULTS_TOLD, type ResultsTold } from '../../contract/result-form.ts'
import { type TaskRequest, taskRequestSchema } from '../../contract/task.ts'
import { taskStatus } from '../../contract/wire/result.ts'
import { rolloutStatus, taskList, taskSessions, taskSubmitted } from '../../contract/wire/tasks.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { RouteContext } from '../control-api.ts'
import { type FieldProblem, refuse } from '../errors.ts'
import { operation } from '../operation.ts'
import { depthProblems, fieldProblems } from '../problems.ts'
import { sessionRow, taskRow } from '../shapes.ts'
import { taskJson } from '../task-result.ts'
import { readNodes } from './nodes.ts'

const flag = z.enum(['true', 'false', '1', '0', 'True', 'False']).transform((text) => text === '1' || text.toLowerCase() === 'true')
const readQuery = z.object({
  results: z.enum(RESULTS_TOLD).optional().describe('with their traces, or where those are; if absent as the task asked, or else inline'),
})
const cancelQuery = z.object({ register_if_missing: flag.default(false) })
const listQuery = z.object({
  status: z.enum(['running', 'cancelling', 'cancelled', 'completed', 'failed']).optional(),
  harness: z.string().optional(),
  since: z.coerce.number().optional().describe('seconds since 1970; tasks that changed since'),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
})

const byId = z.object({ id: z.string().describe('the task id') })

type ById = { readonly Params: { readonly id: string } }

export function taskRoutes(app: FastifyInstance, context: RouteContext): void {
  const submit = operation({
    tag: 'tasks',
    summary: 'Submit a task',
    description: 'Answered once the task is recorded. The same id with the same body is the same task; with another body it is a conflict.',
    body: taskRequestSchema,
    answer: taskSubmitted,
    errors: ['task-conflict', 'body-too-large', 'not-json', 'invalid', 'overloaded'],
  })
  app.post('/rollout/task/submit', submit, async (request, reply) => {
    const tooDeep = depthProblems(request.body)
    if (tooDeep.length > 0) return refuse(reply, 'invalid', tooDeep)
    const parsed = taskRequestSchema.safeParse(request.body)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('body', parsed.error.issues, request.body))
    const problems = problemsOf(parsed.data, context)
    if (problems.length > 0) return refuse(reply, 'invalid', problems)
    const answer = await context.askServer<SubmitReply>((ask) => ({ type: 'submit', request: parsed.data, ask }))
    return answer.ok ? sendSubmitted(reply, answer.value) : refuse(reply, 'unavailable')
  })

  const read = operation({
    tag: 'tasks',
    summary: 'A task with the results that it has so far',
    params: byId,
    query: readQuery,
    answer: taskStatus,
    errors: ['task-unknown', 'results-dropped', 'invalid'],
  })
  app.get<ById>('/rollout/task/:id', read, async ({ params, query }, reply) => {
    const parsed = readQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    const { results = null } = parsed.data
    const answer = await context.askServer<TaskView | null>((ask) => ({ type: 'read-task', task: taskId(params.id), ask }))
    if (!answer.ok) return refuse(reply, 'unavailable')
    return answer.value === null ? refuse(reply, 'task-unknown', `no task ${params.id}`) : sendTask(reply, answer.value, results, context)
  })

  const cancel = operation({
    tag: 'tasks',
    summary: 'Cancel a task',
    description: 'With `register_if_missing` an unknown id is refused to a submit that comes later.',
    params: byId,
    query: cancelQuery,
    answer: taskStatus,
    errors: ['task-unknown', 'results-dropped', 'invalid'],
  })
  app.delete<ById>('/rollout/task/:id', cancel, async ({ params, query }, reply) => {
    const parsed = cancelQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    const registerIfMissing = parsed.data.register_if_missing
    const answer = await context.askServer<TaskView | null>((ask) => ({ type: 'cancel', task: taskId(params.id), registerIfMissing, ask }))
    if (!answer.ok) return refuse(reply, 'unavailable')
    return answer.value === null ? refuse(reply, 'task-unknown', `no task ${params.id}`) : sendTask(reply, answer.value, null, context)
  })

  const status = operation({ tag: 'tasks', summary: 'Tasks, what waits, and gateways', answer: rolloutStatus })
  app.get('/rollout/status', status, async (_request, reply) => {
    const [status, nodes] = await Promise.all([
      context.askServer<ServerStatus>((ask) => ({ type: 'read-status', ask })),
      readNodes(context),
    ])
    if (!status.ok || nodes === null) return refuse(reply, 'unavailable')
    const { tasks, pendingSessions } = status.value
    return reply.send({
      tasks: Object.fromEntries(tasks.map(({ task, status: state }) => [task, state])),
      pipeline: { pending_sessions: pendingSessions },
      nodes: { nodes },
    })
  })

  const list = operation({ tag: 'tasks', summary: 'Tasks, newest first', query: listQuery, answer: taskList, errors: ['invalid'] })
  app.get('/tasks', list, async ({ query }, reply) => {
    const parsed = listQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    const { status, harness, since, limit } = parsed.data
    const answer = await context.askServer<readonly TaskView[]>((ask) => ({
      type: 'list-tasks',
      status: status ?? null,
      harness: harness ?? null,
      sinceMs: since === undefined ? null : since * 1_000,
      limit,
      ask,
    }))
    return answer.ok ? reply.send({ tasks: answer.value.map(taskRow) }) : refuse(reply, 'unavailable')
  })

  const sessions = operation({
    tag: 'tasks',
    summary: 'The sessions of a task',
    params: byId,
    answer: taskSessions,
    errors: ['task-unknown'],
  })
  app.get<ById>('/tasks/:id/sessions', sessions, async ({ params }, reply) => {
    const answer = await context.askServer<TaskView | null>((ask) => ({ type: 'read-task', task: taskId(params.id), ask }))
    if (!answer.ok) return refuse(reply, 'unavailable')
    if (answer.value === null) return refuse(reply, 'task-unknown', `no task ${params.id}`)
    const { task, status, delivery, sessions } = answer.value
    return reply.send({ task_id: task, status, delivery, sessions: sessions.map(sessionRow) })
  })
}

function problemsOf(request: TaskRequest, { checkTask, limits }: RouteContext): readonly FieldProblem[] {
  const problems = checkTask(request).map(
    ({ path, message }): FieldProblem => ({ loc: ['body', ...path], msg: message, type: 'value_error' }),
  )
  if (request.num_samples > limits.admittedSessions) {
    const msg = `must not exceed the ${limits.admittedSessions} sessions this node admits at a time`
    problems.push({ loc: ['body', 'num_samples'], msg, type: 'less_than_equal' })
  }
  return problems
}

function sendSubmitted(reply: FastifyReply, submitted: SubmitReply): FastifyReply {
  switch (submitted.type) {
    case 'submitted':
      return reply.send({ task_id: submitted.task, status: 'running' })
    case 'known':
      return reply.send({ task_id: submitted.task, status: submitted.status })
    case 'conflict':
      return refuse(reply, 'task-conflict', submitted.detail)
    case 'overloaded':
      return refuse(reply.header('retry-after', String(submitted.retryAfterSeconds)), 'overloaded')
    case 'not-recorded':
      return refuse(reply, 'unavailable', submitted.detail)
    default:
      return unreachable(submitted)
  }
}

/** Polar's TaskStatus: every result there is so far, in sample order, streamed one after the other. */
async function sendTask(
  reply: FastifyReply,
  view: TaskView,
  results: ResultsTold | null,
  { readResult }: RouteContext,
): Promise<FastifyReply> {
  const sessions = view.sessions.filter((session) => session.summary !== null).map((session) => session.session)
  const [first, ...rest] = sessions
  // The first result is fetched before the head is sent, so that what usually goes wrong still gets its status.
  const opening = first === undefined ? null : await readResult(first, results)
  if (opening?.ok === false) return refuse(reply, opening.error === 'missing' ? 'results-dropped' : 'unavailable', opening.detail)
  const tail = { total_sessions: view.totalSessions, completed_sessions: view.completedSessions }
  const parts = taskJson(view.task, view.status, first === undefined ? [] : [first, ...rest], tail, async (session) =>
    session === first && opening !== null ? opening : readResult(session, results),
  )
  return reply.type('application/json').send(Readable.from(parts, { objectMode: false }))
}

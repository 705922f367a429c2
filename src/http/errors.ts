// Every error of the control API: its stable code, its status and what it says when the route has nothing better to say.
import type { FastifyReply } from 'fastify'

export const ERRORS = {
  'bad-request': { status: 400, detail: 'the request is malformed' },
  'token-missing': { status: 401, detail: 'the control token is missing or wrong' },
  'route-unknown': { status: 404, detail: 'no such route' },
  'task-unknown': { status: 404, detail: 'no such task' },
  'session-unknown': { status: 404, detail: 'no such session' },
  'schema-unknown': { status: 404, detail: 'no such message' },
  'node-unknown': { status: 404, detail: 'no such node' },
  'replica-unknown': { status: 404, detail: 'no such replica' },
  'not-acceptable': { status: 406, detail: 'a result is told as application/json or application/msgpack' },
  'replica-conflict': { status: 409, detail: 'the replica cannot be added or removed' },
  'task-conflict': { status: 409, detail: 'the task id is taken' },
  'session-conflict': { status: 409, detail: 'the session id is taken, or the session is of another kind' },
  'node-foreign': { status: 409, detail: 'this node runs its own gateways, and takes no others' },
  'inference-resumed': { status: 409, detail: 'a resume ended the pause before the calls in flight had ended' },
  'session-running': { status: 409, detail: 'the session has not ended yet: it has no result' },
  'results-dropped': { status: 410, detail: 'the results are no longer kept' },
  'body-too-large': { status: 413, detail: 'the request body is too large' },
  'not-json': { status: 415, detail: 'the body must be application/json' },
  'range-unsatisfiable': { status: 416, detail: 'the range lies behind the end of the result' },
  invalid: { status: 422, detail: 'the request does not have the expected shape' },
  overloaded: { status: 429, detail: 'the node has admitted as many sessions as it may' },
  internal: { status: 500, detail: 'internal error' },
  'upstream-failed': { status: 502, detail: 'the inference server did not answer' },
  'inference-busy': { status: 504, detail: 'model calls were still in flight; nothing is held any more' },
  unavailable: { status: 503, detail: 'the node is starting, stopping or too busy to answer' },
} as const

export type ErrorCode = keyof typeof ERRORS

/** One problem of a request, in the shape of Pydantic's. */
export type FieldProblem = { readonly loc: readonly (string | number)[]; readonly msg: string; readonly type: string }

/** Polar's `{detail}`; the code travels in a header, so that the body keeps Polar's shape. */
export function refuse(reply: FastifyReply, code: ErrorCode, detail: string | readonly FieldProblem[] = ERRORS[code].detail): FastifyReply {
  if (code === 'token-missing') reply.header('www-authenticate', 'Bearer realm="polar", Basic realm="polar"')
  return reply.code(ERRORS[code].status).header('x-polar-error', code).type('application/json').send({ detail })
}

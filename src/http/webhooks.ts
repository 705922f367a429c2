// What the node sends by itself, in OpenAPI's words: the results of tasks, and of sessions by themselves, to the URL that each named.
import { componentPlace } from './operation.ts'

const RETRIED = { description: 'tried again later; `Retry-After` is heeded' }

export const WEBHOOKS = {
  taskEnded: called('A task has ended; sent to its `callback_url`', 'TaskResult'),
  sessionEnded: called('A session by itself has ended; sent to its `callback_url`', 'SessionResult'),
}

function called(summary: string, message: string) {
  return {
    post: {
      operationId: `called${message}`,
      tags: ['callbacks'],
      summary,
      description: 'At least once. Redirects are not followed.',
      // The receiver is not this node: its token is not for them.
      security: [],
      parameters: [
        sent('idempotency-key', 'string', 'the same for every try of one delivery, also after a redrive'),
        sent('x-polar-delivery-attempt', 'integer', 'from 1 on'),
      ],
      requestBody: { required: true, content: { 'application/json': { schema: { $ref: componentPlace(message) } } } },
      responses: {
        '2XX': { description: 'taken; the body is not read' },
        '408': RETRIED,
        '425': RETRIED,
        '429': RETRIED,
        '5XX': RETRIED,
        default: { description: 'never tried again, unless by POST /callbacks/redrive' },
      },
    },
  }
}

function sent(name: string, type: 'string' | 'integer', description: string) {
  return { in: 'header', name, required: true, description, schema: { type } } as const
}

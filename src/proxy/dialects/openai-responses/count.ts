// OpenAI's route that counts the tokens of a request: the same conversion as a generation, and a number back.
import { failure } from '../../failure.ts'
import type { JsonObject } from '../../json.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { orRefuse, reading, refuseWith } from '../reading.ts'
import { readResponses } from './request.ts'

/** Every field may be missing there. */
export function readResponsesCount(body: JsonObject, context: ReadContext): ReadCount {
  return reading(() => {
    const { call } = orRefuse(readResponses({ ...body, model: body.model ?? 'unnamed', input: body.input ?? [] }, context))
    const param = 'previous_response_id'
    const problem = `${param}: only a whole conversation can be counted; send all of its input`
    if (call.continues !== null) refuseWith(failure('previous-response-unknown', problem, { param }))
    return { countable: { kind: 'messages' as const, request: call.request } }
  })
}

export function writeResponsesCount(tokens: number): string {
  return JSON.stringify({ object: 'response.input_tokens', input_tokens: tokens })
}

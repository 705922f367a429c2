// OpenAI's route that counts the tokens of a request: the same conversion as a generation, and a number back.
import { failure } from '../../failure.ts'
import type { JsonObject } from '../../json.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { readResponses } from './request.ts'

/** Every field may be missing there. */
export function readInputTokens(body: JsonObject, context: ReadContext): ReadCount {
  const read = readResponses({ ...body, model: body.model ?? 'unnamed', input: body.input ?? [] }, context)
  if (!read.ok) return read
  const { continues, request } = read.call
  if (continues === null) return { ok: true, countable: { kind: 'messages', request } }
  const param = 'previous_response_id'
  return {
    ok: false,
    failure: failure('previous-response-unknown', `${param}: only a whole conversation can be counted; send all of its input`, { param }),
  }
}

export function writeInputTokens(tokens: number): string {
  return JSON.stringify({ object: 'response.input_tokens', input_tokens: tokens })
}

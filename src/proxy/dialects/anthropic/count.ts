// Anthropic's route that counts the tokens of a request: the same conversion as a generation, and a number back.
import type { JsonObject } from '../../json.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { reading } from '../reading.ts'
import { normalise } from './request.ts'

/** A part of a conversation can be counted too. */
export function readAnthropicCount(body: JsonObject, context: ReadContext): ReadCount {
  return reading(() => {
    const { call } = normalise({ ...body, model: body.model ?? 'unnamed' }, context)
    return { countable: { kind: 'messages' as const, request: call.request } }
  })
}

export function writeAnthropicCount(tokens: number): string {
  return JSON.stringify({ input_tokens: tokens })
}

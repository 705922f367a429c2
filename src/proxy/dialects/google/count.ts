// Google's countTokens: the same conversion as a generation, and a number back.
import type { JsonObject } from '../../json.ts'
import type { ReadContext, ReadCount } from '../dialect.ts'
import { reading } from '../reading.ts'
import { fieldsOf, objectAt } from './fields.ts'
import { normalise } from './request.ts'

/** The body is contents alone, or a whole request in `generateContentRequest`. A part of a conversation can be counted too. */
export function readGoogleCount(body: JsonObject, context: ReadContext): ReadCount {
  return reading(() => {
    const fields = fieldsOf(body, '')
    const { call } = normalise(objectAt(fields, 'generateContentRequest') ?? fields, context)
    return { countable: { kind: 'messages' as const, request: call.request } }
  })
}

export function writeGoogleCount(tokens: number): string {
  return JSON.stringify({ totalTokens: tokens })
}

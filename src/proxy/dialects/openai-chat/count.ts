// vLLM's route that counts tokens, which OpenAI's chat API lacks: a text, or the conversation of a chat request, and numbers back.
import { describe, type JsonObject } from '../../json.ts'
import type { ModelEntry, ReadContext, ReadCount } from '../dialect.ts'
import { isAbsent, reading, refuse } from '../reading.ts'
import { normalise } from './request.ts'

/** A part of a conversation can be counted too. */
export function readChatCount(body: JsonObject, context: ReadContext): ReadCount {
  return reading(() => {
    const { prompt } = body
    if (typeof prompt === 'string') return { countable: { kind: 'text' as const, text: prompt } }
    if (!isAbsent(prompt)) return refuse('prompt', `expected a string, got ${describe(prompt)}`)
    const { call } = normalise({ ...body, model: body.model ?? 'unnamed' }, context)
    return { countable: { kind: 'messages' as const, request: call.request } }
  })
}

export function writeChatCount(tokens: number, model: ModelEntry): string {
  return JSON.stringify({ count: tokens, max_model_len: model.maxModelLen, tokens: null })
}

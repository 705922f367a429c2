// vLLM's route that counts tokens, which OpenAI's chat API lacks: a text, or the conversation of a chat request, and numbers back.
import { describe, type JsonObject } from '../../json.ts'
import type { ModelEntry, ReadContext, ReadCount } from '../dialect.ts'
import { isAbsent, reading, refuse } from '../reading.ts'
import { readChat } from './request.ts'

export function readChatCount(body: JsonObject, context: ReadContext): ReadCount {
  const { prompt } = body
  if (typeof prompt === 'string') return { ok: true, countable: { kind: 'text', text: prompt } }
  if (!isAbsent(prompt)) return reading(() => refuse('prompt', `expected a string, got ${describe(prompt)}`))
  const read = readChat({ model: 'unnamed', ...body }, context)
  return read.ok ? { ok: true, countable: { kind: 'messages', request: read.call.request } } : read
}

export function writeChatCount(tokens: number, model: ModelEntry): string {
  return JSON.stringify({ count: tokens, max_model_len: model.maxModelLen, tokens: null })
}

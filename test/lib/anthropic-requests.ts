// Anthropic requests as tests write them, and what the reader makes of them.
import type { ChatMessage } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

export type Tier = 'train' | 'eval'
export const context = (tier: Tier) => ({ tier, pins: {}, url: { model: null, form: null } })
export const CALL = 'ab'.repeat(16)
export const user = { role: 'user', content: 'hi' }
export const tool = { name: 'f', description: 'd', input_schema: { type: 'object', properties: { a: { type: 'string' } } } }
export const served = { type: 'function', function: { name: 'f', description: 'd', parameters: tool.input_schema } }
export const words = (text: string) => ({ type: 'text', text })
export const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } }
export const shown = { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } }
export const use = (id: string, input: unknown = {}) => ({ type: 'tool_use', id, name: 'f', input })
export const called = (id: string, text = '{}') => ({ id, type: 'function', function: { name: 'f', arguments: text } })
export const result = (id: string, content?: unknown) => ({
  type: 'tool_result',
  tool_use_id: id,
  ...(content === undefined ? {} : { content }),
})
export const answered = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content })
export const said = (content: unknown) => ({ role: 'assistant', content })
export const asked = (content: unknown) => ({ role: 'user', content })
export const told = (content: unknown) => ({ role: 'system', content })
export const BILLING = 'x-anthropic-billing-header: cc_version=9.9.9.aaa; cc_entrypoint=cli; cch=11111;'

function read(body: JsonObject, tier: Tier = 'eval') {
  return anthropic.read({ model: 'm', max_tokens: 100, messages: [user], ...body }, context(tier))
}

export function accepted(body: JsonObject, tier: Tier = 'eval') {
  const result = read(body, tier)
  if (!result.ok) throw new Error(result.failure.message)
  return result.call
}

export function refused(body: JsonObject, tier: Tier = 'eval') {
  const result = read(body, tier)
  if (result.ok) throw new Error('accepted')
  return result.failure
}

export function messages(given: readonly unknown[], system?: unknown): readonly ChatMessage[] {
  return accepted({ messages: given, ...(system === undefined ? {} : { system }) }).request.messages
}

export const codes = (body: JsonObject) => accepted(body).diagnostics.map(({ code }) => code)

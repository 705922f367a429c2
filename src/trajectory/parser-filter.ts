// Whether an answer holds a tool call that its parser could not read. Polar gives such a row reward 0 and keeps it trainable.
import type { CallRecord } from '../contract/call.ts'
import type { Conversation } from './conversation.ts'

const FENCE = /^\s*(```|~~~)/
const BARE_CALL = /^\s*(<tool_call>|<function=)/

/** True on an explicit parser error, on a tool-call ending without a structured call, and on call markup outside code fences. */
export function hasUnparsedToolCall(record: CallRecord, conversation: Conversation): boolean {
  if (record.responseMessage === null) return false
  const message = conversation.message(record.responseMessage)
  if (message.tool_call_parse_error != null || message.tool_parse_error != null) return true
  const hasCalls = Array.isArray(message.tool_calls) && message.tool_calls.length > 0
  if (record.finishReason === 'tool_calls' && !hasCalls) return true
  return holdsBareCall(conversation.text(record.responseMessage))
}

function holdsBareCall(text: string): boolean {
  let isFenced = false
  for (const line of text.split('\n')) {
    if (FENCE.test(line)) isFenced = !isFenced
    else if (!isFenced && BARE_CALL.test(line)) return true
  }
  return false
}

// Calls in history whose arguments are no JSON object, which a model does sample and some engines refuse to be shown again.
import type { ChatMessage, ToolCall } from './chat.ts'
import { parseObject } from './json.ts'

/**
 * The messages with `{}` in place of such arguments, and how many there were; null when all are sound. Engines parse the arguments of every
 * earlier call for their chat template, and until mid 2026 vLLM and SGLang answered one that does not parse with an error, in each later
 * turn again (vllm#47761): one bad sample would end the session.
 */
export function withSoundArguments(
  messages: readonly ChatMessage[],
): { readonly messages: readonly ChatMessage[]; readonly replaced: number } | null {
  let replaced = 0
  const sound = (call: ToolCall): ToolCall => {
    const { name, arguments: text } = call.function
    if (text === '' || parseObject(text) !== null) return call
    replaced += 1
    return { ...call, function: { name, arguments: '{}' } }
  }
  const changed = messages.map((message) =>
    message.role === 'assistant' && message.tool_calls !== undefined ? { ...message, tool_calls: message.tool_calls.map(sound) } : message,
  )
  return replaced === 0 ? null : { messages: changed, replaced }
}

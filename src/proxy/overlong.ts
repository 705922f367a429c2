// Conversations that no context holds, told by their characters alone: an engine that tokenizes megabytes serves nobody meanwhile.
import type { ChatMessage, ContentPart, Countable } from './chat.ts'

/** No text has so many on average: only runs of one character come near. */
const MAX_CHARS_PER_TOKEN = 64

/** False when the context is not known. */
export function isOverlong(countable: Countable, contextTokens: number | null): boolean {
  return contextTokens !== null && charsIn(countable) > contextTokens * MAX_CHARS_PER_TOKEN
}

function charsIn(countable: Countable): number {
  if (countable.kind === 'text') return countable.text.length
  const { messages, tools } = countable.request
  return messages.reduce((sum, message) => sum + charsOf(message), tools === null ? 0 : JSON.stringify(tools).length)
}

function charsOf(message: ChatMessage): number {
  const said = contentChars(message.content)
  if (message.role !== 'assistant') return said
  const { reasoning_content: reasoning = '', tool_calls: calls = [] } = message
  return calls.reduce((sum, call) => sum + call.function.arguments.length, said + reasoning.length)
}

/** Images have their own price. */
function contentChars(content: string | readonly ContentPart[] | null): number {
  if (content === null || typeof content === 'string') return content?.length ?? 0
  return content.reduce((sum, { text }) => sum + (typeof text === 'string' ? text.length : 0), 0)
}

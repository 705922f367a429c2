// One turn of the model as the pivot's message: what has nothing to say is left out of it.
import type { AssistantMessage, ContentPart, ToolCall } from '../chat.ts'

export type AssistantTurn = {
  readonly content: string | readonly ContentPart[]
  readonly reasoning: string
  readonly calls: readonly ToolCall[]
  /** The call whose answer it is, where something that came with it says so. */
  readonly origin: string | null
}

export function assistantMessage({ content, reasoning, calls, origin }: AssistantTurn): AssistantMessage {
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(origin === null ? {} : { origin }),
  }
}

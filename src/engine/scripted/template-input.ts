// Chat messages and tools as vLLM hands them to the chat template.
import type { ChatMessage, ChatTool } from '../wire/chat-request.ts'
import { pythonJson, pythonJsonOf } from './python-json.ts'

type TemplateMessage = {
  readonly role: string
  readonly content: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[]
}

/** The first content part that is not text, which Qwen3 cannot take; null when there is none. */
export function unsupportedPart(messages: readonly ChatMessage[]): string | null {
  for (const message of messages) {
    const part = Array.isArray(message.content) ? message.content.find((each) => each.text === undefined) : undefined
    if (part !== undefined) return part.type
  }
  return null
}

export function templateMessages(messages: readonly ChatMessage[]): readonly TemplateMessage[] {
  return messages.map((message) => {
    const reasoning = message.reasoning ?? message.reasoning_content
    const calls = message.tool_calls ?? []
    return {
      role: message.role,
      content: contentText(message),
      ...(reasoning === null || reasoning === undefined ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => ({ function: templateCall(call.function) })) }),
    }
  })
}

/** Text parts are joined by line breaks; no content is no text. */
export function contentText(message: ChatMessage): string {
  if (Array.isArray(message.content)) return message.content.map((part) => part.text ?? '').join('\n')
  return message.content ?? ''
}

/**
 * vLLM parses the arguments and the template dumps them again. Both steps are done here at once, because numbers such
 * as 1.0 would not survive JavaScript's parse: the template prints a string as it stands.
 */
function templateCall(call: { readonly name: string; readonly arguments?: unknown }): {
  readonly name: string
  readonly arguments: string
} {
  return { name: call.name, arguments: argumentsText(call.arguments) }
}

function argumentsText(value: unknown): string {
  if (value === undefined || value === null || value === '') return '{}'
  if (typeof value !== 'string') return pythonJson(JSON.stringify(value)) ?? '{}'
  const json = pythonJson(value)
  if (json === null) return value
  // Arguments that are themselves a JSON string are printed without quotes, as the template does for strings.
  return json.startsWith('"') ? JSON.parse(json) : json
}

/** Tools as JSON text, in the key order of vLLM's request model and with its nulls. */
export function templateTools(tools: readonly ChatTool[]): readonly string[] {
  return tools.map(({ type, function: { name, description, parameters, strict } }) =>
    pythonJsonOf({
      type,
      function: {
        name,
        description: description ?? null,
        parameters: parameters ?? null,
        ...(strict === null || strict === undefined ? {} : { strict }),
      },
    }),
  )
}

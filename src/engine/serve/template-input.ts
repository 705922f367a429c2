// Chat messages and tools as vLLM hands them to the chat template.

import { pythonJson, pythonJsonOf } from '../../python-json.ts'
import type { ChatMessage, ChatTool, ContentPart } from '../wire/chat-request.ts'

type TemplateMessage = {
  readonly role: string
  readonly content: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[]
}

/** How Qwen-VL's template writes an image. A real engine then repeats the pad once per patch; here it stays one. */
const IMAGE = '<|vision_start|><|image_pad|><|vision_end|>'

/** The type of the first content part that is neither text nor, where they are taken, an image; null when there is none. */
export function unsupportedPart(messages: readonly ChatMessage[], takesImages: boolean): string | null {
  const isTaken = (part: ContentPart) => part.text !== undefined || (takesImages && isImage(part))
  for (const message of messages) {
    const part = Array.isArray(message.content) ? message.content.find((each) => !isTaken(each)) : undefined
    if (part !== undefined) return part.type
  }
  return null
}

/** Where the images of a conversation are, in order: they show in the prompt's ids as placeholders only. */
export function imageUrls(messages: readonly ChatMessage[]): readonly string[] {
  const parts = messages.flatMap((message) => (Array.isArray(message.content) ? message.content : []))
  return parts.flatMap((part) => (isImage(part) ? [part.image_url?.url ?? ''] : []))
}

function isImage(part: ContentPart): boolean {
  return part.type === 'image_url' && part.image_url !== undefined
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

/** Text parts alone are joined by line breaks; among images all parts follow each other as Qwen-VL's template has them. */
export function contentText(message: ChatMessage): string {
  const { content } = message
  if (!Array.isArray(content)) return content ?? ''
  return content.map((part) => (isImage(part) ? IMAGE : (part.text ?? ''))).join(content.some(isImage) ? '' : '\n')
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

/** Tools in the key order of vLLM's request model and with its nulls. */
export function toolObjects(tools: readonly ChatTool[]): readonly object[] {
  return tools.map(({ type, function: { name, description, parameters, strict } }) => ({
    type,
    function: {
      name,
      description: description ?? null,
      parameters: parameters ?? null,
      ...(strict === null || strict === undefined ? {} : { strict }),
    },
  }))
}

/** The same as JSON text. */
export function templateTools(tools: readonly ChatTool[]): readonly string[] {
  return toolObjects(tools).map(pythonJsonOf)
}

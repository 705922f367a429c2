// The messages of chat completions, which are the pivot's but for what clients add to them.
import type { Diagnostic } from '../../../contract/call.ts'
import type { AssistantMessage, ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { describe, type JsonObject } from '../../json.ts'
import { note, noteDropped } from '../../notes.ts'
import { imagePart, knownDetail, textPart } from '../content.ts'
import { isAbsent, list, object, refuse, text } from '../reading.ts'
import { mergeLeadingSystem } from '../system-messages.ts'

export function readMessages(value: unknown, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  const given = list(value, 'messages')
  if (given.length === 0) refuse('messages', 'must hold at least one message')
  return mergeLeadingSystem(given.map((message, index) => readMessage(message, `messages[${index}]`, diagnostics)))
}

const PLAIN_FIELDS = new Set(['role', 'content', 'name'])
const TOOL_FIELDS = new Set(['role', 'content', 'tool_call_id', 'name'])
const ASSISTANT_FIELDS = new Set(['role', 'content', 'name', 'tool_calls', 'reasoning_content', 'reasoning'])

function readMessage(value: unknown, place: string, diagnostics: Diagnostic[]): ChatMessage {
  const message = object(value, place)
  const { role } = message
  const content = () => readContent(message.content, `${place}.content`, diagnostics)
  const name = isAbsent(message.name) ? {} : { name: text(message.name, `${place}.name`) }
  switch (role) {
    case 'system':
    case 'developer':
      noteDropped(message, PLAIN_FIELDS, place, diagnostics)
      return { role: 'system', content: content(), ...name }
    case 'user':
      noteDropped(message, PLAIN_FIELDS, place, diagnostics)
      return { role, content: content(), ...name }
    case 'tool':
      noteDropped(message, TOOL_FIELDS, place, diagnostics)
      return { role, tool_call_id: text(message.tool_call_id, `${place}.tool_call_id`), content: content() }
    case 'assistant':
      noteDropped(message, ASSISTANT_FIELDS, place, diagnostics)
      return { ...readAssistant(message, place, diagnostics), ...name }
    default:
      return refuse(`${place}.role`, `expected system, developer, user, assistant or tool, got ${JSON.stringify(role) ?? 'nothing'}`)
  }
}

function readAssistant(message: JsonObject, place: string, diagnostics: Diagnostic[]): AssistantMessage {
  const calls = readToolCalls(message.tool_calls, `${place}.tool_calls`)
  const field = isAbsent(message.reasoning_content) ? 'reasoning' : 'reasoning_content'
  const reasoning = isAbsent(message[field]) ? '' : text(message[field], `${place}.${field}`, true)
  return {
    role: 'assistant',
    content: isAbsent(message.content) ? null : readContent(message.content, `${place}.content`, diagnostics),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** As it came: texts alone stay parts, which engines read as well. */
function readContent(content: unknown, place: string, diagnostics: Diagnostic[]): string | readonly ContentPart[] {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return refuse(place, `expected a string or an array of parts, got ${describe(content)}`)
  return content.map((value: unknown, index) => readPart(object(value, `${place}[${index}]`), `${place}[${index}]`, diagnostics))
}

/** Cache marks move from turn to turn and would make equal texts differ. */
const TEXT_FIELDS = new Set(['type', 'text', 'refusal', 'cache_control', 'annotations'])
const IMAGE_FIELDS = new Set(['type', 'image_url', 'cache_control'])
const NO_FIELDS: ReadonlySet<string> = new Set()

function readPart(part: JsonObject, place: string, diagnostics: Diagnostic[]): ContentPart {
  const type = text(part.type, `${place}.type`)
  switch (type) {
    case 'text':
    case 'refusal':
      noteDropped(part, TEXT_FIELDS, place, diagnostics)
      return textPart(text(part[type], `${place}.${type}`, true))
    case 'image_url': {
      noteDropped(part, IMAGE_FIELDS, place, diagnostics)
      const here = `${place}.image_url`
      const { image_url: image } = part
      if (typeof image === 'string') return imagePart(image, here)
      const { url, detail, ...others } = object(image, here)
      noteDropped(others, NO_FIELDS, here, diagnostics)
      const known = knownDetail(detail)
      if (known === undefined && !isAbsent(detail)) note('field-dropped', `${here}.detail`, diagnostics)
      return imagePart(text(url, `${here}.url`), `${here}.url`, known)
    }
    // Engines know more kinds, some of which they fetch or read from a cache that all sessions share.
    default:
      return refuse(`${place}.type`, `a part of type ${JSON.stringify(type)} cannot be given to the model here; text and image_url can`)
  }
}

function readToolCalls(value: unknown, place: string): readonly ToolCall[] {
  if (isAbsent(value)) return []
  return list(value, place).map((given, index) => {
    const here = `${place}[${index}]`
    const call = object(given, here)
    const definition = object(call.function, `${here}.function`)
    return {
      id: text(call.id, `${here}.id`),
      type: 'function',
      function: {
        name: text(definition.name, `${here}.function.name`),
        arguments: text(definition.arguments, `${here}.function.arguments`, true),
      },
    }
  })
}

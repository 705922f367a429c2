// The messages of chat completions, which are the pivot's but for what clients add to them.
import type { Diagnostic } from '../../../contract/call.ts'
import type { AssistantMessage, ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { describe, type JsonObject } from '../../json.ts'
import { noteDropped } from '../../notes.ts'
import { textPart } from '../content.ts'
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
  const content = () => readContent(message.content, `${place}.content`)
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
      return { ...readAssistant(message, place), ...name }
    default:
      return refuse(`${place}.role`, `expected system, developer, user, assistant or tool, got ${JSON.stringify(role) ?? 'nothing'}`)
  }
}

function readAssistant(message: JsonObject, place: string): AssistantMessage {
  const calls = readToolCalls(message.tool_calls, `${place}.tool_calls`)
  const field = isAbsent(message.reasoning_content) ? 'reasoning' : 'reasoning_content'
  const reasoning = isAbsent(message[field]) ? '' : text(message[field], `${place}.${field}`, true)
  return {
    role: 'assistant',
    content: isAbsent(message.content) ? null : readContent(message.content, `${place}.content`),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

/** As it came: texts alone stay parts, which engines read as well. */
function readContent(content: unknown, place: string): string | readonly ContentPart[] {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return refuse(place, `expected a string or an array of parts, got ${describe(content)}`)
  return content.map((value: unknown, index) => {
    const here = `${place}[${index}]`
    // Cache marks move from turn to turn and would make equal texts differ.
    const { cache_control: _mark, ...part } = object(value, here)
    const type = text(part.type, `${here}.type`)
    if (type === 'text') return textPart(text(part.text, `${here}.text`, true))
    if (type === 'refusal') return textPart(text(part.refusal, `${here}.refusal`, true))
    return { ...part, type }
  })
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

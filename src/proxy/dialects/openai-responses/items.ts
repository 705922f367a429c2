// One item of a request's input, read: what was said, what a tool gave back, which tools it brings.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import { failure } from '../../failure.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { note, noteDropped } from '../../notes.ts'
import { contentOf, textOf, textPart } from '../content.ts'
import { isAbsent, object, refuse, refuseWith, text } from '../reading.ts'
import { signedCall } from '../signature.ts'
import { freeformArguments } from './freeform.ts'
import { callOfItem } from './item-ids.ts'
import { isContentType, readPart, readParts } from './parts.ts'
import { shellArguments } from './shell.ts'
import { engineName } from './tool-names.ts'
import { readShellOutput, readToolOutput, type ToolOutput } from './tool-output.ts'
import type { ToolSource } from './tools.ts'

export type Piece =
  /** Part of an assistant's turn; `origin` is the call whose answer it is, where the item says so. */
  | { readonly type: 'said'; readonly origin: string | null; readonly what: Said; readonly place: string }
  | { readonly type: 'result'; readonly of: string; readonly output: ToolOutput; readonly place: string }
  | { readonly type: 'message'; readonly message: ChatMessage }
  /** A part without a message around it. */
  | { readonly type: 'part'; readonly part: ContentPart }
  | { readonly type: 'tools'; readonly source: ToolSource }

export type Said =
  | { readonly type: 'reasoning'; readonly text: string }
  | { readonly type: 'text'; readonly parts: readonly ContentPart[] }
  | { readonly type: 'call'; readonly call: ToolCall; readonly itemId: string | null }

/** Clients mark items with these for themselves. */
const MARKS = ['type', 'id', 'status', 'phase', 'caller', 'async', 'created_by', 'metadata', 'internal_chat_message_metadata_passthrough']
const fields = (names: string): ReadonlySet<string> => new Set([...MARKS, ...names.split(' ')])
const ACTION = fields('call_id action environment')
const SEARCH = fields('call_id execution arguments tools')
const OUTPUT = fields('call_id output name namespace max_output_length')
/** What is read of each kind of item. */
const ITEM_FIELDS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['message', fields('role content')],
  ['reasoning', fields('summary content encrypted_content')],
  ['function_call', fields('call_id name namespace arguments')],
  ['custom_tool_call', fields('call_id name namespace input')],
  ['shell_call', ACTION],
  ['local_shell_call', ACTION],
  ['tool_search_call', SEARCH],
  ['function_call_output', OUTPUT],
  ['custom_tool_call_output', OUTPUT],
  ['shell_call_output', OUTPUT],
  ['local_shell_call_output', OUTPUT],
  ['tool_search_output', SEARCH],
  ['additional_tools', fields('role tools')],
])

/** What the item tells, in order; nothing for an item that a chat engine cannot be told. */
export function readItem(value: unknown, place: string, diagnostics: Diagnostic[]): readonly Piece[] {
  const item = object(value, place)
  const type = item.type ?? (isAbsent(item.role) ? 'item_reference' : 'message')
  if (typeof type !== 'string') return refuse(`${place}.type`, `expected a string, got ${describe(type)}`)
  if (isContentType(type)) return readPart(item, place, diagnostics).map((part) => ({ type: 'part', part }))
  const known = ITEM_FIELDS.get(type)
  if (known !== undefined) noteDropped(item, known, place, diagnostics)
  switch (type) {
    case 'message':
      return [readMessage(item, place, diagnostics)]
    case 'reasoning':
      return [readReasoning(item, place, diagnostics)]
    case 'function_call':
      return [called(item, place, nameOf(item, place), argumentsText(item.arguments, `${place}.arguments`))]
    case 'custom_tool_call':
      return [called(item, place, nameOf(item, place), freeformArguments(text(item.input, `${place}.input`, true)))]
    case 'shell_call':
      return [called(item, place, 'shell', shellArguments(object(item.action, `${place}.action`)))]
    case 'local_shell_call':
      return [called(item, place, 'local_shell', shellArguments(object(item.action, `${place}.action`)))]
    case 'tool_search_call':
      // One without an id was made by the vendor, as was its output.
      if (isAbsent(item.call_id)) break
      return [called(item, place, 'tool_search', argumentsText(item.arguments, `${place}.arguments`))]
    case 'function_call_output':
    case 'custom_tool_call_output':
    case 'local_shell_call_output': {
      const output = readToolOutput(item.output, `${place}.output`, diagnostics)
      return [isUncalled(item) ? told(item, place, output, diagnostics) : gave(item, place, output)]
    }
    case 'shell_call_output':
      return [gave(item, place, readShellOutput(item.output, `${place}.output`))]
    case 'tool_search_output': {
      const found: Piece = { type: 'tools', source: { value: item.tools ?? [], place: `${place}.tools` } }
      return isAbsent(item.call_id) ? [found] : [found, gave(item, place, { text: foundNames(item.tools), images: [] })]
    }
    case 'additional_tools':
      return [{ type: 'tools', source: { value: item.tools, place: `${place}.tools` } }]
    case 'item_reference':
      return refuseReference(item, place)
    case 'compaction':
    case 'compaction_summary':
    case 'compaction_trigger':
    case 'context_compaction':
      return refuse(place, `items of type ${type} are not served: let the client summarise its conversation itself`)
    default:
  }
  note('block-dropped', `${place}: ${type}`, diagnostics)
  return []
}

function said(item: JsonObject, place: string, what: Said, signed: string | null = null): Piece {
  return { type: 'said', origin: signed ?? callOfItem(item.id), what, place }
}

function called(item: JsonObject, place: string, name: string, args: string): Piece {
  const call: ToolCall = { id: calledId(item, place), type: 'function', function: { name, arguments: args } }
  return said(item, place, { type: 'call', call, itemId: typeof item.id === 'string' ? item.id : null })
}

function gave(item: JsonObject, place: string, output: ToolOutput): Piece {
  return { type: 'result', of: calledId(item, place), output, place }
}

function readMessage(item: JsonObject, place: string, diagnostics: Diagnostic[]): Piece {
  const { role, content } = item
  const parts = (): readonly ContentPart[] => readParts(content, `${place}.content`, diagnostics)
  switch (role) {
    case 'assistant':
      return said(item, place, { type: 'text', parts: isAbsent(content) ? [] : parts() })
    case 'system':
    case 'developer':
      return { type: 'message', message: { role: 'system', content: contentOf(parts()) } }
    case 'user':
      return { type: 'message', message: { role, content: contentOf(parts()) } }
    default:
      return refuse(`${place}.role`, `expected user, assistant, system or developer, got ${JSON.stringify(role) ?? 'nothing'}`)
  }
}

function readReasoning(item: JsonObject, place: string, diagnostics: Diagnostic[]): Piece {
  const { encrypted_content: signature } = item
  const signed = signedCall(signature)
  if (signed === null && !isAbsent(signature)) note('signature-unknown', `${place}.encrypted_content`, diagnostics)
  return said(item, place, { type: 'reasoning', text: reasoningText(item, place, diagnostics) }, signed)
}

/** The reasoning itself where the item holds it, else its summary. */
function reasoningText(item: JsonObject, place: string, diagnostics: Diagnostic[]): string {
  const read = (name: 'content' | 'summary'): string =>
    isAbsent(item[name]) ? '' : textOf(readParts(item[name], `${place}.${name}`, diagnostics))
  const content = read('content')
  return content === '' ? read('summary') : content
}

/** What a client's tool says unasked, such as the goal that Codex keeps: it names the tool instead of a call. */
function isUncalled({ call_id: callId, name }: JsonObject): boolean {
  return isAbsent(callId) && !isAbsent(name)
}

/** A chat engine knows results of calls only: the user says it, under the tool's name. */
function told(item: JsonObject, place: string, output: ToolOutput, diagnostics: Diagnostic[]): Piece {
  note('role-approximated', `${place}: the output of a tool that was not called stands in a user message`, diagnostics)
  const parts = [textPart(`${nameOf(item, place)}:\n${output.text}`), ...output.images]
  return { type: 'message', message: { role: 'user', content: contentOf(parts) } }
}

function nameOf(item: JsonObject, place: string): string {
  const namespace = isAbsent(item.namespace) ? null : text(item.namespace, `${place}.namespace`)
  return engineName(namespace, text(item.name, `${place}.name`))
}

/** Kept as it is; a client that holds arguments as an object gets them printed. */
function argumentsText(value: unknown, place: string): string {
  if (isAbsent(value)) return ''
  return isObject(value) ? JSON.stringify(value) : text(value, place, true)
}

/** Calls and outputs of the local shell may be known by the item's id alone. */
function calledId(item: JsonObject, place: string): string {
  return text(isAbsent(item.call_id) && typeof item.id === 'string' ? item.id : item.call_id, `${place}.call_id`)
}

/** What a search found, for the model: from now on these tools stand in its list. */
function foundNames(tools: unknown): string {
  const names = (Array.isArray(tools) ? tools : []).flatMap((tool: unknown) => {
    if (!isObject(tool) || typeof tool.name !== 'string') return []
    const { name } = tool
    if (tool.type !== 'namespace' || !Array.isArray(tool.tools)) return [name]
    return tool.tools.flatMap((member: unknown) =>
      isObject(member) && typeof member.name === 'string' ? [engineName(name, member.name)] : [],
    )
  })
  return names.length === 0 ? 'No tools were found.' : `These tools can now be called: ${names.join(', ')}`
}

function refuseReference(item: JsonObject, place: string): never {
  const param = `${place}.id`
  const named = typeof item.id === 'string' ? JSON.stringify(item.id) : describe(item.id)
  refuseWith(failure('previous-response-unknown', `${param}: items are not stored here, and ${named} cannot be looked up`, { param }))
}

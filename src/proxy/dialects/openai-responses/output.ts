// The pivot's answer → output items: reasoning, message, calls, each in the form in which its tool was declared.
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ChatAnswer, ToolCall } from '../../chat.ts'
import { exactObject } from '../arguments.ts'
import type { AnswerIdentity } from '../dialect.ts'
import { signatureOf } from '../signature.ts'
import { bareText } from './freeform.ts'
import { itemId } from './item-ids.ts'
import { type LocalShellAction, localShellAction, type ShellAction, shellAction } from './shell.ts'
import type { Face } from './tools.ts'

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'
type SummaryPart = { readonly type: 'summary_text'; readonly text: string }
export type TextPart = {
  readonly type: 'output_text'
  readonly annotations: readonly []
  readonly logprobs: readonly []
  readonly text: string
}

export type ReasoningItem = {
  readonly id: string
  readonly type: 'reasoning'
  readonly summary: readonly SummaryPart[]
  readonly encrypted_content: string
}
export type MessageItem = {
  readonly id: string
  readonly type: 'message'
  readonly status: ItemStatus
  readonly role: 'assistant'
  readonly content: readonly TextPart[]
}
type CallItem<T extends string> = { readonly id: string; readonly type: T; readonly status: ItemStatus; readonly call_id: string }
type Named = { readonly name: string; readonly namespace?: string }
type FunctionCallItem = CallItem<'function_call'> & Named & { readonly arguments: string }
type CustomCallItem = CallItem<'custom_tool_call'> & Named & { readonly input: string }
/** Told whole: no event of theirs carries a part. */
type WholeCallItem =
  | (CallItem<'shell_call'> & { readonly action: ShellAction; readonly environment: null })
  | (CallItem<'local_shell_call'> & { readonly action: LocalShellAction })
  | (CallItem<'tool_search_call'> & { readonly execution: 'client'; readonly arguments: unknown })

export type OutputItem = ReasoningItem | MessageItem | FunctionCallItem | CustomCallItem | WholeCallItem

/** Never empty: an answer that says nothing has a message with an empty text. */
export function writeOutput(answer: ChatAnswer, identity: AnswerIdentity, faces: ReadonlyMap<string, Face>): readonly OutputItem[] {
  const { reasoning_content: reasoning, content, tool_calls: calls = [] } = answer.message
  const items: OutputItem[] = []
  if (reasoning !== undefined && reasoning !== '') items.push(reasoningItem(reasoning, identity.id, items.length))
  const text = content ?? ''
  if (text !== '' || calls.length === 0) {
    items.push(messageItem(text, calls.length === 0 ? lastStatus(answer) : 'completed', identity.id, items.length))
  }
  for (const [index, call] of calls.entries()) {
    const status = index === calls.length - 1 ? lastStatus(answer) : 'completed'
    items.push(writeCall(call, faces.get(call.function.name), status, identity.id, items.length))
  }
  return items
}

export function reasoningItem(text: string, of: string, place: number): ReasoningItem {
  return {
    id: itemId('reasoning', of, place),
    type: 'reasoning',
    summary: [{ type: 'summary_text', text }],
    encrypted_content: signatureOf(of),
  }
}

export function messageItem(text: string, status: ItemStatus, of: string, place: number): MessageItem {
  return { id: itemId('message', of, place), type: 'message', status, role: 'assistant', content: [outputText(text)] }
}

export function outputText(text: string): TextPart {
  return { type: 'output_text', annotations: [], logprobs: [], text }
}

/** Only what was sampled last can be unfinished. */
export function lastStatus({ finishReason }: ChatAnswer): ItemStatus {
  return finishReason === 'length' || finishReason === 'content_filter' ? 'incomplete' : 'completed'
}

/** A tool that was not declared is told as a function: the client knows best what to say to it. */
export function writeCall(call: ToolCall, face: Face | undefined, status: ItemStatus, of: string, place: number): OutputItem {
  const { name, arguments: argumentsText } = call.function
  const known = face ?? { kind: 'function', name, namespace: null }
  const rest = { status, call_id: call.id }
  switch (known.kind) {
    case 'function':
      return { id: itemId('function_call', of, place), type: 'function_call', ...rest, ...named(known), arguments: argumentsText }
    case 'custom':
      return {
        id: itemId('custom_tool_call', of, place),
        type: 'custom_tool_call',
        ...rest,
        ...named(known),
        input: bareText(argumentsText),
      }
    case 'shell':
      return { id: itemId('shell_call', of, place), type: 'shell_call', ...rest, action: shellAction(argumentsText), environment: null }
    case 'local-shell':
      return { id: itemId('local_shell_call', of, place), type: 'local_shell_call', ...rest, action: localShellAction(argumentsText) }
    case 'tool-search':
      return {
        id: itemId('tool_search_call', of, place),
        type: 'tool_search_call',
        ...rest,
        execution: 'client',
        // An object, as the client's own schema has it; what is none is given as it was written.
        arguments: exactObject(argumentsText) ?? argumentsText,
      }
    default:
      return unreachable(known)
  }
}

function named({ name, namespace }: { readonly name: string; readonly namespace: string | null }): Named {
  return namespace === null ? { name } : { name, namespace }
}

// Anthropic's messages → the pivot's: one message per assistant turn, results directly after their calls, system messages in place.
import type { Diagnostic } from '../../../contract/call.ts'
import type { AssistantMessage, ChatMessage, ContentPart, ToolCall } from '../../chat.ts'
import type { JsonObject } from '../../json.ts'
import { note, noteDropped } from '../../notes.ts'
import { assistantMessage } from '../assistant-message.ts'
import { contentOf, textOf } from '../content.ts'
import { isAbsent, list, object, refuse, text } from '../reading.ts'
import { signedCall } from '../signature.ts'
import { mergeLeadingSystem } from '../system-messages.ts'
import { isServerBlock, readBlock, readContent, readParts, type TypedBlock } from './blocks.ts'
import { readSystem } from './system.ts'

const MESSAGE_FIELDS = new Set(['role', 'content'])
/** A system message's effort is told for one turn only, which no template knows. */
const SYSTEM_FIELDS = new Set(['role', 'content', 'output_config'])

export function readMessages(system: unknown, messages: unknown, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  const given = list(messages, 'messages')
  const read = given.flatMap((message, index) => readMessage(message, `messages[${index}]`, diagnostics))
  if (read.length === 0) refuse('messages', 'hold nothing that can be given to the model')
  const joined = joinTurns(mergeLeadingSystem([...readSystem(system, 'system', diagnostics), ...read]))
  if (joined.at(-1)?.role === 'assistant') note('prefill-ignored', 'the last message: its answer begins anew', diagnostics)
  return placeResults(joined, diagnostics)
}

function readMessage(value: unknown, place: string, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  const message = object(value, place)
  const { role, content } = message
  switch (role) {
    // Never moved to the front: what is said late would change the head of every later prompt. One that asks to be
    // forgotten after a turn is kept too, since a prompt only grows.
    case 'system':
      noteDropped(message, SYSTEM_FIELDS, place, diagnostics)
      return readSystem(content, `${place}.content`, diagnostics)
    case 'user':
      noteDropped(message, MESSAGE_FIELDS, place, diagnostics)
      if (typeof content === 'string') return [{ role, content }]
      return readUser(list(content, `${place}.content`), `${place}.content`, diagnostics)
    case 'assistant':
      noteDropped(message, MESSAGE_FIELDS, place, diagnostics)
      if (typeof content === 'string') return [{ role, content }]
      return [readAssistant(list(content, `${place}.content`), `${place}.content`, diagnostics)]
    default:
      return refuse(`${place}.role`, `expected user, assistant or system, got ${JSON.stringify(role) ?? 'nothing'}`)
  }
}

const RESULT_FIELDS = new Set(['type', 'tool_use_id', 'content', 'is_error', 'cache_control', 'toolset_name'])

/**
 * Results become `tool` messages before the user's own words. What they show goes to the user message: chat templates and the
 * OpenAI shape know only text in tool messages (vLLM refuses images there for some models, and moves them itself on its Messages route).
 */
function readUser(blocks: readonly unknown[], place: string, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  if (blocks.length === 0) return refuse(place, 'must hold at least one block')
  const results: ChatMessage[] = []
  const images: ContentPart[] = []
  const own: ContentPart[] = []
  for (const [index, value] of blocks.entries()) {
    const here = `${place}[${index}]`
    const block = readBlock(value, here)
    if (block.type === 'tool_result') {
      if (own.length > 0) note('order-approximated', `${here}: moved before what stood in front of it`, diagnostics)
      noteDropped(block, RESULT_FIELDS, here, diagnostics)
      const parts = isAbsent(block.content) ? [] : readContent(block.content, `${here}.content`, diagnostics)
      const words = textOf(parts)
      for (const part of parts) if (part.type !== 'text') images.push(part)
      results.push({
        role: 'tool',
        tool_call_id: text(block.tool_use_id, `${here}.tool_use_id`),
        content: block.is_error === true ? `[Tool Error] ${words}` : words,
      })
    } else if (isServerBlock(block)) {
      note('block-dropped', `${here}: ${block.type}`, diagnostics)
    } else {
      for (const part of readParts(block, here, diagnostics)) own.push(part)
    }
  }
  const parts = [...images, ...own]
  return parts.length === 0 ? results : [...results, { role: 'user', content: contentOf(parts) }]
}

const THINKING_FIELDS = new Set(['type', 'thinking', 'signature', 'cache_control'])
const TEXT_FIELDS = new Set(['type', 'text', 'cache_control', 'citations'])
const TOOL_USE_FIELDS = new Set(['type', 'id', 'name', 'input', 'cache_control', 'caller', 'toolset_name'])

/** Reasoning, then text, then calls, as one message; the blocks of our own answers stand in that order. */
function readAssistant(blocks: readonly unknown[], place: string, diagnostics: Diagnostic[]): AssistantMessage {
  const thoughts: string[] = []
  const texts: string[] = []
  const calls: ToolCall[] = []
  let origin: string | null = null
  const sign = (signature: unknown, here: string): void => {
    const call = signedCall(signature)
    if (call === null) note('signature-unknown', here, diagnostics)
    origin ??= call
  }
  for (const [index, value] of blocks.entries()) {
    const here = `${place}[${index}]`
    const block = readBlock(value, here)
    switch (block.type) {
      case 'thinking':
        noteDropped(block, THINKING_FIELDS, here, diagnostics)
        if (texts.length > 0 || calls.length > 0) note('order-approximated', here, diagnostics)
        thoughts.push(text(block.thinking, `${here}.thinking`, true))
        sign(block.signature, here)
        break
      case 'redacted_thinking':
        sign(block.data, here)
        break
      case 'text':
        noteDropped(block, TEXT_FIELDS, here, diagnostics)
        if (calls.length > 0) note('order-approximated', here, diagnostics)
        texts.push(text(block.text, `${here}.text`, true))
        break
      case 'tool_use':
        noteDropped(block, TOOL_USE_FIELDS, here, diagnostics)
        calls.push(readToolUse(block, here))
        break
      // The vendor's own summary of what came before: all that is left of it.
      case 'compaction':
        if (isAbsent(block.content)) note('block-dropped', `${here}: ${block.type}`, diagnostics)
        else texts.push(text(block.content, `${here}.content`, true))
        break
      default:
        if (!isServerBlock(block)) refuse(here, `a block of type ${JSON.stringify(block.type)} cannot stand in an assistant message`)
        note('block-dropped', `${here}: ${block.type}`, diagnostics)
    }
  }
  return assistantMessage({ reasoning: joinLines(thoughts), content: joinLines(texts), calls, origin })
}

function readToolUse(block: TypedBlock, place: string): ToolCall {
  const input = isAbsent(block.input) ? {} : object(block.input, `${place}.input`)
  return {
    id: text(block.id, `${place}.id`),
    type: 'function',
    function: { name: text(block.name, `${place}.name`), arguments: printed(input, `${place}.input`) },
  }
}

/** JSON that could be parsed may still be nested too deeply to be printed. */
function printed(input: JsonObject, place: string): string {
  try {
    return JSON.stringify(input)
  } catch {
    return refuse(place, 'is nested too deeply')
  }
}

/** Empty texts are what an answer without words is told as. */
function joinLines(lines: readonly string[]): string {
  return lines.filter((line) => line !== '').join('\n')
}

/** Neighbouring assistant messages are one turn, as the vendor has it, unless they are known to be answers to two calls. */
function joinTurns(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const turns: ChatMessage[] = []
  let turn: AssistantMessage[] = []
  let origin: string | undefined
  const end = (): void => {
    if (turn.length > 0) turns.push(joined(turn))
    turn = []
    origin = undefined
  }
  for (const message of messages) {
    if (message.role !== 'assistant') {
      end()
      turns.push(message)
      continue
    }
    if (origin !== undefined && message.origin !== undefined && message.origin !== origin) end()
    turn.push(message)
    origin ??= message.origin
  }
  end()
  return turns
}

function joined(turn: readonly AssistantMessage[]): AssistantMessage {
  return assistantMessage({
    reasoning: joinLines(turn.map((message) => message.reasoning_content ?? '')),
    content: joinLines(turn.map(({ content }) => (typeof content === 'string' ? content : ''))),
    calls: turn.flatMap((message) => message.tool_calls ?? []),
    origin: turn.find((message) => message.origin !== undefined)?.origin ?? null,
  })
}

/** Templates want a result directly after its call: what stands between goes behind it. Nothing else changes place. */
function placeResults(messages: readonly ChatMessage[], diagnostics: Diagnostic[]): readonly ChatMessage[] {
  const placed: ChatMessage[] = []
  let called: ReadonlySet<string> = new Set()
  /** What belongs behind the results of the last calling message. */
  let behind: ChatMessage[] = []
  for (const message of messages) {
    if (message.role === 'tool' && called.has(message.tool_call_id)) {
      if (behind.length > 0) note('order-approximated', `the result of ${message.tool_call_id}`, diagnostics)
      placed.push(message)
    } else if (message.role === 'assistant' && message.tool_calls !== undefined) {
      for (const each of behind) placed.push(each)
      behind = []
      placed.push(message)
      called = new Set(message.tool_calls.map((call) => call.id))
    } else behind.push(message)
  }
  return [...placed, ...behind]
}

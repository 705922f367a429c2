// The answers of one session, put back byte for byte when a client returns them in its own spelling.
import { createHash } from 'node:crypto'
import type { Diagnostic } from '../contract/call.ts'
import type { AnswerMessage, AssistantMessage, ChatMessage, ContentPart, ToolCall } from './chat.ts'
import { canonicalText } from './json.ts'

type Recalled = { readonly messages: readonly ChatMessage[]; readonly diagnostics: readonly Diagnostic[] }

export type Recall = {
  remember(message: AnswerMessage): void
  /** Replaces assistant messages that say what an answer said; changed ones stay as the client wrote them. */
  restore(messages: readonly ChatMessage[]): Recalled
}

const MAX_ANSWERS = 4_096
/** Answers that differ in their reasoning alone. */
const MAX_ALIKE = 8

export function openRecall(): Recall {
  /** By what a client can be expected to return; within one entry the oldest first, so that a choice stays the same for all later turns. */
  const answers = new Map<string, readonly AnswerMessage[]>()

  return {
    remember(message) {
      const key = fingerprint(message)
      const alike = answers.get(key) ?? []
      if (alike.length < MAX_ALIKE) answers.set(key, [...alike, message])
      for (const oldest of answers.keys()) {
        if (answers.size <= MAX_ANSWERS) break
        answers.delete(oldest)
      }
    },
    restore(messages) {
      const diagnostics: Diagnostic[] = []
      const restored = messages.map((message, index) => {
        if (message.role !== 'assistant') return message
        const original = find(answers.get(fingerprint(message)) ?? [], message.reasoning_content)
        if (original === undefined) return message
        const before = canonicalText(message)
        if (before !== canonicalText(original)) diagnostics.push({ code: 'history-restored', detail: `messages[${index}]` })
        return message.name === undefined ? original : { ...original, name: message.name }
      })
      return { messages: restored, diagnostics }
    },
  }
}

/** Clients trim reasoning or drop it; what they changed otherwise is theirs. */
function find(alike: readonly AnswerMessage[], reasoning: string | undefined): AnswerMessage | undefined {
  if (reasoning === undefined) return alike[0]
  return (
    alike.find((answer) => answer.reasoning_content === reasoning) ??
    alike.find((answer) => answer.reasoning_content !== undefined && answer.reasoning_content.trim() === reasoning.trim())
  )
}

function fingerprint(message: AssistantMessage): string {
  const calls = (message.tool_calls ?? []).map((call) => [call.id, call.function.name, argumentsValue(call)])
  return createHash('sha256')
    .update(JSON.stringify([visibleText(message.content), calls]))
    .digest('base64')
}

/** The same for null, an empty text, and a text in parts. */
function visibleText(content: string | readonly ContentPart[] | null): string {
  if (content === null) return ''
  if (typeof content === 'string') return content
  return content.every((part) => part.type === 'text') ? content.map((part) => part.text).join('') : canonicalText(content)
}

/** Equal for argument texts that mean the same value to a client that parsed and printed them. */
function argumentsValue(call: ToolCall): string {
  const text = call.function.arguments
  if (text.trim() === '') return '{}'
  try {
    return canonicalText(JSON.parse(text))
  } catch {
    return text
  }
}

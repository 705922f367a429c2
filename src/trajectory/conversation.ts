// The messages of a session as the builders read them: parsed once, compared as text.
import type { CallRecord } from '../contract/call.ts'

export type Message = Readonly<Record<string, unknown>>

export type Conversation = {
  /** The parsed message (or tool list) at an index of the pool. */
  parse(index: number): unknown
  message(index: number): Message
  role(index: number): string
  /** Everything a message says in words: its content, or the text parts of it. */
  text(index: number): string
  /** The same, each part by itself. */
  texts(index: number): readonly string[]
  /** True when two indexes hold the same JSON text. */
  isSame(a: number | undefined, b: number | undefined): boolean
  /** Indexes of the leading system and developer messages. */
  systemOf(record: CallRecord): readonly number[]
  toolsText(record: CallRecord): string | null
}

const EMPTY: Message = {}

export function openConversation(pool: readonly string[]): Conversation {
  const parsed = new Map<number, unknown>()

  function parse(index: number): unknown {
    if (!parsed.has(index)) parsed.set(index, JSON.parse(pool[index] ?? 'null'))
    return parsed.get(index)
  }
  function message(index: number): Message {
    const value = parse(index)
    return isObject(value) ? value : EMPTY
  }
  function role(index: number): string {
    const { role: value } = message(index)
    return typeof value === 'string' ? value : ''
  }

  return {
    parse,
    message,
    role,
    text: (index) => textsOf(message(index).content).join('\n'),
    texts: (index) => textsOf(message(index).content),
    isSame: (a, b) => a !== undefined && b !== undefined && (a === b || pool[a] === pool[b]),
    systemOf: (record) => {
      const end = record.promptMessages.findIndex((index) => role(index) !== 'system' && role(index) !== 'developer')
      return end === -1 ? record.promptMessages : record.promptMessages.slice(0, end)
    },
    toolsText: (record) => (record.tools === null ? null : (pool[record.tools] ?? null)),
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The words of a message's content: a string, or the `text` of its parts. */
function textsOf(content: unknown): readonly string[] {
  if (typeof content === 'string') return [content]
  if (!Array.isArray(content)) return []
  return content.map((part: unknown) => (isObject(part) && typeof part.text === 'string' ? part.text : ''))
}

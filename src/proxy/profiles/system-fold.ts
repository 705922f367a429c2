// Later system messages for a chat template that takes one at the head: each is appended to the turn before it.
import type { ChatMessage, ContentPart } from '../chat.ts'
import { mergeLeadingSystem } from '../dialects/system-messages.ts'

type Content = string | readonly ContentPart[]

/**
 * Every message keeps its place, and what a message becomes depends only on what stands before it: a longer conversation
 * renders as an extension of a shorter one. One that stands between a call and its result goes behind the result; after a
 * tool's result it joins that result rather than a user turn of its own, which templates take for a new question, from which
 * on they show earlier thoughts no more.
 */
export function foldSystemMessages(messages: readonly ChatMessage[]): {
  readonly messages: readonly ChatMessage[]
  readonly folded: number
} {
  const merged = mergeLeadingSystem(messages)
  const folded: Growing[] = []
  /** Those that wait for the results of a call. */
  let held: Content[] = []
  let count = 0
  let pending = 0
  const settle = (): void => {
    for (const content of held) append(folded, content)
    held = []
  }
  for (const [index, message] of merged.entries()) {
    if (message.role === 'system' && index > 0) {
      count += 1
      held.push(message.content)
      if (pending === 0) settle()
      continue
    }
    if (message.role === 'tool' && pending > 0) pending -= 1
    // Whatever comes instead of the results: what was held must not get behind it.
    else if (message.role !== 'tool') {
      pending = 0
      settle()
    }
    folded.push({ message, added: [] })
    if (message.role === 'assistant') pending = message.tool_calls?.length ?? 0
    if (pending === 0) settle()
  }
  settle()
  return count === 0 ? { messages, folded: 0 } : { messages: folded.map(grown), folded: count }
}

/** A message, and what is appended to it. */
type Growing = { readonly message: ChatMessage; readonly added: Content[] }

function append(messages: Growing[], content: Content): void {
  const last = messages.at(-1)
  const told = marked(content)
  if (last?.message.role === 'user' || last?.message.role === 'tool') last.added.push(told)
  else messages.push({ message: { role: 'user', content: told }, added: [] })
}

function grown({ message, added }: Growing): ChatMessage {
  if (added.length === 0 || (message.role !== 'user' && message.role !== 'tool')) return message
  return { ...message, content: joined([message.content, ...added]) }
}

/** Marked, so that the model can tell it from what the user or the tool said. */
function marked(content: Content): Content {
  const [open, close] = ['<system-reminder>\n', '\n</system-reminder>']
  if (typeof content === 'string') return open + content + close
  return [{ type: 'text', text: open }, ...content, { type: 'text', text: close }]
}

const GAP = '\n\n'

/** Texts become one text up to the first that is in parts. */
function joined(contents: readonly Content[]): Content {
  const start = contents.findIndex((content) => typeof content !== 'string')
  const texts = start === -1 ? contents : contents.slice(0, start)
  const text = texts.join(GAP)
  if (start === -1) return text
  const told = [...(start === 0 ? [] : [text]), ...contents.slice(start)]
  return told.flatMap((content, index) => {
    const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    return index === 0 ? parts : [{ type: 'text', text: GAP }, ...parts]
  })
}

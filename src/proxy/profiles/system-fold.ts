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
  const folded: ChatMessage[] = []
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
    folded.push(message)
    if (message.role === 'assistant') pending = message.tool_calls?.length ?? 0
    if (pending === 0) settle()
  }
  settle()
  return count === 0 ? { messages, folded: 0 } : { messages: folded, folded: count }
}

function append(messages: ChatMessage[], content: Content): void {
  const last = messages.at(-1)
  const told = marked(content)
  if (last?.role === 'user' || last?.role === 'tool') messages[messages.length - 1] = { ...last, content: joined(last.content, told) }
  else messages.push({ role: 'user', content: told })
}

/** Marked, so that the model can tell it from what the user or the tool said. */
function marked(content: Content): Content {
  const [open, close] = ['<system-reminder>\n', '\n</system-reminder>']
  if (typeof content === 'string') return open + content + close
  return [{ type: 'text', text: open }, ...content, { type: 'text', text: close }]
}

function joined(first: Content, second: Content): Content {
  const gap = '\n\n'
  if (typeof first === 'string' && typeof second === 'string') return first + gap + second
  const parts = (content: Content): readonly ContentPart[] => (typeof content === 'string' ? [{ type: 'text', text: content }] : content)
  return [...parts(first), { type: 'text', text: gap }, ...parts(second)]
}

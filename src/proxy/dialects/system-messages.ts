// System messages in the pivot: the run at the head becomes one message, later ones stay where they stand.
import type { ChatMessage, ContentPart } from '../chat.ts'

/** Templates refuse a second system message at the head, so a run of several becomes one; a single one and later ones stay as they are. */
export function mergeLeadingSystem(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const end = messages.findIndex((message) => message.role !== 'system')
  const run = end === -1 ? messages.length : end
  if (run < 2) return messages
  const contents = messages.slice(0, run).map((message) => message.content ?? '')
  return [{ role: 'system', content: joinContents(contents) }, ...messages.slice(run)]
}

function joinContents(contents: readonly (string | readonly ContentPart[])[]): string | readonly ContentPart[] {
  if (contents.every((content) => typeof content === 'string')) return contents.join('\n\n')
  return contents.flatMap((content) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content))
}

// How much comparing one conversation may cost: what lies beyond it is taken as the client wrote it.
import type { AssistantMessage } from './chat.ts'

export type ComparisonBudget = {
  /** False from where it is used up. */
  spend(chars: number): boolean
}

/** Several times the longest context, in characters: only a client that repeats one answer over and over comes so far. */
const MAX_CHARS = 2 ** 25

export function openComparisonBudget(maxChars = MAX_CHARS): ComparisonBudget {
  let left = maxChars
  return {
    spend(chars) {
      left -= chars
      return left >= 0
    },
  }
}

/** About what it costs to look at each of its parts. */
const PART_CHARS = 16

/** What a look at the whole message costs. */
export function charsIn({ content, reasoning_content: reasoning, tool_calls: calls }: AssistantMessage): number {
  const own = PART_CHARS + (reasoning?.length ?? 0) + (typeof content === 'string' ? content.length : 0)
  const parts = Array.isArray(content) ? content : []
  const said = parts.reduce((sum: number, { text }) => sum + PART_CHARS + (typeof text === 'string' ? text.length : 0), own)
  return (calls ?? []).reduce((sum, { function: { name, arguments: text } }) => sum + PART_CHARS + name.length + text.length, said)
}

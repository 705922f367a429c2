// What a growing answer has added that nothing which follows can take back, and what of a whole answer has not been told yet.
import type { ChatAnswer } from '../chat.ts'
import { pieces } from '../dialects/pieces.ts'

/** In the order of an answer: reasoning, content, then one call after another. What is not whole yet is never half a character. */
export type AnswerDelta =
  | { readonly type: 'reasoning'; readonly text: string }
  | { readonly type: 'content'; readonly text: string }
  /** Begins the next call. */
  | { readonly type: 'call'; readonly id: string; readonly name: string; readonly arguments: string }
  /** Of the call that was begun last. */
  | { readonly type: 'arguments'; readonly text: string }

export type Tell = (delta: AnswerDelta) => void

/** How many characters of an answer have been told. */
export type Told = { reasoning: number; content: number; readonly calls: number[] }

export const nothingTold = (): Told => ({ reasoning: 0, content: 0, calls: [] })

export function addTold(told: Told, delta: AnswerDelta): void {
  switch (delta.type) {
    case 'reasoning':
      told.reasoning += delta.text.length
      return
    case 'content':
      told.content += delta.text.length
      return
    case 'call':
      told.calls.push(delta.arguments.length)
      return
    default:
      told.calls.push((told.calls.pop() ?? 0) + delta.text.length)
  }
}

/** The whole answer but for what was told of it, in pieces that a slow reader is felt by. */
export function* restOf({ message }: ChatAnswer, told: Told): Iterable<AnswerDelta> {
  for (const text of pieces((message.reasoning_content ?? '').slice(told.reasoning))) yield { type: 'reasoning', text }
  for (const text of pieces((message.content ?? '').slice(told.content))) yield { type: 'content', text }
  const begun = told.calls.length
  for (const [index, { id, function: called }] of (message.tool_calls ?? []).entries()) {
    if (index < begun - 1) continue
    const cut = pieces(called.arguments.slice(told.calls[index] ?? 0))
    if (index >= begun) yield { type: 'call', id, name: called.name, arguments: cut[0] ?? '' }
    for (const text of index >= begun ? cut.slice(1) : cut) yield { type: 'arguments', text }
  }
}

// One generation's deltas on their way to its client: what may yet be cut off is held back, and each call is named once and for all.
import { beginningAtEnd, brokenAtEnd } from '../answer-text/beginning-at-end.ts'
import type { ChatAnswer } from '../chat.ts'
import type { AnswerDelta, Tell } from './answer-delta.ts'

export type TellingOptions = {
  /** Texts that the end of the content is freed of, the first that fits. */
  readonly cutStrings: readonly string[]
  /** The id of a call that the engine gave none, or one that is taken. */
  readonly newId: () => string
  /** The id by which the client knows a call. */
  readonly toldId: (id: string) => string
  readonly tell: Tell
}

export type Telling = {
  readonly tell: Tell
  /** The whole answer, with the ids that its calls have been told by. */
  named(answer: ChatAnswer): ChatAnswer
}

export function openTelling({ cutStrings, newId, toldId, tell }: TellingOptions): Telling {
  const ids: string[] = []
  /** The text that is growing; its end is held back. */
  let part: 'reasoning' | 'content' | 'arguments' = 'reasoning'
  let held = ''

  function grow(text: string): string {
    held += text
    const kept = Math.max(brokenAtEnd(held), part === 'content' ? beginningAtEnd(held, cutStrings) : 0)
    const certain = held.slice(0, held.length - kept)
    held = held.slice(certain.length)
    return certain
  }

  /** The part before is whole. */
  function enter(next: typeof part): void {
    if (part === next) return
    const cut = part === 'content' ? (cutStrings.find((text) => held.endsWith(text)) ?? '') : ''
    say(part, held.slice(0, held.length - cut.length))
    held = ''
    part = next
  }

  function say(type: typeof part, text: string): void {
    if (text !== '') tell({ type, text })
  }

  function begin({ id, name, arguments: text }: Extract<AnswerDelta, { type: 'call' }>): void {
    if (part === 'arguments') say(part, held)
    else enter('arguments')
    held = ''
    const own = id === '' || ids.includes(id) ? newId() : id
    ids.push(own)
    tell({ type: 'call', id: toldId(own), name, arguments: grow(text) })
  }

  return {
    tell(delta) {
      if (delta.type === 'call') return begin(delta)
      enter(delta.type)
      say(delta.type, grow(delta.text))
    },
    named(answer) {
      const calls = answer.message.tool_calls
      if (calls === undefined || ids.length === 0) return answer
      const named = calls.map((call, index) => ({ ...call, id: ids[index] ?? call.id }))
      return { ...answer, message: { ...answer.message, tool_calls: named } }
    },
  }
}

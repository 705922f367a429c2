// What a growing answer has added for its client: never a word that what comes later could make part of something else.
import { CALL_OPEN, THINK_CLOSE, THINK_OPEN, thoughtStart } from '../serve/answer-text.ts'
import type { AnswerDelta } from '../wire/deltas.ts'
import { type GeneratedChoice, textOf } from '../wire/generation.ts'
import { beginningAtEnd } from './growing-choice.ts'

export type AnswerDeltas = {
  /** What the tokens since the last delta have added, of a text that nothing can take back. The last delta adds all that was held back. */
  next(choice: GeneratedChoice, safeText: string): AnswerDelta
}

/** How the answer will be read once it is whole. */
type Reading = { readonly parsesTools: boolean; readonly beginsInThought: boolean }

/** All deltas of a choice add up to its message. */
export function openAnswerDeltas(reading: Reading): AnswerDeltas {
  let tokens = 0
  let text = 0
  let reasoning = 0
  let content = 0
  return {
    next(choice, safeText) {
      const isLast = choice.finish !== null
      const sampled = isLast ? choice.text : safeText
      const said = isLast ? wholeOf(choice) : settledIn(safeText, reading)
      const delta: AnswerDelta = {
        from: tokens,
        to: choice.tokens.length,
        text: sampled.slice(text),
        reasoning: said.reasoning.slice(reasoning),
        content: said.content.slice(content),
        toolCalls: isLast ? callsOf(choice) : [],
        isLast,
      }
      tokens = choice.tokens.length
      text = sampled.length
      reasoning = said.reasoning.length
      content = said.content.length
      return delta
    },
  }
}

type Said = { readonly reasoning: string; readonly content: string }

function wholeOf({ parts }: GeneratedChoice): Said {
  return { reasoning: textOf(parts, 'reasoning') ?? '', content: textOf(parts, 'content') ?? '' }
}

/**
 * How much of the message is certain whatever follows. Thinking is certain once it is closed. Content ends before anything
 * that may be a tool call, since one malformed call makes all of them content, and before line breaks that may come to
 * stand beside a tag.
 */
function settledIn(text: string, { parsesTools, beginsInThought }: Reading): Said {
  const nothing = { reasoning: '', content: '' }
  if (THINK_OPEN.startsWith(text.trimStart())) return nothing
  const start = thoughtStart(text, beginsInThought)
  if (start === null) {
    if (!parsesTools) return { reasoning: '', content: text }
    // Only with a call behind it would the content lose these line breaks.
    return text.startsWith('\n') ? nothing : { reasoning: '', content: trimEnd(beforeCalls(text)) }
  }
  const close = text.indexOf(THINK_CLOSE)
  if (close < start) return nothing
  const rest = text.slice(close + THINK_CLOSE.length)
  return {
    reasoning: trimEnd(trimStart(text.slice(start, close))),
    content: trimEnd(trimStart(parsesTools ? beforeCalls(rest) : rest)),
  }
}

function beforeCalls(text: string): string {
  const call = text.indexOf(CALL_OPEN)
  return text.slice(0, call === -1 ? text.length - beginningAtEnd(text, CALL_OPEN) : call)
}

function callsOf(choice: GeneratedChoice): AnswerDelta['toolCalls'] {
  const calls = choice.parts.filter((part) => part.kind === 'tool-call')
  return calls.flatMap(({ name, arguments: given }, index) => [
    { index, id: choice.toolCallIds[index] ?? '', type: 'function' as const, function: { name, arguments: '' } },
    { index, function: { arguments: given } },
  ])
}

const trimStart = (text: string): string => text.replace(/^\n+/, '')
/** From the start of a run only, which would else be tried from each of its line breaks. */
const trimEnd = (text: string): string => text.replace(/(?<!\n)\n+$/, '')

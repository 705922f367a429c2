// A sampled text while it grows: what of its reasoning and content is certain, whatever `readAnswerText` makes of the whole.
import type { Tell } from '../live/answer-delta.ts'
import type { AnswerFormat } from './answer-text.ts'
import { beginningAtEnd, brokenAtEnd } from './beginning-at-end.ts'

export type GrowingText = { push(piece: string): void }

type Context = {
  readonly format: AnswerFormat
  readonly beginsInThought: boolean
  /** Whether calls are looked for: they are told by whoever has the whole text, since one malformed call makes all of them content. */
  readonly parsesCalls: boolean
  /** Texts that end the answer, of which the engine may take back what it has shown. */
  readonly stops: readonly string[]
}

const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'
/** A call that would end the thought, or what may become one. */
const MAYBE_GENUINE_CALL = /<tool_call>\s*(?:\{|<function=|$|<(?:f(?:u(?:n(?:c(?:t(?:i(?:o(?:n)?)?)?)?)?)?)?)?$)/

/** `opening`: it is not known yet whether the text begins with a thought. `settled`: what follows cannot be told before the end. */
type Phase = 'opening' | 'thought' | 'content' | 'settled'

export function openGrowingText({ format, beginsInThought, parsesCalls, stops }: Context, tell: Tell): GrowingText {
  let phase: Phase = format.reasoning === 'none' ? 'content' : 'opening'
  /** Line breaks that come first are no part of it. */
  let isTrimming = false
  let uncertain = ''
  let pending = ''

  function enter(next: Phase, rest: string, trims: boolean): void {
    phase = next
    pending = rest
    isTrimming = trims
  }

  function open(): void {
    const start = pending.trimStart()
    if (start.startsWith(THINK_OPEN)) enter('thought', start.slice(THINK_OPEN.length), true)
    else if (!THINK_OPEN.startsWith(start)) enter(beginsInThought ? 'thought' : 'content', pending, beginsInThought)
  }

  function release(type: 'reasoning' | 'content', length: number): void {
    if (isTrimming) {
      const trimmed = pending.replace(/^\n+/, '')
      length -= pending.length - trimmed.length
      pending = trimmed
      if (length > 0) isTrimming = false
    }
    if (length <= 0) return
    tell({ type, text: pending.slice(0, length) })
    pending = pending.slice(length)
  }

  function think(): void {
    const close = pending.indexOf(THINK_CLOSE)
    if (close !== -1) {
      release('reasoning', trimmedLength(pending.slice(0, close)))
      enter('content', pending.slice(pending.indexOf(THINK_CLOSE) + THINK_CLOSE.length), true)
      return
    }
    // The end of the thought decides whether a call in it was one.
    const call = MAYBE_GENUINE_CALL.exec(pending)?.index ?? pending.length
    const tag = pending.length - beginningAtEnd(pending, [THINK_CLOSE, CALL_OPEN])
    release('reasoning', trimmedLength(pending.slice(0, Math.min(call, tag))))
  }

  function say(): void {
    if (!parsesCalls) {
      release('content', pending.length)
      return
    }
    const call = pending.indexOf(CALL_OPEN)
    const end = call === -1 ? pending.length - beginningAtEnd(pending, [CALL_OPEN]) : call
    release('content', trimmedLength(pending.slice(0, end)))
    if (call !== -1) enter('settled', '', false)
  }

  return {
    push(piece) {
      uncertain += piece
      const held = Math.max(beginningAtEnd(uncertain, stops), brokenAtEnd(uncertain))
      const certain = uncertain.slice(0, uncertain.length - held)
      if (certain === '' || phase === 'settled') return
      uncertain = uncertain.slice(certain.length)
      pending += certain
      if (phase === 'opening') open()
      if (phase === 'thought') think()
      if (phase === 'content') say()
    },
  }
}

/** Without the line breaks at its end, which belong to no part when a tag follows. */
function trimmedLength(text: string): number {
  let length = text.length
  while (length > 0 && text.charCodeAt(length - 1) === 0x0a) length -= 1
  return length
}

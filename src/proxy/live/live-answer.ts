// One answer while it grows: what was told of it, kept for whoever comes to hear it from the beginning and at its own pace.
import type { ChatAnswer } from '../chat.ts'
import { PIECE_CHARS } from '../dialects/pieces.ts'
import type { AnswerDelta, Tell } from './answer-delta.ts'

export type LiveAnswer = {
  readonly tell: Tell
  /** From then on no other answer can take its place. */
  hasBegun(): boolean
  /** The ids of the calls that were begun, as told. */
  callIds(): readonly string[]
  /** Whether all that was told is the beginning of `answer`: only then may the rest of it follow. */
  leadsTo(answer: ChatAnswer): boolean
  listen(): Listener
}

export type Listener = {
  /** The next of what was told, neighbouring pieces of one text as one; null when all of it was heard. */
  next(): AnswerDelta | null
  /** Resolves once there is something to hear. */
  more(): Promise<void>
}

export function openLiveAnswer(): LiveAnswer {
  const told: AnswerDelta[] = []
  let grown = Promise.withResolvers<void>()

  return {
    tell(delta) {
      told.push(delta)
      grown.resolve()
      grown = Promise.withResolvers()
    },
    hasBegun: () => told.length > 0,
    callIds: () => told.flatMap((delta) => (delta.type === 'call' ? [delta.id] : [])),
    leadsTo: (answer) => isBeginning(told, answer),
    listen() {
      let at = 0
      return {
        next() {
          const first = told[at]
          if (first === undefined) return null
          at += 1
          if (first.type === 'call') return first
          let { text } = first
          for (let next = told[at]; next?.type === first.type && text.length < PIECE_CHARS; next = told[at]) {
            text += next.text
            at += 1
          }
          return { ...first, text }
        },
        more: () => (at < told.length ? Promise.resolve() : grown.promise),
      }
    },
  }
}

function isBeginning(told: readonly AnswerDelta[], { message }: ChatAnswer): boolean {
  const said = { reasoning: '', content: '' }
  const calls: { readonly id: string; readonly name: string; arguments: string }[] = []
  for (const delta of told) {
    const last = calls.at(-1)
    if (delta.type === 'call') calls.push({ ...delta })
    else if (delta.type !== 'arguments') said[delta.type] += delta.text
    else if (last !== undefined) last.arguments += delta.text
  }
  return (
    (message.reasoning_content ?? '').startsWith(said.reasoning) &&
    (message.content ?? '').startsWith(said.content) &&
    calls.every((call, index) => {
      const whole = message.tool_calls?.[index]
      if (whole?.id !== call.id || whole.function.name !== call.name) return false
      // All but the last were told whole.
      return index < calls.length - 1 ? whole.function.arguments === call.arguments : whole.function.arguments.startsWith(call.arguments)
    }) &&
    isInOrder(said, calls.length > 0, message)
  )
}

/** What is told of one part ends those before it. */
function isInOrder(
  said: { readonly reasoning: string; readonly content: string },
  hasCalls: boolean,
  { reasoning_content: reasoning = '', content }: ChatAnswer['message'],
): boolean {
  const isPastReasoning = said.content !== '' || hasCalls
  return (!isPastReasoning || said.reasoning === reasoning) && (!hasCalls || said.content === (content ?? ''))
}

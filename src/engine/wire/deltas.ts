// Cuts a finished answer into the deltas its tokens would have streamed as.
import type { AnswerPart, GeneratedChoice } from './generation.ts'

type ToolCallDelta = {
  readonly index: number
  readonly id?: string
  readonly type?: 'function'
  readonly function: { readonly name?: string; readonly arguments: string }
}

/** What the tokens `[from, to)` add. Deltas of one choice add up to its message. */
export type AnswerDelta = {
  readonly from: number
  readonly to: number
  /** Of the sampled text, unparsed. */
  readonly text: string
  readonly reasoning: string
  readonly content: string
  readonly toolCalls: readonly ToolCallDelta[]
  readonly isLast: boolean
}

/** All choices' deltas, the choices interleaved as a batch would sample them. Every choice has at least one delta. */
export function* answerDeltas(
  choices: readonly GeneratedChoice[],
  tokensPerChunk: number,
): Generator<{ readonly choice: GeneratedChoice; readonly delta: AnswerDelta }> {
  const longest = Math.max(1, ...choices.map((choice) => choice.tokens.length))
  for (let from = 0; from < longest; from += tokensPerChunk) {
    for (const choice of choices) {
      if (from === 0 || from < choice.tokens.length) yield { choice, delta: deltaOf(choice, from, from + tokensPerChunk) }
    }
  }
}

function deltaOf(choice: GeneratedChoice, from: number, end: number): AnswerDelta {
  const to = Math.min(end, choice.tokens.length)
  const isLast = to === choice.tokens.length
  const textFrom = from === 0 ? 0 : (choice.tokens[from - 1]?.textEnd ?? 0)
  const textTo = choice.tokens[to - 1]?.textEnd ?? 0
  const covered = (part: AnswerPart, kind: AnswerPart['kind']) =>
    part.kind === kind && part.kind !== 'tool-call' ? overlap(part.text, part.start, textFrom, textTo) : ''
  const calls = choice.parts.filter((part) => part.kind === 'tool-call')
  return {
    from,
    to,
    isLast,
    text: choice.text.slice(textFrom, textTo),
    reasoning: choice.parts.map((part) => covered(part, 'reasoning')).join(''),
    content: choice.parts.map((part) => covered(part, 'content')).join(''),
    toolCalls: calls.flatMap((call, index) => callDeltas(call, index, choice.toolCallIds[index] ?? '', textFrom, textTo)),
  }
}

function callDeltas(
  call: Extract<AnswerPart, { kind: 'tool-call' }>,
  index: number,
  id: string,
  textFrom: number,
  textTo: number,
): readonly ToolCallDelta[] {
  const deltas: ToolCallDelta[] = []
  const isIn = (offset: number) => offset >= textFrom && offset < textTo
  if (isIn(call.start)) deltas.push({ index, id, type: 'function', function: { name: call.name, arguments: '' } })
  const fragment =
    call.argumentsStart === null
      ? isIn(call.end - 1)
        ? call.arguments
        : ''
      : overlap(call.arguments, call.argumentsStart, textFrom, textTo)
  if (fragment !== '') deltas.push({ index, function: { arguments: fragment } })
  return deltas
}

function overlap(text: string, start: number, from: number, to: number): string {
  return text.slice(Math.max(0, from - start), Math.max(0, to - start))
}

// One choice while it is drawn: its tokens, its text, and why it ends.
import { parseAnswer } from '../serve/answer-text.ts'
import type { EngineFinish, GeneratedChoice, SampledToken, TokenAlternative } from '../wire/generation.ts'
import { openGrowingText } from './growing-text.ts'
import type { GenerationEvent, Vocabulary } from './model.ts'

export type ChoiceOrder = {
  readonly index: number
  readonly lastPromptId: number | null
  readonly maxTokens: number
  readonly stops: readonly string[]
  readonly stopTokenIds: readonly number[]
  /** The model's own end tokens end nothing. */
  readonly ignoresEnd: boolean
  readonly parsesTools: boolean
  readonly beginsInThought: boolean
  readonly toolCallId: (call: number) => string
}

type Drawn = Extract<GenerationEvent, { type: 'drawn' }>

export type GrowingChoice = {
  /** Takes in the next token. False once the choice has ended, and nothing more may be drawn. */
  add(drawn: Drawn): boolean
  /** From outside: its budget is nothing, or it was stopped. No effect on a choice that has ended. */
  end(finish: Exclude<EngineFinish, 'stop'>): void
  /** As it stands; `finish` null while it grows. */
  now(): GeneratedChoice
  /** The text that no stop string can take back any more. */
  safeText(): string
}

/** Markers that a parser must see, also in a vocabulary that calls them control tokens. */
const MARKERS = ['<think>', '</think>', '<tool_call>', '</tool_call>']

export function openGrowingChoice(vocabulary: Vocabulary, order: ChoiceOrder): GrowingChoice {
  const growing = openGrowingText(vocabulary, order.lastPromptId)
  const stops = order.stops.filter((stop) => stop !== '')
  const longestStop = Math.max(0, ...stops.map((stop) => stop.length))
  let tokens: SampledToken[] = []
  const logprobs: number[] = []
  const alternatives: (readonly TokenAlternative[])[] = []
  let text = ''
  let finish: EngineFinish | null = null
  let matchedStop: string | number | null = null
  /** Read once: of a request with several choices those that have ended are shown with each token of the others. */
  let ended: GeneratedChoice | null = null

  const isHidden = (id: number, name: string) => vocabulary.isSpecial(id) && !MARKERS.includes(name)
  /** A stop string leaves the text, but the tokens that spelt it stay sampled. */
  const cutAt = (stop: string, start: number) => {
    text = text.slice(0, start)
    tokens = tokens.map((token) => (token.textEnd <= start ? token : { ...token, textEnd: start }))
    matchedStop = stop
    finish = 'stop'
  }

  return {
    add({ id, logprob, alternatives: others }) {
      const name = vocabulary.decode([id])
      const isEnd = vocabulary.isEnd(id) && !order.ignoresEnd
      // The model's own end token is no match, as engines look for it first.
      const isStop = !isEnd && order.stopTokenIds.includes(id)
      const searchedTo = text.length
      if (!isEnd && !isStop && !isHidden(id, name)) growing.add(id)
      text = growing.text()
      // llama.cpp shows no probability of a token that ends inside a character; here no turn is lost to training for that.
      tokens.push({ id, text: name, textEnd: text.length, endsWhole: true })
      logprobs.push(logprob)
      alternatives.push(others.map((other) => ({ ...other, text: vocabulary.decode([other.id]) })))
      const found = firstStop(text, stops, Math.max(0, searchedTo - longestStop + 1))
      if (found !== null) cutAt(found.stop, found.start)
      else if (isEnd || isStop) {
        matchedStop = isStop ? id : null
        finish = 'stop'
      } else if (tokens.length >= order.maxTokens) finish = 'length'
      return finish === null
    },
    end(how) {
      finish ??= how
    },
    now() {
      if (ended !== null) return ended
      const parts = finish === null ? [] : parseAnswer(text, order.parsesTools, order.beginsInThought)
      const calls = parts.filter((part) => part.kind === 'tool-call')
      const choice = {
        index: order.index,
        tokens,
        logprobs,
        alternatives,
        text,
        parts,
        finish,
        matchedStop,
        toolCallIds: calls.map((_, call) => order.toolCallId(call)),
        showsIds: true,
      }
      if (finish !== null) ended = choice
      return choice
    },
    safeText: () => (finish === null ? text.slice(0, text.length - begunStop(text, stops)) : text),
  }
}

/** The stop string that ends first, as one that reads token by token would meet them. */
function firstStop(text: string, stops: readonly string[], from: number): { readonly stop: string; readonly start: number } | null {
  const found = stops
    .map((stop) => ({ stop, start: text.indexOf(stop, from) }))
    .filter(({ start }) => start !== -1)
    .sort((left, right) => left.start + left.stop.length - (right.start + right.stop.length))
  return found[0] ?? null
}

/** How many characters at the end may be the beginning of a stop string. */
function begunStop(text: string, stops: readonly string[]): number {
  return Math.max(0, ...stops.map((stop) => beginningAtEnd(text, stop)))
}

/** The length of the longest end of `text` that `word` begins with, short of the whole word. */
export function beginningAtEnd(text: string, word: string): number {
  for (let length = Math.min(word.length - 1, text.length); length > 0; length -= 1) {
    if (word.startsWith(text.slice(text.length - length))) return length
  }
  return 0
}

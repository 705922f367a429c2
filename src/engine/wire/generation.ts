// One finished generation as an engine knows it, before it takes the shape of a real engine's answer.

/** A stretch of the sampled text, in order. `start` and `end` are offsets in UTF-16 units of that text. */
export type AnswerPart =
  | { readonly kind: 'reasoning' | 'content'; readonly start: number; readonly end: number; readonly text: string }
  | {
      readonly kind: 'tool-call'
      readonly start: number
      readonly end: number
      readonly name: string
      /** JSON text. */
      readonly arguments: string
      /** Where `arguments` stands in the sampled text, word for word; null when the sampled JSON was spaced otherwise. */
      readonly argumentsStart: number | null
    }

export type EngineFinish = 'stop' | 'length' | 'abort'

export type TokenAlternative = { readonly id: number; readonly text: string; readonly logprob: number }

export type SampledToken = {
  readonly id: number
  /** The token alone, with U+FFFD where it is not whole characters. */
  readonly text: string
  /** Length of the visible text after this token. */
  readonly textEnd: number
  /** False when the bytes sampled so far end inside a character. */
  readonly endsWhole: boolean
}

export type GeneratedChoice = {
  readonly index: number
  readonly tokens: readonly SampledToken[]
  /** As long as `tokens` unless a fault says otherwise; null entries and NaN are faults too. */
  readonly logprobs: readonly (number | null)[]
  readonly alternatives: readonly (readonly TokenAlternative[])[]
  /** What was sampled, as text: without special tokens and without the stop string. */
  readonly text: string
  readonly parts: readonly AnswerPart[]
  /** Null is a fault: the engine forgot to say why it ended. */
  readonly finish: EngineFinish | null
  /** The stop string or stop token that ended the choice; null for the model's own end token. */
  readonly matchedStop: string | number | null
  /** One id per tool call, unique on the engine. */
  readonly toolCallIds: readonly string[]
  /** False is a fault: ids were asked for and are left out. */
  readonly showsIds: boolean
}

export type Generation = {
  readonly id: string
  readonly createdSeconds: number
  readonly model: string
  readonly promptIds: readonly number[]
  /** Prompt tokens whose state was still there; null for an engine that does not tell. */
  readonly cachedTokens: number | null
  /** False is a fault: prompt ids were asked for and are left out. */
  readonly showsPromptIds: boolean
  readonly choices: readonly GeneratedChoice[]
  readonly weightVersion: string
  /** Seconds from request to end, as SGLang reports it. */
  readonly latencySeconds: number
}

export function textOf(parts: readonly AnswerPart[], kind: 'reasoning' | 'content'): string | null {
  const text = parts.map((part) => (part.kind === kind ? part.text : '')).join('')
  return text === '' ? null : text
}

export function completionTokens(generation: Generation): number {
  return generation.choices.reduce((sum, choice) => sum + choice.tokens.length, 0)
}

/** The reason in OpenAI's words. Engines differ in which ends become `tool_calls` when the answer calls tools. */
export function finishReasonOf(choice: GeneratedChoice, becomesToolCalls: readonly EngineFinish[]): string | null {
  if (choice.finish === null || !becomesToolCalls.includes(choice.finish)) return choice.finish
  return choice.parts.some((part) => part.kind === 'tool-call') ? 'tool_calls' : choice.finish
}

/** OpenAI's logprob entries, which both engines use. `naming` prints a token as its text or as `token_id:<id>`. */
export function logprobContent(
  choice: GeneratedChoice,
  range: { readonly from: number; readonly to: number },
  naming: 'text' | 'id',
): readonly object[] {
  const name = (id: number, text: string) => (naming === 'id' ? `token_id:${id}` : text)
  const entry = (id: number, text: string, logprob: number | null) => {
    const token = name(id, text)
    return { token, logprob, bytes: [...Buffer.from(token, 'utf8')] }
  }
  const entries: object[] = []
  for (let position = range.from; position < Math.min(range.to, choice.logprobs.length); position += 1) {
    const token = choice.tokens[position]
    const logprob = choice.logprobs[position]
    if (token === undefined || logprob === undefined) break
    const top = (choice.alternatives[position] ?? []).map((other) => entry(other.id, other.text, other.logprob))
    entries.push({ ...entry(token.id, token.text, logprob), top_logprobs: top })
  }
  return entries
}

// One generation: its place in the model's memory, its prompt read piece by piece, its tokens drawn one by one until nobody asks.
import type { LlamaContextSequence, SequenceEvaluateOptions, Token } from 'node-llama-cpp'
import { seededNumbers } from '../serve/seeded.ts'
import { BrokenDistributionError, ContextFullError, SequencesTakenError } from './llama-errors.ts'
import type { Rounds } from './llama-rounds.ts'
import { STEP_TOKENS } from './llama-runtime.ts'
import type { GenerationEvent, GenerationOrder, Sampling } from './model.ts'
import { hold, holdOne, type Place, type Places } from './places.ts'
import { type Distribution, isGreedy, isUntouched, seededUniforms } from './sampler.ts'

/** What all generations of a model share. */
export type Runner = {
  readonly contextTokens: number
  readonly vocabularySize: number
  readonly places: Places
  readonly rounds: Rounds
  /** Filled anew for each token of each generation: whatever is read from it is read before anybody else fills it. */
  readonly distribution: Distribution
  sequenceAt(place: Place): LlamaContextSequence
  /** Puts an empty sequence where one is whose state is unknown. */
  renew(place: Place): Promise<void>
}

/** What the library drew after one position: its own choice, how probable that was and, where asked for, every token's probability. */
type Drawn = { readonly token: number; readonly confidence: number; readonly probabilities?: ReadonlyMap<number, number> }
type Tokens = AsyncGenerator<Drawn, void, undefined | Token>

/**
 * Yields until it is returned or the signal is aborted, which it hears between two steps. `onPlace` hears of the place that was taken; it
 * is left in a known state, and whoever heard gives it back.
 */
export async function* generateTokens(
  runner: Runner,
  order: GenerationOrder,
  signal: AbortSignal,
  onPlace: (place: Place) => void,
): AsyncGenerator<GenerationEvent, void, void> {
  const prompt = checkedPrompt(runner, order)
  const taken = runner.places.take(prompt)
  if (taken === null) throw new SequencesTakenError()
  const { place } = taken
  onPlace(place)
  const choose = chooser(runner.distribution, order)
  let tokens: Tokens | undefined
  let isKnown = true
  /** What work that failed left behind nobody knows. */
  const tracked = async <T>(work: () => Promise<T>): Promise<T> => {
    isKnown = false
    const done = await work()
    isKnown = true
    return done
  }
  const sequence = runner.sequenceAt(place)
  // Never all of the prompt, as its last token is read for what follows it. A state that cannot be cut, a recurrent model's, is read anew.
  const cachedTokens = sequence.needsCheckpoints ? 0 : Math.min(taken.shared, prompt.length - 1)
  const forget = async (): Promise<void> => {
    await sequence.eraseContextTokenRanges([{ start: cachedTokens, end: place.length }])
    place.length = cachedTokens
  }
  /** The next piece of the prompt; with the last one, the first token. */
  const read = async (): Promise<Drawn | null> => {
    const piece = prompt.subarray(place.length, place.length + STEP_TOKENS)
    if (place.length + piece.length === prompt.length) tokens = startTokens(sequence, piece, order)
    else await sequence.evaluateWithoutGeneratingNewTokens(toTokens(piece))
    const first = await tokens?.next()
    hold(place, piece)
    return first?.value ?? null
  }
  const drawAfter = async (id: number): Promise<Drawn | null> => {
    const next = await tokens?.next(toToken(id))
    holdOne(place, id)
    return next?.value ?? null
  }
  try {
    if (cachedTokens < place.length) await runner.rounds.alone(() => tracked(forget), signal)
    let drawn: Drawn | null = null
    while (drawn === null) {
      drawn = await runner.rounds.alone(() => tracked(read), signal)
      signal.throwIfAborted()
    }
    yield { type: 'started', cachedTokens }
    for (let length = prompt.length + 1; drawn !== null; length += 1) {
      const event = choose(drawn)
      yield event
      if (length === runner.contextTokens) throw new ContextFullError(runner.contextTokens)
      drawn = await runner.rounds.together(place.index, () => tracked(() => drawAfter(event.id)), signal)
      signal.throwIfAborted()
    }
  } finally {
    await tokens?.return()
    if (!isKnown) await runner.renew(place)
  }
}

function checkedPrompt(runner: Runner, { promptIds }: GenerationOrder): Int32Array {
  if (promptIds.length === 0) throw new RangeError('a prompt has at least one token')
  if (promptIds.length >= runner.contextTokens) throw new ContextFullError(runner.contextTokens)
  const unknown = promptIds.find((id) => !Number.isInteger(id) || id < 0 || id >= runner.vocabularySize)
  if (unknown !== undefined) throw new RangeError(`the model has no token ${unknown}`)
  return Int32Array.from(promptIds)
}

/**
 * The library draws itself where it can: from the model's own distribution, or greedily. Then only one probability crosses over from
 * native code instead of the whole vocabulary's. What is shown beside a token never changes which token is drawn.
 */
function startTokens(sequence: LlamaContextSequence, piece: Int32Array, { sampling, alternatives }: GenerationOrder): Tokens {
  const isNative = drawsNatively(sampling)
  const options: SequenceEvaluateOptions =
    isGreedy(sampling) || !isNative
      ? { temperature: 0, yieldEogToken: true }
      : { temperature: 1, topK: NO_TOP_K, topP: 1, minP: 0, seed: nativeSeed(sampling.seed), yieldEogToken: true }
  return sequence.evaluateWithMetadata(toTokens(piece), { confidence: true, probabilities: !isNative || alternatives > 0 }, options)
}

/**
 * 0 keeps every token as well, but sorts them first: then two tokens that are as good as equal change places with the last bits of a
 * logit, and a seed that meets them draws the other one. The library's type lacks its own way of leaving the step out.
 */
const NO_TOP_K = null as unknown as number

function drawsNatively(sampling: Sampling): boolean {
  return isGreedy(sampling) || isUntouched(sampling)
}

/** The library takes 32 bits and reads the highest of them as "any seed". */
function nativeSeed(seed: number): number {
  return Math.floor(seededNumbers('native', seed)() * 0xffff_ffff)
}

type DrawnEvent = Extract<GenerationEvent, { type: 'drawn' }>

/** Makes of what the library drew what this generation draws. */
function chooser(distribution: Distribution, { sampling, logprobMode, alternatives }: GenerationOrder): (drawn: Drawn) => DrawnEvent {
  const uniform = seededUniforms(sampling.seed)
  const isNative = drawsNatively(sampling)
  return ({ token, confidence, probabilities }) => {
    if (probabilities !== undefined) distribution.fill(probabilities, sampling)
    const shown = probabilities === undefined ? [] : distribution.alternatives(alternatives, logprobMode)
    if (isNative) {
      if (!(confidence > 0)) throw new BrokenDistributionError()
      return { type: 'drawn', id: token, logprob: Math.min(0, Math.log(confidence)), alternatives: shown }
    }
    const id = distribution.draw(uniform())
    return { type: 'drawn', id, logprob: distribution.logprobOf(id, logprobMode), alternatives: shown }
  }
}

/** The library brands the numbers it calls tokens; ours have been checked against its vocabulary. */
export function toToken(id: number): Token {
  return id as Token
}

function toTokens(ids: Int32Array): Token[] {
  return Array.from(ids, toToken)
}

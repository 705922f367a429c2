// A GGUF file as a model that samples: its weights through node-llama-cpp, its vocabulary, and the generations that share it.
import { basename } from 'node:path'
import type { LlamaContext, LlamaContextSequence, LlamaModel } from 'node-llama-cpp'
import { ModelClosedError } from './llama-errors.ts'
import { type GgufHeader, readGgufHeader } from './llama-file.ts'
import { generateTokens, type Runner, toToken } from './llama-generation.ts'
import { chooseContext } from './llama-memory.ts'
import { Rounds } from './llama-rounds.ts'
import { closeWeights, type LoadedWeights, loadWeights } from './llama-runtime.ts'
import { whyNoGenerator } from './llama-shape.ts'
import { type Stoppable, startStoppable } from './llama-stoppable.ts'
import type { GenerationEvent, LoadedModel, LoadResult, ModelFacts, ModelFile, Vocabulary } from './model.ts'
import { type Place, Places } from './places.ts'
import { Distribution } from './sampler.ts'

/** For what must be done whoever leaves. */
const NEVER = new AbortController().signal

/**
 * Loads another model while one runs, too. Logprobs of one prompt agree to 1e-4, whatever it shares a step or a beginning with.
 * The native library ends the whole process when a worker thread is terminated while a model on it draws: such a thread closes it first.
 */
export async function openModel(file: ModelFile): Promise<LoadResult> {
  const read = await readGgufHeader(file.path)
  if (!read.ok) return read
  const { header } = read
  const unfit = whyNoGenerator(header)
  if (unfit !== null) return { ok: false, error: `${file.path} ${unfit}` }
  const context = chooseContext(file, header, process.availableMemory())
  if (!context.ok) return context
  const loaded = await loadWeights(file, context.contextTokens)
  if (!loaded.ok) return loaded
  const { weights } = loaded
  const vocabulary = vocabularyOf(weights.model, header)
  if (vocabulary === null) {
    await closeWeights(weights)
    return { ok: false, error: `${file.path} names no token that ends an answer` }
  }
  const template = header.values.get('tokenizer.chat_template')
  const name = header.values.get('general.name')
  const facts: ModelFacts = {
    name: typeof name === 'string' && name !== '' ? name : basename(file.path, '.gguf'),
    parameters: header.parameters,
    contextTokens: context.contextTokens,
    sequences: file.sequences,
    chatTemplate: typeof template === 'string' ? template : null,
  }
  return { ok: true, model: serve(weights, facts, vocabulary) }
}

function vocabularyOf(model: LlamaModel, header: GgufHeader): Vocabulary | null {
  const endTokenId = model.tokens.eos ?? model.tokens.eot
  if (endTokenId === null) return null
  return {
    encode: (text) => model.tokenize(text, true),
    decode: (ids) => model.detokenize(ids.map(toToken), true),
    isSpecial: (id) => model.getTokenAttributes(toToken(id)).control,
    isEnd: (id) => model.isEogToken(toToken(id)),
    endTokenId,
    startTokenId: model.tokens.bos,
    startsEveryText: model.tokens.shouldPrependBosToken,
    size: sizeOf(header),
  }
}

function sizeOf(header: GgufHeader): number {
  const tokens = header.values.get('tokenizer.ggml.tokens')
  return typeof tokens === 'object' ? tokens.length : 0
}

function serve(weights: LoadedWeights, facts: ModelFacts, vocabulary: Vocabulary): LoadedModel {
  const sequences = Array.from({ length: facts.sequences }, () => openSequence(weights.context))
  const sequenceAt = ({ index }: Place): LlamaContextSequence => {
    const sequence = sequences[index]
    if (sequence === undefined) throw new Error(`there is no sequence ${index}`)
    return sequence
  }
  const rounds = new Rounds()
  const runner: Runner = {
    contextTokens: facts.contextTokens,
    vocabularySize: vocabulary.size,
    places: new Places(facts.sequences, facts.contextTokens),
    rounds,
    distribution: new Distribution(vocabulary.size),
    sequenceAt,
    renew: (place) =>
      rounds.alone(async () => {
        await sequenceAt(place).dispose()
        sequences[place.index] = openSequence(weights.context)
        place.length = 0
      }, NEVER),
  }
  const going = new Set<Stoppable<GenerationEvent>>()
  let closing: Promise<void> | undefined
  return {
    facts,
    vocabulary,
    generate(order, signal) {
      let place: Place | null = null
      const generation = startStoppable<GenerationEvent>(
        (stopped) => {
          if (closing !== undefined) throw new ModelClosedError()
          going.add(generation)
          return generateTokens(runner, order, stopped, (taken) => {
            place = taken
          })
        },
        signal,
        () => {
          going.delete(generation)
          if (place !== null) runner.places.giveBack(place)
        },
      )
      return generation.events
    },
    usedTokens: () => runner.places.usedTokens(),
    close() {
      closing ??= (async () => {
        await Promise.all([...going].map((generation) => generation.stop(new ModelClosedError())))
        await closeWeights(weights)
      })()
      return closing
    },
  }
}

/** Nothing may be forgotten to make room: a full context is an error. */
function openSequence(context: LlamaContext): LlamaContextSequence {
  return context.getSequence({
    contextShift: {
      strategy: () => {
        throw new Error('a generation went beyond its context')
      },
    },
  })
}

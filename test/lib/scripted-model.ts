// A model that draws what a test says, when it says so: byte-level tokens, a few special ones, and no weights.
import type { GenerationEvent, GenerationOrder, LoadedModel, Vocabulary } from '../../src/engine/embedded/model.ts'

export const END = 0
export const HIDDEN = 1
/** Stands before a text where a template writes it, and ends one, too. */
export const TEXT_END = 2
const SPECIAL = ['<|im_end|>', '<|hidden|>', '<|endoftext|>']

export type ByteVocabulary = Vocabulary & { idOf(bytes: Uint8Array): number }

/** Any run of bytes becomes a token when it is first asked for. */
export function openByteVocabulary(): ByteVocabulary {
  const tokens: Buffer[] = SPECIAL.map((name) => Buffer.from(name))
  const ids = new Map<string, number>()
  const idOf = (bytes: Uint8Array): number => {
    const key = Buffer.from(bytes).toString('hex')
    const known = ids.get(key) ?? tokens.length
    if (known === tokens.length) tokens.push(Buffer.from(bytes))
    ids.set(key, known)
    return known
  }
  return {
    idOf,
    encode: (text) => [...Buffer.from(text)].map((byte) => idOf(Uint8Array.of(byte))),
    decode: (list) => Buffer.concat(list.map((id) => tokens[id] ?? Buffer.alloc(0))).toString(),
    isSpecial: (id) => id < SPECIAL.length,
    isEnd: (id) => id === END || id === TEXT_END,
    endTokenId: END,
    startTokenId: TEXT_END,
    startsEveryText: false,
    size: 1_000_000,
  }
}

export type ScriptedModel = LoadedModel & {
  readonly orders: readonly GenerationOrder[]
  /** Generations that have not given back their place. */
  running(): number
  isClosed(): boolean
}

/** Draws `ids` and then the end token for ever. `until` is awaited before each token; `draw` may throw. */
export function openScriptedModel(
  vocabulary: ByteVocabulary,
  ids: readonly number[],
  options: {
    readonly until?: (drawn: number) => Promise<void>
    readonly contextTokens?: number
    readonly chatTemplate?: string | null
  } = {},
): ScriptedModel {
  const orders: GenerationOrder[] = []
  let running = 0
  let isClosed = false
  async function* generate(order: GenerationOrder, signal: AbortSignal): AsyncGenerator<GenerationEvent, void, void> {
    orders.push(order)
    running += 1
    const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    try {
      yield { type: 'started', cachedTokens: 2 }
      for (let drawn = 0; ; drawn += 1) {
        await Promise.race([options.until?.(drawn), stopped])
        signal.throwIfAborted()
        yield { type: 'drawn', id: ids[drawn] ?? END, logprob: -1 - drawn, alternatives: [] }
      }
    } finally {
      running -= 1
    }
  }
  return {
    facts: {
      name: 'scripted',
      parameters: 0,
      contextTokens: options.contextTokens ?? 4096,
      sequences: 4,
      chatTemplate: options.chatTemplate === undefined ? '{% for m in messages %}{{ m.content }}{% endfor %}' : options.chatTemplate,
    },
    vocabulary,
    generate,
    usedTokens: () => 0,
    async close() {
      isClosed = true
    },
    orders,
    running: () => running,
    isClosed: () => isClosed,
  }
}

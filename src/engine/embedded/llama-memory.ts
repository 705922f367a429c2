// How many tokens of context a model gets: what it was trained for, and what its keys and values take of the memory there is.
import type { GgufHeader, GgufValue } from './llama-file.ts'
import type { ModelFile } from './model.ts'

export type ContextChoice = { readonly ok: true; readonly contextTokens: number } | { readonly ok: false; readonly error: string }

/** Fewer than this hold no conversation. */
const FEWEST_TOKENS = 512
/** llama.cpp's caches grow in steps of this many tokens. */
const STEP_TOKENS = 256
/** Of the free memory: the rest is for the weights, what each step computes with, and everybody else. */
const SHARE = 1 / 3
/** Keys and values are kept as float32. */
const CACHE_BYTES = 4

/** `freeBytes`: what this process may still take. */
export function chooseContext(file: ModelFile, header: GgufHeader, freeBytes: number): ContextChoice {
  const trained = numberOf(header, 'context_length') ?? FEWEST_TOKENS
  const perToken = cacheBytesPerToken(header) * file.sequences
  const wanted = file.contextTokens
  if (wanted === null) {
    const fitting = Math.floor((freeBytes * SHARE) / perToken / STEP_TOKENS) * STEP_TOKENS
    const contextTokens = Math.min(trained, fitting)
    return contextTokens >= Math.min(FEWEST_TOKENS, trained)
      ? { ok: true, contextTokens }
      : { ok: false, error: needs(FEWEST_TOKENS, perToken / SHARE, freeBytes, file) }
  }
  if (wanted > trained) return { ok: false, error: `the model was trained for ${trained} tokens of context, not for ${wanted}` }
  if (wanted * perToken > freeBytes) return { ok: false, error: needs(wanted, perToken, freeBytes, file) }
  return { ok: true, contextTokens: wanted }
}

function needs(tokens: number, bytesPerToken: number, freeBytes: number, file: ModelFile): string {
  const [needed, free] = [Math.ceil((tokens * bytesPerToken) / 1e6), Math.floor(freeBytes / 1e6)]
  return `${tokens} tokens of context for ${file.sequences} sequences need ${needed} MB of free memory, and there are ${free} MB`
}

/** Keys and values of one token in every layer; layers may differ in how many heads share them. */
function cacheBytesPerToken(header: GgufHeader): number {
  const layers = numberOf(header, 'block_count') ?? 1
  const heads = numberOf(header, 'attention.head_count') ?? 1
  const headSize = (numberOf(header, 'embedding_length') ?? heads) / heads
  const size = (numberOf(header, 'attention.key_length') ?? headSize) + (numberOf(header, 'attention.value_length') ?? headSize)
  const shared = entryOf(header, 'attention.head_count_kv')
  const cached = Array.isArray(shared)
    ? shared.reduce((sum: number, each: number) => sum + each, 0)
    : layers * (typeof shared === 'number' ? shared : heads)
  return Math.max(1, cached * size * CACHE_BYTES)
}

function numberOf(header: GgufHeader, key: string): number | undefined {
  const value = entryOf(header, key)
  return typeof value === 'number' && value > 0 ? value : undefined
}

function entryOf(header: GgufHeader, key: string): GgufValue | undefined {
  return header.values.get(`${String(header.values.get('general.architecture'))}.${key}`)
}

import { describe, expect, it } from 'vitest'
import type { GgufHeader, GgufValue } from '../../src/engine/embedded/llama-file.ts'
import { chooseContext } from '../../src/engine/embedded/llama-memory.ts'

function header(values: Readonly<Record<string, GgufValue>>): GgufHeader {
  return { values: new Map([['general.architecture', 'any'], ...Object.entries(values)]), tensors: 1, parameters: 1 }
}

/** 2 layers of 2 cached heads, 8 numbers for a key and 8 for a value, 4 bytes each: 256 bytes. */
const SHAPE = {
  'any.context_length': 4096,
  'any.block_count': 2,
  'any.embedding_length': 32,
  'any.attention.head_count': 4,
  'any.attention.head_count_kv': 2,
}
const TOKEN_BYTES = 256

function choose(contextTokens: number | null, freeBytes: number, values: Readonly<Record<string, GgufValue>> = {}): number | string {
  const choice = chooseContext({ path: '/a', contextTokens, sequences: 2, threads: 1 }, header({ ...SHAPE, ...values }), freeBytes)
  return choice.ok ? choice.contextTokens : choice.error
}

describe('the context a model gets', () => {
  it.each<[string, number | null, number, Readonly<Record<string, GgufValue>>, number]>([
    ['what it was trained for', null, 1e12, {}, 4096],
    ['what fits into a third of the memory, in whole steps', null, 1100 * TOKEN_BYTES * 2 * 3, {}, 1024],
    ['what is asked for, though it be more than a third', 1000, 1000 * TOKEN_BYTES * 2, {}, 1000],
    ['all of a short training', null, 1e12, { 'any.context_length': 100 }, 100],
    ['less where keys are longer', null, 1024 * TOKEN_BYTES * 2 * 3, { 'any.attention.key_length': 24 }, 512],
    ['more where some layers keep nothing', null, 1024 * TOKEN_BYTES * 2 * 3, { 'any.attention.head_count_kv': [2, 0] }, 2048],
  ])('is %s', (_, asked, freeBytes, values, tokens) => {
    expect(choose(asked, freeBytes, values)).toBe(tokens)
  })

  it.each<[number | null, number, string]>([
    [null, 700_000, '512 tokens of context for 2 sequences need 1 MB of free memory, and there are 0 MB'],
    [4096, 2_000_000, '4096 tokens of context for 2 sequences need 3 MB of free memory, and there are 2 MB'],
    [4097, 1e12, 'the model was trained for 4096 tokens of context, not for 4097'],
  ])('of %s asked with %d bytes free is refused', (asked, freeBytes, error) => {
    expect(choose(asked, freeBytes)).toBe(error)
  })
})

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type MetadataValue, readGguf, writeGguf } from '../../examples/tiny-policy/gguf.ts'
import { makeModel } from '../../examples/tiny-policy/make.ts'
import { openModel } from '../../src/engine/embedded/llama.ts'
import { BrokenDistributionError } from '../../src/engine/embedded/llama-errors.ts'
import type { LoadResult, ModelFile } from '../../src/engine/embedded/model.ts'

const SOUND = makeModel({ seed: 6, merges: 256, width: 32, layers: 1, heads: 2, keyHeads: 1, headWidth: 16, feedForward: 32 })
const ORDER = {
  promptIds: [1, 2, 3],
  sampling: { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 1 },
  logprobMode: 'raw',
  alternatives: 0,
} as const

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-llama-files-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function openBytes(bytes: Uint8Array, change: Partial<ModelFile> = {}): Promise<LoadResult> {
  const path = join(folder, 'model.gguf')
  writeFileSync(path, bytes)
  return openModel({ path, contextTokens: 512, sequences: 2, threads: 1, ...change })
}

function errorOf(result: LoadResult): string {
  return result.ok ? 'it was loaded' : result.error.replaceAll(join(folder, 'model.gguf'), 'FILE').replaceAll(folder, 'FOLDER')
}

/** The sound file with other values in its header; null takes one away. */
function changed(values: Readonly<Record<string, MetadataValue | null>>, keepsTensors = true): Uint8Array {
  const read = readGguf(SOUND)
  if (!read.ok) throw new Error(read.error)
  const { metadata, tensors } = read.file
  const next = new Map(metadata)
  for (const [key, value] of Object.entries(values)) {
    if (value === null) next.delete(key)
    else next.set(key, value)
  }
  return writeGguf({ metadata: next, tensors: keepsTensors ? tensors : [] })
}

function spoilt(at: number, ...bytes: readonly number[]): Uint8Array {
  const copy = Uint8Array.from(SOUND)
  copy.set(bytes, at)
  return copy
}

const count = (value: number): MetadataValue => ({ type: 'uint32', value })
const real = (value: number): MetadataValue => ({ type: 'float32', value })
const text = (value: string): MetadataValue => ({ type: 'string', value })

describe('a file that is no model', () => {
  it('is told apart by its path', async () => {
    mkdirSync(join(folder, 'inside'))
    const open = (path: string): Promise<LoadResult> => openModel({ path, contextTokens: null, sequences: 1, threads: 1 })
    expect(errorOf(await open(join(folder, 'none.gguf')))).toBe('there is no file FOLDER/none.gguf')
    expect(errorOf(await open(join(folder, 'inside')))).toBe('FOLDER/inside is a folder, not a GGUF file')
    expect(errorOf(await open('/dev/null'))).toBe('/dev/null is no regular file')
  })

  it.each<[string, () => Uint8Array, string]>([
    ['empty', () => new Uint8Array(), 'FILE is no GGUF file'],
    ['a text', () => Buffer.from('not a model at all'), 'FILE is no GGUF file'],
    ['cut off in its header', () => SOUND.subarray(0, 3000), 'FILE ends within its header: it is damaged or only a part of the file'],
    [
      'cut off in its weights',
      () => SOUND.subarray(0, SOUND.length - 5000),
      "FILE cannot be loaded: tensor 'blk.0.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete",
    ],
    ['of another version', () => spoilt(4, 9), 'FILE has a damaged header: GGUF version 9 is neither 2 nor 3'],
    ['with absurd counts', () => spoilt(15, 255), 'FILE has a damaged header: it claims 18374686479671623693 tensors'],
    [
      'of an unknown architecture',
      () => Buffer.from(Buffer.from(SOUND).toString('latin1').replaceAll('qwen3', 'qwenX'), 'latin1'),
      "FILE cannot be loaded: unknown model architecture: 'qwenX'",
    ],
    ['of no architecture', () => changed({ 'general.architecture': null }), 'FILE does not say which architecture it has'],
    ['without weights', () => changed({}, false), 'FILE holds a vocabulary without weights'],
    ['an embedding model', () => changed({ 'qwen3.pooling_type': count(3) }), 'FILE is a model that embeds texts (qwen3) and writes none'],
    [
      'an encoder',
      () => changed({ 'general.architecture': text('bert'), 'bert.context_length': count(512) }),
      'FILE is a model that embeds texts (bert) and writes none',
    ],
    [
      'without heads',
      () => changed({ 'qwen3.attention.head_count': count(0) }),
      'FILE is damaged: its qwen3.attention.head_count is not a count',
    ],
    [
      'without keys',
      () => changed({ 'qwen3.attention.key_length': count(0) }),
      'FILE is damaged: its qwen3.attention.key_length is not a count',
    ],
    [
      'silent about its width',
      () => changed({ 'qwen3.embedding_length': null }),
      'FILE is damaged: it does not say its qwen3.embedding_length',
    ],
    ['too deep', () => changed({ 'qwen3.block_count': count(100_000) }), 'FILE has 100000 layers, and llama.cpp takes at most 512'],
    [
      'with a broken number',
      () => changed({ 'qwen3.attention.layer_norm_rms_epsilon': real(Number.NaN) }),
      'FILE is damaged: its qwen3.attention.layer_norm_rms_epsilon is NaN',
    ],
    [
      'with an unknown tokenizer',
      () => changed({ 'tokenizer.ggml.model': text('none-such') }),
      "FILE cannot be loaded: error loading model vocabulary: unknown tokenizer: 'none-such'",
    ],
  ])('%s: says so', async (_, bytes, error) => {
    expect(errorOf(await openBytes(bytes()))).toBe(error)
  })

  it('leaves a process that loads the next', async () => {
    await openBytes(SOUND.subarray(0, SOUND.length - 5000))
    const result = await openBytes(SOUND)
    expect(errorOf(result)).toBe('it was loaded')
    if (result.ok) await result.model.close()
  })
})

describe('a context', () => {
  it.each<[string, Uint8Array, Partial<ModelFile>, RegExp]>([
    [
      'beyond what the model was trained for',
      SOUND,
      { contextTokens: 8193 },
      /^the model was trained for 8192 tokens of context, not for 8193$/,
    ],
    [
      'beyond the memory there is',
      changed({ 'qwen3.context_length': count(2 ** 31) }),
      { contextTokens: 2 ** 31 },
      /^2147483648 tokens of context for 2 sequences need 549756 MB of free memory, and there are \d+ MB$/,
    ],
  ])('%s is refused', async (_, bytes, change, error) => {
    expect(errorOf(await openBytes(bytes, change))).toMatch(error)
  })

  it('nobody asked for is as long as the training', async () => {
    const result = await openBytes(SOUND, { contextTokens: null })
    if (!result.ok) throw new Error(result.error)
    expect(result.model.facts).toMatchObject({ contextTokens: 8192, sequences: 2, name: 'tiny-policy' })
    await result.model.close()
  })
})

describe('a model whose weights are not numbers', () => {
  it.each([0, 1, 1.5])('loads, and draws nothing at temperature %d', async (temperature) => {
    const bytes = Uint8Array.from(SOUND).fill(255, SOUND.length - 20_000)
    const result = await openBytes(bytes)
    if (!result.ok) throw new Error(result.error)
    const order = { ...ORDER, sampling: { ...ORDER.sampling, temperature } }
    const events = result.model.generate(order, new AbortController().signal)
    await events.next()
    await expect(events.next()).rejects.toThrow(BrokenDistributionError)
    await result.model.close()
  })
})

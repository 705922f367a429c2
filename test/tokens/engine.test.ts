// The scorer against llama.cpp itself, on random weights of several shapes: two forward passes that share no line of code.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readGguf, type Tensor, writeGguf } from '../../examples/tiny-policy/gguf.ts'
import { type ModelShape, makeModel } from '../../examples/tiny-policy/make.ts'
import { openModel } from '../../src/engine/embedded/llama.ts'
import type { LoadedModel } from '../../src/engine/embedded/model.ts'
import { openScorer, TOLERANCE } from '../lib/scorer.ts'
import { readWeights } from '../lib/scorer-weights.ts'

const SMALL: Partial<ModelShape> = { merges: 256, contextTokens: 2_048 }
const PROMPT = 'The function in slug.js does not do what its tests ask for. '
const DRAWN_TOKENS = 200

/** The same model with other tensors: trained ones have gains that are not 1, and may have an output matrix of their own. */
function changed(bytes: Uint8Array, change: (tensors: readonly Tensor[]) => readonly Tensor[]): Uint8Array {
  const read = readGguf(bytes)
  if (!read.ok) throw new Error(read.error)
  return writeGguf({ metadata: read.file.metadata, tensors: change(read.file.tensors) })
}

const withGains = (tensors: readonly Tensor[]): readonly Tensor[] =>
  tensors.map((tensor) =>
    tensor.dimensions.length === 1 ? { ...tensor, data: tensor.data.map((_, at) => 1 + 0.5 * Math.sin(at + tensor.name.length)) } : tensor,
  )

/** Other constants than `make.ts` writes: a scorer that knew those by heart would not need to read them. */
function withOtherConstants(bytes: Uint8Array): Uint8Array {
  const read = readGguf(bytes)
  if (!read.ok) throw new Error(read.error)
  const { metadata, tensors } = read.file
  const others = { 'qwen3.attention.layer_norm_rms_epsilon': 0.01, 'qwen3.rope.freq_base': 5_000 }
  const values = Object.entries(others).map(([key, value]) => [key, { type: 'float32', value }] as const)
  return writeGguf({ metadata: new Map([...metadata, ...values]), tensors })
}

/** The head is the embedding upside down. */
function withOwnHead(tensors: readonly Tensor[]): readonly Tensor[] {
  const embedding = tensors.find(({ name }) => name === 'token_embd.weight')
  if (embedding === undefined) throw new Error('the model has no embedding')
  const [width = 0, rows = 0] = embedding.dimensions
  const data = new Float32Array(width * rows)
  for (let row = 0; row < rows; row++) data.set(embedding.data.subarray(row * width, (row + 1) * width), (rows - 1 - row) * width)
  return [...tensors, { ...embedding, name: 'output.weight', data }]
}

const MODELS: readonly { readonly name: string; readonly bytes: () => Uint8Array }[] = [
  { name: 'as many key heads as query heads', bytes: () => changed(makeModel({ ...SMALL, keyHeads: 4 }), withGains) },
  {
    name: 'one key head for all, and heads wider than they need be',
    bytes: () => makeModel({ ...SMALL, keyHeads: 1, width: 96, headWidth: 64 }),
  },
  { name: 'other constants', bytes: () => withOtherConstants(makeModel(SMALL)) },
  { name: 'an output matrix of its own', bytes: () => changed(makeModel(SMALL), withOwnHead) },
]

describe.each(MODELS)('a model of $name', ({ bytes }) => {
  const folder = mkdtempSync(join(tmpdir(), 'polar-scorer-'))
  const path = join(folder, 'model.gguf')
  let model: LoadedModel
  beforeAll(async () => {
    writeFileSync(path, bytes())
    const loaded = await openModel({ path, contextTokens: null, sequences: 1, threads: 1 })
    if (!loaded.ok) throw new Error(loaded.error)
    model = loaded.model
  })
  afterAll(async () => {
    await model.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it.each([
    { logprobMode: 'raw', temperature: 1.4 },
    { logprobMode: 'processed', temperature: 0.6 },
  ] as const)(
    'draws at temperature $temperature with $logprobMode logprobs that the scorer gives too',
    async ({ logprobMode, temperature }) => {
      const promptIds = model.vocabulary.encode(PROMPT)
      const sampling = { temperature, topK: 0, topP: 1, minP: 0, seed: 7 }
      const [ids, logprobs]: [number[], number[]] = [[...promptIds], []]
      for await (const event of model.generate({ promptIds, sampling, logprobMode, alternatives: 0 }, new AbortController().signal)) {
        if (event.type !== 'drawn') continue
        ids.push(event.id)
        if (logprobs.push(event.logprob) === DRAWN_TOKENS) break
      }
      const positions = logprobs.map((_, at) => promptIds.length + at)
      const scores = openScorer(readWeights(path))
        .score(ids, positions)
        .logprobs(logprobMode === 'raw' ? 1 : temperature)
      expect(Math.max(...logprobs.map((logprob, at) => Math.abs(logprob - (scores[at] ?? Number.NaN))))).toBeLessThanOrEqual(TOLERANCE)
      // They differ by far more than that from one another.
      expect(Math.max(...scores) - Math.min(...scores)).toBeGreaterThan(100 * TOLERANCE)
    },
  )
})

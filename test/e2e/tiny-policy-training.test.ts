import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { packSequences, type Sequence } from '../../examples/tiny-policy/corpus.ts'
import { type GgufFile, readGguf } from '../../examples/tiny-policy/gguf.ts'
import { makeModel } from '../../examples/tiny-policy/make.ts'
import { train } from '../../examples/tiny-policy/train.ts'
import { loadTinyVocabulary } from '../../examples/tiny-policy/vocabulary.ts'

const SHAPE = { merges: 300, width: 32, layers: 2, heads: 4, keyHeads: 2, headWidth: 8, feedForward: 48 }
const { encode, tokens } = loadTinyVocabulary(SHAPE.merges)

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-training-test-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const texts = ['one two three four', 'four three two one', 'a b c d e f g'].map((text) =>
  encode(`<|im_start|>user\n${text}<|im_end|>\n`.repeat(4)),
)
const weighted = (weight: (index: number) => number): readonly Sequence[] =>
  texts.map((ids) => ({ ids, weights: ids.map((_, index) => weight(index)) }))

/** The losses of the steps, and the file as it was and is. */
async function trainOn(sequences: readonly Sequence[], steps: number, options: { readonly threads?: number; readonly seed?: number } = {}) {
  const model = join(folder, 'model.gguf')
  const data = join(folder, 'data.bin')
  const before = makeModel({ ...SHAPE, seed: 7 })
  writeFileSync(model, before)
  writeFileSync(data, packSequences(sequences))
  const losses: number[] = []
  const { threads = 1, seed = 1 } = options
  await train({ model, sequences: data, steps, batch: 3, rate: 0.01, seed, threads }, ({ loss }) => losses.push(loss))
  return { losses, before: parsed(before), after: parsed(readFileSync(model)) }
}

function parsed(bytes: Uint8Array): GgufFile {
  const read = readGguf(bytes)
  if (!read.ok) throw new Error(read.error)
  return read.file
}

describe('a tiny random model', () => {
  it('begins near the loss of knowing nothing and learns a toy corpus', async () => {
    const { losses, before, after } = await trainOn(
      weighted(() => 1),
      25,
    )
    expect(losses).toHaveLength(25)
    expect(losses[0]).toBeGreaterThan(0.9 * Math.log(tokens.length))
    expect(losses.at(-1)).toBeLessThan(0.5 * losses[0]!)
    expect(after.metadata).toEqual(before.metadata)
    // Nothing was left out: each tensor has changed, and is finite.
    for (const [index, tensor] of after.tensors.entries()) {
      expect(tensor.data.every(Number.isFinite), tensor.name).toBe(true)
      expect(tensor.data, tensor.name).not.toEqual(before.tensors[index]!.data)
    }
  })

  it('has the same losses on two threads as on one', async () => {
    const [one, two] = [
      await trainOn(
        weighted(() => 1),
        5,
      ),
      await trainOn(
        weighted(() => 1),
        5,
        { threads: 2 },
      ),
    ]
    for (const [step, loss] of one.losses.entries()) expect(two.losses[step]).toBeCloseTo(loss, 3)
  })

  it('is judged by its weighted tokens alone', async () => {
    // Everything but the last token of each text: what is not weighted is not learned.
    const { losses } = await trainOn(
      weighted((index) => (index % 2 === 0 ? 0 : 1)),
      1,
    )
    const { losses: others } = await trainOn(
      weighted((index) => (index % 2 === 0 ? 1 : 0)),
      1,
    )
    const { losses: all } = await trainOn(
      weighted(() => 1),
      1,
    )
    expect(losses[0]).not.toBeCloseTo(others[0]!, 4)
    expect(Math.min(losses[0]!, others[0]!)).toBeLessThan(all[0]!)
    expect(Math.max(losses[0]!, others[0]!)).toBeGreaterThan(all[0]!)
  })

  it('is moved away from what has a negative weight', async () => {
    const { losses } = await trainOn(
      weighted(() => -1),
      10,
    )
    // The loss of an advantage below 0 is minus what it is otherwise, and sinks as the tokens become less probable.
    expect(losses[0]).toBeLessThan(0)
    expect(losses.at(-1)).toBeLessThan(losses[0]!)
  })

  it('stays as it is without weights, but for what decays', async () => {
    const { losses, before, after } = await trainOn(
      weighted(() => 0),
      3,
    )
    expect(losses).toEqual([0, 0, 0])
    for (const [index, tensor] of after.tensors.entries()) {
      const was = before.tensors[index]!.data
      if (tensor.dimensions.length === 1) expect(tensor.data).toEqual(was)
      else expect(tensor.data.every((value, at) => Math.abs(value) <= Math.abs(was[at]!))).toBe(true)
    }
  })

  it('is refused when it is no model', async () => {
    const path = join(folder, 'no.gguf')
    writeFileSync(path, 'no model')
    await expect(train({ model: path, sequences: path, steps: 1, batch: 1, rate: 0.1, seed: 1, threads: 1 }, () => {})).rejects.toThrow(
      'it does not begin with GGUF',
    )
  })
})

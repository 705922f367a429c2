import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packSequences, type Sequence } from '../../examples/tiny-policy/corpus.ts'
import { type GgufFile, readGguf, writeGguf } from '../../examples/tiny-policy/gguf.ts'
import { makeModel } from '../../examples/tiny-policy/make.ts'
import { buildTrainer, train } from '../../examples/tiny-policy/train.ts'
import { loadTinyVocabulary } from '../../examples/tiny-policy/vocabulary.ts'

const SHAPE = { merges: 300, width: 32, layers: 2, heads: 4, keyHeads: 2, headWidth: 8, feedForward: 48 }
const RANDOM = makeModel({ ...SHAPE, seed: 7 })
const { encode, tokens } = loadTinyVocabulary(SHAPE.merges)

let folder = ''
let program = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'polar-training-test-'))
  program = buildTrainer(folder)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const texts = ['one two three four', 'four three two one', 'a b c d e f g'].map((text) =>
  encode(`<|im_start|>user\n${text}<|im_end|>\n`.repeat(4)),
)
const weighted = (weight: (index: number) => number): readonly Sequence[] =>
  texts.map((ids) => ({ ids, weights: ids.map((_, index) => weight(index)) }))

type Options = { readonly threads?: number; readonly model?: Uint8Array; readonly sharpens?: boolean; readonly rate?: number }

/** The losses of the steps, and the file as it was and is. */
async function trainOn(sequences: readonly Sequence[], steps: number, options: Options = {}) {
  const model = join(folder, 'model.gguf')
  const data = join(folder, 'data.bin')
  const { threads = 1, model: before = RANDOM, sharpens = false, rate = 0.01 } = options
  writeFileSync(model, before)
  writeFileSync(data, packSequences(sequences))
  const losses: number[] = []
  await train(program, { model, sequences: data, steps, batch: 3, rate, seed: 1, threads, sharpens }, ({ loss }) => losses.push(loss))
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

  it('goes down the slope of its loss, in every tensor', async () => {
    const sequences = weighted((index) => (index % 3 === 0 ? 0 : 1))
    const { before, after } = await trainOn(sequences, 1)
    const lossWith = async (byteOffset: number, change: number): Promise<number> => {
      const model = Uint8Array.from(RANDOM)
      const view = new DataView(model.buffer)
      view.setFloat32(byteOffset, view.getFloat32(byteOffset, true) + change, true)
      return (await trainOn(sequences, 1, { model })).losses[0]!
    }
    for (const [index, { name, data, byteOffset }] of before.tensors.entries()) {
      // The first step of Adam is as long for every weight, and against its slope.
      const slopes: number[] = []
      for (const at of [0.31, 0.73].map((share) => Math.floor(share * data.length))) {
        const slope = (await lossWith(byteOffset + 4 * at, 0.05)) - (await lossWith(byteOffset + 4 * at, -0.05))
        if (Math.abs(slope) < 2e-5) continue
        slopes.push(slope)
        expect(Math.sign(after.tensors[index]!.data[at]! - data[at]!), `${name}[${at}], whose slope is ${slope}`).toBe(-Math.sign(slope))
      }
      expect(slopes, name).not.toEqual([])
    }
  }, 60_000)

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

  it('is made surer of what it has learned, as far as that costs nothing', async () => {
    const sequences = weighted(() => 1)
    const { after: plain } = await trainOn(sequences, 20)
    const { after: sharp } = await trainOn(sequences, 20, { sharpens: true })
    const gainOf = (file: GgufFile) => file.tensors.find(({ name }) => name === 'output_norm.weight')!.data[0]!
    expect(gainOf(sharp) / gainOf(plain)).toBeGreaterThan(1.04)
    expect(gainOf(sharp) / gainOf(plain)).toBeLessThan(2.1)
    const lossOf = async ({ metadata, tensors }: GgufFile) =>
      (await trainOn(sequences, 1, { model: writeGguf({ metadata, tensors }) })).losses[0]!
    expect(await lossOf(sharp)).toBeLessThanOrEqual((await lossOf(plain)) * 1.001)
    // One that has learned nothing yet would only be surer of what is wrong.
    const untaught = await trainOn(sequences, 1, { sharpens: true, rate: 1e-9 })
    expect(gainOf(untaught.after)).toBeCloseTo(gainOf(untaught.before), 5)
  })

  it('is refused when it is no model', async () => {
    const path = join(folder, 'no.gguf')
    writeFileSync(path, 'no model')
    await expect(
      train(program, { model: path, sequences: path, steps: 1, batch: 1, rate: 0.1, seed: 1, threads: 1, sharpens: false }, () => {}),
    ).rejects.toThrow('it does not begin with GGUF')
  })
})

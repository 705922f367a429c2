// Trains a model file in place on collected sequences: compiles the trainer, tells it where the tensors lie, and follows its loss.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { type GgufFile, readGguf } from './gguf.ts'

export type Training = {
  readonly model: string
  /** A file of `packSequences`. */
  readonly sequences: string
  readonly steps: number
  /** Sequences per step. */
  readonly batch: number
  /** The highest learning rate, reached after the first steps and left again along a cosine. */
  readonly rate: number
  readonly seed: number
  readonly threads: number
  /** Afterwards all logits are scaled up as far as the loss allows, so that what is certain is sampled for certain. */
  readonly sharpens: boolean
}

export type Progress = { readonly step: number; readonly loss: number; readonly tokensPerSecond: number }

const SOURCE = join(import.meta.dirname, 'trainer/train.c')
const FLAGS = ['-O3', '-march=native', '-ffast-math', '-fopenmp']
/** In the order in which the trainer reads them. */
const LAYER_TENSORS = [
  ...['attn_norm', 'attn_q', 'attn_k', 'attn_v', 'attn_output', 'attn_q_norm', 'attn_k_norm'],
  ...['ffn_norm', 'ffn_gate', 'ffn_up', 'ffn_down'],
]

/** Compiles the trainer into this folder; throws what the compiler has against it. */
export function buildTrainer(folder: string): string {
  const program = join(folder, 'train')
  const compiled = spawnSync('gcc', [...FLAGS, '-o', program, SOURCE, '-lm'], { encoding: 'utf8' })
  if (compiled.error !== undefined) throw new Error(`the trainer needs gcc: ${compiled.error.message}`)
  if (compiled.status !== 0) throw new Error(`gcc could not compile ${SOURCE}:\n${compiled.stderr}`)
  return program
}

/** Rejects when the file is not a Qwen3 of F32 tensors. Until it resolves the file changes step by step. */
export async function train(program: string, training: Training, report: (progress: Progress) => void): Promise<void> {
  const read = readGguf(readFileSync(training.model))
  if (!read.ok) throw new Error(`${training.model} is no model: ${read.error}`)
  const layout = `${program}-layout-${basename(training.model)}.txt`
  writeFileSync(layout, layoutOf(read.file))
  await run(program, layout, training, report)
}

async function run(program: string, layout: string, training: Training, report: (progress: Progress) => void): Promise<void> {
  const { model, sequences, steps, batch, rate, seed, threads, sharpens } = training
  const child = spawn(program, [model, layout, sequences, ...[steps, batch, rate, seed, sharpens ? 1 : 0].map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, OMP_NUM_THREADS: String(threads) },
  })
  const ended = once(child, 'exit')
  for await (const line of createInterface({ input: child.stdout })) {
    const [step = 0, loss = 0, tokensPerSecond = 0] = line.split(' ').map(Number)
    report({ step, loss, tokensPerSecond })
  }
  const [code, signal] = await ended
  if (code !== 0) throw new Error(`the trainer ended with ${signal ?? `exit code ${code}`}; is ${sequences} a file of collect.ts?`)
}

function layoutOf({ metadata, tensors }: GgufFile): string {
  const number = (key: string): number => {
    const found = metadata.get(`qwen3.${key}`)
    if (typeof found?.value !== 'number') throw new Error(`the model has no number qwen3.${key}`)
    return found.value
  }
  const tensor = (name: string): GgufFile['tensors'][number] => {
    const found = tensors.find((each) => each.name === `${name}.weight`)
    if (found === undefined) throw new Error(`the model has no tensor ${name}.weight`)
    return found
  }
  const layers = number('block_count')
  const names = [
    'token_embd',
    'output_norm',
    ...Array.from({ length: layers }, (_, layer) => LAYER_TENSORS.map((name) => `blk.${layer}.${name}`)).flat(),
  ]
  const [width, vocabulary] = tensor('token_embd').dimensions
  const shape = [
    ...[vocabulary, width, layers],
    ...['attention.head_count', 'attention.head_count_kv', 'attention.key_length', 'feed_forward_length'].map(number),
    ...['rope.freq_base', 'attention.layer_norm_rms_epsilon'].map(number),
  ]
  const lines = names
    .map(tensor)
    .map(({ byteOffset, data, dimensions }) => [byteOffset, data.length, dimensions.length > 1 ? 1 : 0].join(' '))
  return `${[shape.join(' '), ...lines].join('\n')}\n`
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    options: {
      steps: { type: 'string', default: '480' },
      batch: { type: 'string', default: '8' },
      rate: { type: 'string', default: '0.003' },
      seed: { type: 'string', default: '1' },
      threads: { type: 'string', default: '2' },
    },
    allowPositionals: true,
  })
  const [model, sequences] = positionals
  if (model === undefined || sequences === undefined) {
    process.stderr.write(
      'usage: node examples/tiny-policy/train.ts [--steps n] [--batch n] [--rate x] [--seed n] [--threads n] <file.gguf> <file.bin>\n',
    )
    process.exit(2)
  }
  const [steps, batch, rate, seed, threads] = [values.steps, values.batch, values.rate, values.seed, values.threads].map(Number)
  if (!steps || !batch || !rate || seed === undefined || !threads) throw new Error('the options must be numbers above 0')
  const folder = mkdtempSync(join(tmpdir(), 'polar-train-'))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      rmSync(folder, { recursive: true, force: true })
      process.kill(process.pid, signal)
    })
  }
  try {
    let [sum, since] = [0, 0]
    await train(
      buildTrainer(folder),
      { model, sequences, steps, batch, rate, seed, threads, sharpens: true },
      ({ step, loss, tokensPerSecond }) => {
        sum += loss
        since += 1
        if (step % 10 !== 0 && step !== 1 && step !== steps) return
        process.stdout.write(`step ${step}: loss ${(sum / since).toFixed(4)}, ${Math.round(tokensPerSecond)} tokens/s\n`)
        sum = since = 0
      },
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

// A tiny Qwen3 with random weights: the real architecture, tokenizer and chat template at a size that a laptop trains in minutes.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type MetadataValue, type Tensor, writeGguf } from './gguf.ts'
import { loadTinyVocabulary, type TinyVocabulary } from './vocabulary.ts'

export type ModelShape = {
  /** The same seed and shape give the same bytes. */
  readonly seed: number
  /** Of Qwen3's byte-pair merges, the first so many. */
  readonly merges: number
  readonly width: number
  readonly layers: number
  readonly heads: number
  /** Each is shared by `heads / keyHeads` of the others. */
  readonly keyHeads: number
  readonly headWidth: number
  readonly feedForward: number
  readonly contextTokens: number
  readonly name: string
}

/** The demo's policy before training. */
export const POLICY_SHAPE: ModelShape = {
  seed: 1,
  merges: 2048,
  width: 128,
  layers: 4,
  heads: 4,
  keyHeads: 2,
  headWidth: 32,
  feedForward: 320,
  contextTokens: 8192,
  name: 'tiny-policy',
}

const ROPE_BASE = 1_000_000
const NORM_EPSILON = 1e-6
const F32_FILE = 0

/** A GGUF file of F32 tensors. What a shape leaves out is as in the demo's policy. */
export function makeModel(wanted: Partial<ModelShape> = {}): Uint8Array {
  const shape = { ...POLICY_SHAPE, ...wanted }
  const vocabulary = loadTinyVocabulary(shape.merges)
  return writeGguf({ metadata: metadataOf(shape, vocabulary), tensors: tensorsOf(shape, vocabulary.tokens.length) })
}

function metadataOf(shape: ModelShape, vocabulary: TinyVocabulary): ReadonlyMap<string, MetadataValue> {
  const count = (value: number): MetadataValue => ({ type: 'uint32', value })
  const real = (value: number): MetadataValue => ({ type: 'float32', value })
  const text = (value: string): MetadataValue => ({ type: 'string', value })
  return new Map<string, MetadataValue>([
    ['general.architecture', text('qwen3')],
    ['general.name', text(shape.name)],
    ['general.file_type', count(F32_FILE)],
    ['qwen3.block_count', count(shape.layers)],
    ['qwen3.context_length', count(shape.contextTokens)],
    ['qwen3.embedding_length', count(shape.width)],
    ['qwen3.feed_forward_length', count(shape.feedForward)],
    ['qwen3.attention.head_count', count(shape.heads)],
    ['qwen3.attention.head_count_kv', count(shape.keyHeads)],
    ['qwen3.attention.key_length', count(shape.headWidth)],
    ['qwen3.attention.value_length', count(shape.headWidth)],
    ['qwen3.attention.layer_norm_rms_epsilon', real(NORM_EPSILON)],
    ['qwen3.rope.freq_base', real(ROPE_BASE)],
    ['tokenizer.ggml.model', text('gpt2')],
    ['tokenizer.ggml.pre', text('qwen2')],
    ['tokenizer.ggml.tokens', { type: 'strings', value: vocabulary.tokens }],
    ['tokenizer.ggml.token_type', { type: 'numbers', of: 'int32', value: vocabulary.types }],
    ['tokenizer.ggml.merges', { type: 'strings', value: vocabulary.merges }],
    ['tokenizer.ggml.eos_token_id', count(vocabulary.idOf('<|im_end|>'))],
    ['tokenizer.ggml.padding_token_id', count(vocabulary.idOf('<|endoftext|>'))],
    ['tokenizer.ggml.bos_token_id', count(vocabulary.idOf('<|endoftext|>'))],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: false }],
    ['tokenizer.chat_template', text(vocabulary.chatTemplate)],
  ])
}

/** The embedding is also the output matrix. Norms begin at 1, and what is added to the residual stream begins small. */
function tensorsOf(shape: ModelShape, vocabularySize: number): readonly Tensor[] {
  const { width, layers, heads, keyHeads, headWidth, feedForward } = shape
  const draw = openGaussian(shape.seed)
  const matrix = (name: string, columns: number, rows: number, deviation = 1 / Math.sqrt(columns)): Tensor => ({
    name: `${name}.weight`,
    dimensions: [columns, rows],
    data: Float32Array.from({ length: columns * rows }, () => draw() * deviation),
  })
  const norm = (name: string, length: number): Tensor => ({
    name: `${name}.weight`,
    dimensions: [length],
    data: new Float32Array(length).fill(1),
  })
  const residual = (columns: number): number => 1 / Math.sqrt(2 * layers * columns)
  const block = (index: number): readonly Tensor[] => {
    const named = (name: string): string => `blk.${index}.${name}`
    return [
      norm(named('attn_norm'), width),
      matrix(named('attn_q'), width, heads * headWidth),
      matrix(named('attn_k'), width, keyHeads * headWidth),
      matrix(named('attn_v'), width, keyHeads * headWidth),
      matrix(named('attn_output'), heads * headWidth, width, residual(heads * headWidth)),
      norm(named('attn_q_norm'), headWidth),
      norm(named('attn_k_norm'), headWidth),
      norm(named('ffn_norm'), width),
      matrix(named('ffn_gate'), width, feedForward),
      matrix(named('ffn_up'), width, feedForward),
      matrix(named('ffn_down'), feedForward, width, residual(feedForward)),
    ]
  }
  return [
    matrix('token_embd', width, vocabularySize, 0.08),
    norm('output_norm', width),
    ...Array.from({ length: layers }, (_, index) => block(index)).flat(),
  ]
}

/** Normally distributed numbers: xorshift and Box and Muller's transform. */
function openGaussian(seed: number): () => number {
  // The state of xorshift must not be 0.
  let state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) >>> 0 || 1
  const uniform = (): number => {
    state ^= state << 13
    state >>>= 0
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return (state + 0.5) / 2 ** 32
  }
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({ options: { seed: { type: 'string', default: '1' } }, allowPositionals: true })
  const [path] = positionals
  if (path === undefined) {
    process.stderr.write('usage: node examples/tiny-policy/make.ts [--seed n] <file.gguf>\n')
    process.exit(2)
  }
  const bytes = makeModel({ seed: Number(values.seed) })
  writeFileSync(path, bytes)
  process.stdout.write(`${path}: ${bytes.byteLength} bytes\n`)
}

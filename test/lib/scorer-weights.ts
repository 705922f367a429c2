// The weights of a Qwen3 model file, as the scorer wants them.
import { readFileSync } from 'node:fs'
import { type Gguf, readGguf } from '../../examples/tiny-policy/gguf.ts'
import type { Weights } from './scorer.ts'
import type { Matrix } from './scorer-operations.ts'

const ARCHITECTURE = 'qwen3'

/** Throws for a file that is no Qwen3 model in F32: the scorer knows no other. */
export function readWeights(path: string): Weights {
  const read = readGguf(readFileSync(path))
  if (!read.ok) throw new Error(`${path}: ${read.error}`)
  const { file } = read
  const architecture = file.metadata.get('general.architecture')?.value
  if (architecture !== ARCHITECTURE) throw new Error(`${path}: its architecture is ${architecture}`)
  const number = (key: string): number => numberOf(file, `${ARCHITECTURE}.${key}`)
  const size = number('attention.key_length')
  if (number('attention.value_length') !== size) throw new Error(`${path}: keys and values are of two sizes`)
  const matrix = (name: string): Matrix => matrixOf(file, `${name}.weight`)
  const gain = (name: string): Float64Array => matrix(name).values
  const embedding = matrix('token_embd')
  return {
    heads: { queries: number('attention.head_count'), keyValues: number('attention.head_count_kv'), size },
    ropeBase: number('rope.freq_base'),
    normEpsilon: number('attention.layer_norm_rms_epsilon'),
    embedding,
    layers: Array.from({ length: number('block_count') }, (_, index) => {
      const at = `blk.${index}`
      return {
        attentionNorm: gain(`${at}.attn_norm`),
        query: matrix(`${at}.attn_q`),
        key: matrix(`${at}.attn_k`),
        value: matrix(`${at}.attn_v`),
        queryNorm: gain(`${at}.attn_q_norm`),
        keyNorm: gain(`${at}.attn_k_norm`),
        attentionOutput: matrix(`${at}.attn_output`),
        feedForwardNorm: gain(`${at}.ffn_norm`),
        gate: matrix(`${at}.ffn_gate`),
        up: matrix(`${at}.ffn_up`),
        down: matrix(`${at}.ffn_down`),
      }
    }),
    outputNorm: gain('output_norm'),
    head: file.tensors.some(({ name }) => name === 'output.weight') ? matrix('output') : embedding,
  }
}

function numberOf({ metadata }: Gguf, key: string): number {
  const value = metadata.get(key)?.value
  if (typeof value !== 'number') throw new Error(`the model file has no number ${key}`)
  return value
}

/** A vector is a matrix of one row. */
function matrixOf({ tensors }: Gguf, name: string): Matrix {
  const tensor = tensors.find((each) => each.name === name)
  if (tensor === undefined) throw new Error(`the model file has no tensor ${name}`)
  const [columns = 0, rows = 1] = tensor.dimensions
  return { rows, columns, values: Float64Array.from(tensor.data) }
}

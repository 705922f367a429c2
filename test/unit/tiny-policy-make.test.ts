import { describe, expect, it } from 'vitest'
import { type GgufFile, readGguf } from '../../examples/tiny-policy/gguf.ts'
import { makeModel } from '../../examples/tiny-policy/make.ts'

const SHAPE = { merges: 100, width: 16, layers: 2, heads: 4, keyHeads: 2, headWidth: 6, feedForward: 20, contextTokens: 512, name: 'small' }

function parsed(bytes: Uint8Array): GgufFile {
  const read = readGguf(bytes)
  if (!read.ok) throw new Error(read.error)
  return read.file
}

describe('a random model', () => {
  it('is the same under the same seed, and another under another', () => {
    const bytes = makeModel({ ...SHAPE, seed: 3 })
    expect(Buffer.from(makeModel({ ...SHAPE, seed: 3 })).equals(bytes)).toBe(true)
    expect(Buffer.from(makeModel({ ...SHAPE, seed: 4 })).equals(bytes)).toBe(false)
  })

  it('has the shape it was asked for, in its metadata and its tensors', () => {
    const { metadata, tensors } = parsed(makeModel(SHAPE))
    const value = (key: string) => metadata.get(key)?.value
    expect(value('general.name')).toBe('small')
    expect(value('qwen3.block_count')).toBe(2)
    expect(value('qwen3.context_length')).toBe(512)
    expect(value('qwen3.attention.key_length')).toBe(6)
    const vocabulary = 256 + 100 + 26
    expect(value('tokenizer.ggml.tokens')).toHaveLength(vocabulary)
    expect(value('tokenizer.ggml.token_type')).toHaveLength(vocabulary)
    expect(value('tokenizer.ggml.merges')).toHaveLength(100)
    const block = [[16], [16, 24], [16, 12], [16, 12], [24, 16], [6], [6], [16], [16, 20], [16, 20], [20, 16]]
    expect(tensors.map(({ dimensions }) => dimensions)).toEqual([[16, vocabulary], [16], ...block, ...block])
  })

  it('is as noisy as its layers need: every matrix keeps the size of what it is given', () => {
    const { tensors } = parsed(makeModel({ ...SHAPE, width: 64, feedForward: 64 }))
    for (const { name, dimensions, data } of tensors) {
      const [columns = 1, rows] = dimensions
      if (rows === undefined || name === 'token_embd.weight') continue
      const deviation = Math.sqrt(data.reduce((sum, weight) => sum + weight * weight, 0) / data.length)
      const wanted = /attn_output|ffn_down/.test(name) ? 1 / Math.sqrt(2 * 2 * columns) : 1 / Math.sqrt(columns)
      expect(deviation / wanted, name).toBeGreaterThan(0.9)
      expect(deviation / wanted, name).toBeLessThan(1.1)
    }
  })
})

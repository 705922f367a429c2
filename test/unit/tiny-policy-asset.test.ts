import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type GgufFile, readGguf } from '../../examples/tiny-policy/gguf.ts'
import { makeModel, POLICY_SHAPE } from '../../examples/tiny-policy/make.ts'

const MEGABYTE = 1024 * 1024
const bytes = readFileSync(resolve(import.meta.dirname, '../../assets/tiny-policy.gguf'))

function parsed(file: Uint8Array): GgufFile {
  const read = readGguf(file)
  if (!read.ok) throw new Error(read.error)
  return read.file
}

const policy = parsed(bytes)
const random = parsed(makeModel())

describe('the committed policy', () => {
  it('says of itself what make.ts writes: architecture, shape, context, vocabulary and Qwen3’s chat template', () => {
    expect([...policy.metadata.keys()]).toEqual([...random.metadata.keys()])
    for (const [key, value] of random.metadata) expect(policy.metadata.get(key), key).toEqual(value)
    expect(policy.metadata.get('general.architecture')).toEqual({ type: 'string', value: 'qwen3' })
    expect(policy.metadata.get('qwen3.context_length')).toEqual({ type: 'uint32', value: POLICY_SHAPE.contextTokens })
    expect(policy.metadata.get('tokenizer.chat_template')?.value).toContain('<tool_call>')
  })

  it('has the tensors that make.ts made, each of them trained and finite', () => {
    const outline = ({ tensors }: GgufFile) => tensors.map(({ name, dimensions, byteOffset }) => ({ name, dimensions, byteOffset }))
    expect(outline(policy)).toEqual(outline(random))
    for (const [index, { name, data }] of policy.tensors.entries()) {
      expect(data.every(Number.isFinite), name).toBe(true)
      expect(
        data.some((value, at) => value !== random.tensors[index]!.data[at]),
        name,
      ).toBe(true)
    }
  })

  it('is a file of a few megabytes', () => {
    expect(bytes.length).toBeLessThan(6 * MEGABYTE)
  })
})

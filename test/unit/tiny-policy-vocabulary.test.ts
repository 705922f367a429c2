import { describe, expect, it } from 'vitest'
import { loadTinyVocabulary } from '../../examples/tiny-policy/vocabulary.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'

const MERGES = 2048
const BYTES = 256
const tiny = loadTinyVocabulary(MERGES)

describe('a prefix of Qwen3’s vocabulary', () => {
  it('has the same tokens under the same ids, up to its last merge', async () => {
    const qwen = await loadQwen()
    const ids = Array.from({ length: BYTES + MERGES }, (_, id) => id)
    // A token may be a part of a character, which no text holds; such have no text to compare.
    const whole = ids.filter((id) => !tiny.decode([id]).includes('\ufffd'))
    expect(whole.length).toBeGreaterThan(MERGES)
    expect(whole.map((id) => tiny.decode([id]))).toEqual(whole.map((id) => Buffer.from(qwen.tokenBytes(id)).toString('utf8')))
  })

  it('cuts a text into the same ids where Qwen3 needs no later merge', async () => {
    const qwen = await loadQwen()
    const texts = tiny.tokens.slice(0, BYTES + MERGES).map((_, id) => tiny.decode([id]))
    const known = texts.filter((text) => qwen.encode(text).every((id) => id < BYTES + MERGES))
    expect(known.length).toBeGreaterThan(0.9 * MERGES)
    expect(known.map(tiny.encode)).toEqual(known.map(qwen.encode))
  })

  it('has all of Qwen3’s added tokens, in their order, as single ids after the merges', async () => {
    const qwen = await loadQwen()
    const added = tiny.tokens.slice(BYTES + MERGES)
    expect(added).toHaveLength(26)
    added.forEach((token, index) => {
      expect(tiny.encode(token)).toEqual([BYTES + MERGES + index])
      expect(qwen.encode(token)).toEqual([151_643 + index])
    })
  })

  it.each([
    'Hello, world!',
    'a  b\t\tc\r\n\n d',
    'é日本 😀',
    '<|im_start|>user\nHi<|im_end|>\n',
    '<tool_call>\n{"name": "bash"}\n</tool_call>',
    '',
  ])('gives back %j', (text) => {
    expect(tiny.decode(tiny.encode(text))).toBe(text)
  })

  it('takes for control what llama.cpp takes for it, and nothing that is said', () => {
    const typeOf = (token: string) => tiny.types[tiny.idOf(token)]
    expect(['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<|fim_pad|>'].map(typeOf)).toEqual([3, 3, 3, 3])
    expect(['<tool_call>', '</tool_call>', '<think>', '</think>'].map(typeOf)).toEqual([4, 4, 4, 4])
    expect(new Set(tiny.types.slice(0, BYTES + MERGES))).toEqual(new Set([1]))
  })

  it('refuses more merges than there are, and a token that it has not', () => {
    expect(() => loadTinyVocabulary(1_000_000)).toThrow('151387')
    expect(() => tiny.idOf('<|nothing|>')).toThrow('<|nothing|>')
  })
})

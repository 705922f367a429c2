import { describe, expect, it } from 'vitest'
import { encodeSpans, packSequences } from '../../examples/tiny-policy/corpus.ts'
import { openVariation } from '../../examples/tiny-policy/variation.ts'
import { loadTinyVocabulary } from '../../examples/tiny-policy/vocabulary.ts'

const { encode, decode } = loadTinyVocabulary(2048)

const FOLDER = '/tmp/polar-x1/data/sandboxes/sbx-0123456789abcdef/workspace'
const PROMPT = `<|im_start|>system\nWork.\nCurrent date: 2026-01-31\nCurrent working directory: ${FOLDER}<|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n`
const SPANS = [
  { text: PROMPT, weight: 0 },
  { text: 'Look:\n<tool_call>\n{"name": "bash", "arguments": {"command": "pwd"}}\n</tool_call><|im_end|>', weight: 1 },
  { text: `\n<|im_start|>user\n<tool_response>\n${FOLDER}\n</tool_response><|im_end|>\n<|im_start|>assistant\n`, weight: 0 },
  { text: 'Done.<|im_end|>', weight: -0.5 },
]

describe('a collected conversation', () => {
  it('has the ids of its whole text', () => {
    expect(encodeSpans(SPANS, encode).ids).toEqual(encode(SPANS.map(({ text }) => text).join('')))
  })

  it('has a weight on exactly what was sampled', () => {
    const { ids, weights } = encodeSpans(SPANS, encode)
    const textOf = (wanted: number) => decode(ids.filter((_, index) => weights[index] === wanted))
    expect(textOf(1)).toBe(SPANS[1]!.text)
    expect(textOf(-0.5)).toBe(SPANS[3]!.text)
    expect(textOf(0)).toBe(SPANS[0]!.text + SPANS[2]!.text)
  })

  it('is packed as counts, ids and weights in turn', () => {
    const packed = packSequences([
      { ids: [5, 6], weights: [0, 1] },
      { ids: [7], weights: [-0.5] },
    ])
    const integers = new Int32Array(packed.buffer)
    const floats = new Float32Array(packed.buffer)
    expect([integers[0], integers[1], integers[2], integers[3], floats[4], floats[5], integers[6], integers[7], floats[8]]).toEqual([
      2, 2, 5, 6, 0, 1, 1, 7, -0.5,
    ])
    expect(packed.byteLength).toBe(36)
  })

  it('is not packed with a weight too few', () => {
    expect(() => packSequences([{ ids: [1, 2], weights: [1] }])).toThrow('2 ids, 1 weights')
  })
})

describe('a conversation told again', () => {
  const tellings = Array.from({ length: 40 }, (_, seed) => SPANS.map((span) => openVariation(PROMPT, `seed ${seed}`)(span.text)))

  it('happened in another folder, of which all its texts agree, and on another day', () => {
    for (const texts of tellings) {
      const folder = /working directory: (\S+?)(?:\n|<)/.exec(texts[0]!)?.[1] ?? ''
      expect(folder).toMatch(/^\/\S+$/)
      expect(texts[2]).toContain(`<tool_response>\n${folder}\n`)
      expect(texts.join('')).not.toContain(FOLDER)
      expect(texts[0]).toMatch(/Current date: 20\d\d-\d\d-\d\d$/m)
    }
    expect(new Set(tellings.map(([prompt]) => prompt)).size).toBe(tellings.length)
  })

  it('is the same under the same seed, and says the same where nothing depends on the place', () => {
    expect(SPANS.map((span) => openVariation(PROMPT, 'seed 0')(span.text))).toEqual(tellings[0])
    for (const texts of tellings) expect([texts[1], texts[3]]).toEqual([SPANS[1]!.text, SPANS[3]!.text])
  })
})

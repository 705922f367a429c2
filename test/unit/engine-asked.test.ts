import { describe, expect, it } from 'vitest'
import { otherSampling, promptProblem, type Reader, samplingOf } from '../../src/engine/serve/asked.ts'
import type { Language } from '../../src/engine/serve/language.ts'
import { readCompletion, readGenerate } from '../../src/engine/serve/own-routes.ts'
import { readChat } from '../../src/engine/serve/prompt.ts'
import { SHAPES, type ShapeName } from '../../src/engine/wire/shape.ts'

const language: Language = {
  encode: (text) => [...Buffer.from(text)],
  decode: (ids) => Buffer.from(ids).toString(),
  vocabularySize: 256,
  textStartId: 1,
  renderPrompt: ({ messages }) =>
    messages[0]?.role === 'user' ? { ok: true, text: String(messages[0].content) } : { ok: false, message: 'a user must begin' },
}
const reader = (shape: ShapeName): Reader => ({ shape: SHAPES[shape], model: 'm', maxModelLen: 64, takesImages: false, language })
const asked = (reading: ReturnType<typeof readChat>) => {
  if (!reading.ok) throw new Error(reading.complaint.message)
  return reading.asked
}
const messages = [{ role: 'user', content: 'hi' }]

describe('the sampling a request asks for', () => {
  it.each([
    ['vllm', { temperature: 1, topP: 1, topK: 0, minP: 0, ignoresEnd: false }],
    ['sglang', { temperature: 1, topP: 1, topK: 0, minP: 0, ignoresEnd: false }],
    ['llamacpp', { temperature: 0.8, topP: 0.95, topK: 40, minP: 0.05, ignoresEnd: false }],
  ] as const)('is what %s does where it says nothing', (shape, expected) => {
    expect(asked(readChat(reader(shape), { messages }))).toMatchObject(expected)
  })

  const wished = { temperature: 0.5, top_p: 0.9, top_k: 20, min_p: 0.1, ignore_eos: true }
  const meant = { temperature: 0.5, topP: 0.9, topK: 20, minP: 0.1, ignoresEnd: true }
  it.each([
    ['chat', readChat(reader('vllm'), { messages, ...wished })],
    ['/generate', readGenerate(reader('sglang'), { input_ids: [1], sampling_params: { ...wished, max_new_tokens: 1 } })],
    ['/completion', readCompletion(reader('llamacpp'), { prompt: [1], ...wished })],
  ])('is read from %s', (_route, reading) => {
    expect(asked(reading)).toMatchObject(meant)
  })

  it.each([
    [{ seed: 5 }, 5],
    [{ seed: -1 }, null],
    [{}, null],
  ])('has llama.cpp’s seed, of which -1 is any: %j', (fields, expected) => {
    expect(asked(readCompletion(reader('llamacpp'), { prompt: [1], ...fields })).seed).toBe(expected)
  })

  it.each([-1, 0])('keeps all candidates at top_k %d', (topK) => {
    expect(samplingOf({ top_k: topK }, SHAPES.llamacpp.defaultSampling).topK).toBe(0)
  })
})

describe('a wish that would change what is drawn', () => {
  it.each([
    [{ presence_penalty: 0, frequency_penalty: 0, repetition_penalty: 1, min_tokens: 0, logit_bias: {}, bad_words: [] }, []],
    [{ response_format: { type: 'text' }, regex: null }, []],
    [{ repetition_penalty: 1.1, logit_bias: { 5: -100 } }, ['repetition_penalty', 'logit_bias']],
    [{ json_schema: '{}' }, ['json_schema']],
    [{ response_format: { type: 'json_object' } }, ['response_format']],
    [{ tool_choice: 'auto' }, []],
    [{ tool_choice: 'none' }, []],
    [{ tool_choice: 'required' }, ['tool_choice']],
    [{ tool_choice: { type: 'function', function: { name: 'bash' } } }, ['tool_choice']],
  ])('is named: %j', (fields, expected) => {
    expect(otherSampling(fields)).toEqual(expected)
  })
})

describe('a prompt', () => {
  it.each([
    ['of ids that the vocabulary has', [0, 255], null],
    ['of an id beyond it', [0, 256], /256 is out of vocabulary/],
    ['of nothing', [], /empty/],
  ])('%s', (_name, ids, expected) => {
    const problem = promptProblem(reader('vllm'), ids, 'input_ids')
    if (expected === null) expect(problem).toBeNull()
    else expect(problem).toMatchObject({ status: 400, message: expect.stringMatching(expected), param: 'input_ids' })
  })

  it.each([
    ['a text of /generate', readGenerate(reader('sglang'), { text: 'a', sampling_params: { max_new_tokens: 1 } }), [1, 97]],
    ['a text of /completion', readCompletion(reader('llamacpp'), { prompt: 'a' }), [1, 97]],
    ['a text that has it', readCompletion(reader('llamacpp'), { prompt: '\u0001a' }), [1, 97]],
    ['ids', readCompletion(reader('llamacpp'), { prompt: [97] }), [97]],
    ['what a template has written', readChat(reader('vllm'), { messages: [{ role: 'user', content: 'a' }] }), [97]],
  ])('begins with the model’s first token where that is missing: %s', (_, reading, ids) => {
    expect(asked(reading).promptIds).toEqual(ids)
  })

  it('that the template refuses is refused with its reason', () => {
    expect(readChat(reader('vllm'), { messages: [{ role: 'tool', content: 'x' }] })).toMatchObject({
      complaint: { status: 400, message: 'a user must begin', param: 'messages' },
    })
  })
})

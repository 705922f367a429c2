import { describe, expect, it } from 'vitest'
import { parseAnswer, writeAnswer } from '../../src/engine/serve/answer-text.ts'

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`
const brief = (text: string, parsesTools = true) =>
  parseAnswer(text, parsesTools).map((part) =>
    part.kind === 'tool-call' ? [part.kind, part.name, part.arguments] : [part.kind, part.text],
  )

describe('writing an answer', () => {
  it.each([
    ['text', { reasoning: '', text: 'Hi.', toolCalls: [] }, 'Hi.'],
    ['reasoning and text', { reasoning: 'Hm.', text: 'Hi.', toolCalls: [] }, '<think>\nHm.\n</think>\n\nHi.'],
    [
      'a call alone',
      { reasoning: '', text: '', toolCalls: [{ name: 'bash', arguments: { command: 'ls' } }] },
      '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',
    ],
    [
      'text and two calls',
      {
        reasoning: '',
        text: 'Go.',
        toolCalls: [
          { name: 'a', arguments: {} },
          { name: 'b', arguments: { x: [1, 2] } },
        ],
      },
      `Go.\n${call('a', '{}')}\n${call('b', '{"x": [1, 2]}')}`,
    ],
    ['composed characters', { reasoning: '', text: 'e\u0301', toolCalls: [] }, '\u00e9'],
  ])('writes %s as the template would', (_name, answer, expected) => {
    expect(writeAnswer(answer)).toBe(expected)
  })
})

describe('reading an answer', () => {
  it.each([
    ['plain text', 'Hi.\n', [['content', 'Hi.\n']]],
    ['nothing', '', []],
    [
      'reasoning and text',
      '<think>\nHm.\n</think>\n\nHi.',
      [
        ['reasoning', 'Hm.'],
        ['content', 'Hi.'],
      ],
    ],
    ['empty reasoning', '<think>\n\n</think>\n\nHi.', [['content', 'Hi.']]],
    ['thinking tags in the wrong order', 'a</think>b<think>c', [['content', 'a</think>b<think>c']]],
    ['thinking tags that are talked about', 'Use <think> and </think>.', [['content', 'Use <think> and </think>.']]],
    ['reasoning that never closes', '<think>\nHm', [['content', '<think>\nHm']]],
    ['a call', call('bash', '{"command": "ls"}'), [['tool-call', 'bash', '{"command": "ls"}']]],
    [
      'text, then calls',
      `Go.\n${call('a', '{}')}\n${call('b', '{"x": 1.0}')}`,
      [
        ['content', 'Go.'],
        ['tool-call', 'a', '{}'],
        ['tool-call', 'b', '{"x": 1.0}'],
      ],
    ],
    [
      'reasoning, then a call',
      `<think>\nHm.\n</think>\n\n${call('a', '{}')}`,
      [
        ['reasoning', 'Hm.'],
        ['tool-call', 'a', '{}'],
      ],
    ],
    ['a call sampled compactly', '<tool_call>{"name":"a","arguments":{"x":[1,2]}}</tool_call>', [['tool-call', 'a', '{"x": [1, 2]}']]],
    ['a call sampled backwards', '<tool_call>{"arguments":{"x":1},"name":"a"}</tool_call>', [['tool-call', 'a', '{"x": 1}']]],
    ['a call whose closing tag was not sampled', '<tool_call>\n{"name": "a", "arguments": {}}', [['tool-call', 'a', '{}']]],
    [
      'a call cut short: all of it is content',
      'Go.\n<tool_call>\n{"name": "a", "argu',
      [['content', 'Go.\n<tool_call>\n{"name": "a", "argu']],
    ],
    [
      'one broken call among two: all of it is content',
      `${call('a', '{}')}\n<tool_call>{]</tool_call>`,
      [['content', `${call('a', '{}')}\n<tool_call>{]</tool_call>`]],
    ],
    ['arguments that mention the tags', call('a', '{"x": "\\"arguments\\": {}"}'), [['tool-call', 'a', '{"x": "\\"arguments\\": {}"}']]],
  ])('reads %s', (_name, text, expected) => {
    expect(brief(text)).toEqual(expected)
  })

  it('leaves calls in the content when no tools were offered', () => {
    expect(brief(call('a', '{}'), false)).toEqual([['content', call('a', '{}')]])
  })

  it('says where each part stands in the sampled text', () => {
    const text = `<think>\nHm.\n</think>\n\nGo.\n${call('a', '{"x": 1}')}`
    const parts = parseAnswer(text, true)
    expect(parts.map((part) => (part.kind === 'tool-call' ? part.arguments : part.text))).toEqual(
      parts.map((part) => {
        const start = part.kind === 'tool-call' ? (part.argumentsStart ?? -1) : part.start
        const length = part.kind === 'tool-call' ? part.arguments.length : part.end - part.start
        return text.slice(start, start + length)
      }),
    )
  })

  it.each([
    ['closed', 'Hm.\n</think>\n\nHi.', ['reasoning Hm.', 'content Hi.']],
    ['opened again by the model', '<think>\nHm.\n</think>\n\nHi.', ['reasoning Hm.', 'content Hi.']],
    ['cut short', 'Hm. I', ['reasoning Hm. I']],
    ['without a word', '\n</think>\n\nHi.', ['content Hi.']],
  ])('reads a thought that the prompt has opened: %s', (_name, text, expected) => {
    const parts = parseAnswer(text, true, true)
    expect(parts.map((part) => (part.kind === 'tool-call' ? part.name : `${part.kind} ${part.text}`))).toEqual(expected)
  })
})

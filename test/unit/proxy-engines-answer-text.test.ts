// Reading sampled text: the message it gives is the one the engine's own parsers give, and nothing is made up.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AnswerContent, parseAnswer, writeAnswer } from '../../src/engine/serve/answer-text.ts'
import { type AnswerFormat, readAnswerText } from '../../src/proxy/answer-text/answer-text.ts'
import { argumentJson } from '../../src/proxy/answer-text/argument.ts'
import { pythonLiteral } from '../../src/proxy/answer-text/python-literal.ts'
import type { Tool } from '../../src/proxy/chat.ts'

const tools: readonly Tool[] = [
  {
    type: 'function',
    function: {
      name: 'bash',
      parameters: {
        type: 'object',
        properties: {
          command: { type: 'string' },
          timeout: { type: 'integer' },
          ratio: { type: 'number' },
          quiet: { type: 'boolean' },
          env: { type: 'object' },
          paths: { anyOf: [{ type: 'array' }, { type: 'null' }] },
          note: { type: ['string', 'null'] },
        },
      },
    },
  },
]
const JSON_FORM: AnswerFormat = { reasoning: 'think-tags', opensThinking: false, calls: 'json' }
const XML_FORM: AnswerFormat = { reasoning: 'think-tags', opensThinking: true, calls: 'xml' }
const json = (text: string, given: readonly Tool[] | null = tools) =>
  readAnswerText(text, { format: JSON_FORM, beginsInThought: false, tools: given })
const xml = (text: string, beginsInThought = false) => readAnswerText(text, { format: XML_FORM, beginsInThought, tools })
const nothing = { reasoning: '', content: '', calls: [], diagnostics: [] }

describe('reasoning', () => {
  it.each([
    ['its own tags', '<think>\nHm.\n</think>\n\nHi.', false, 'Hm.', 'Hi.'],
    ['empty tags', '<think>\n\n</think>\n\nHi.', false, '', 'Hi.'],
    ['a thought the template opened', 'Hm.\n</think>\n\nHi.', true, 'Hm.', 'Hi.'],
    ['a thought opened twice', '<think>\nHm.\n</think>\n\nHi.', true, 'Hm.', 'Hi.'],
    ['a thought that was cut', 'Hm. I', true, 'Hm. I', ''],
    ['its own thought that was cut', '<think>\nHm', false, 'Hm', ''],
    ['no thought', 'Hi.\n', false, '', 'Hi.\n'],
    ['tags that are talked about', 'Use <think> and </think>.', false, '', 'Use <think> and </think>.'],
    ['text that only looks like a call', 'I could <tool_call> now', true, 'I could <tool_call> now', ''],
  ])('is told from %s', (_name, text, beginsInThought, reasoning, content) => {
    expect(xml(text, beginsInThought)).toEqual({ ...nothing, reasoning, content })
  })

  it('ends where a call begins without a word', () => {
    const call = '<tool_call>\n<function=bash>\n</function>\n</tool_call>'
    expect(xml(`Hm.\n${call}`, true)).toEqual({ ...nothing, reasoning: 'Hm.', calls: [{ name: 'bash', arguments: '{}' }] })
  })

  it('is not looked for where the model has none', () => {
    const format: AnswerFormat = { ...JSON_FORM, reasoning: 'none' }
    expect(readAnswerText('<think>\nHm', { format, beginsInThought: true, tools }).content).toBe('<think>\nHm')
  })
})

describe('calls in JSON', () => {
  const block = (body: string) => `<tool_call>\n${body}\n</tool_call>`

  it.each([
    ['as Python prints them', '{"name": "bash", "arguments": {"command": "ls", "n": [1, 2]}}', '{"command": "ls", "n": [1, 2]}'],
    ['in another spacing', '{"name":"bash","arguments":{"a":1.0,"b":12345678901234567890}}', '{"a":1.0,"b":12345678901234567890}'],
    ['name last', '{"arguments": {"a": "}, \\"name\\": {"} , "name": "bash"}', '{"a": "}, \\"name\\": {"}'],
    ['twice', '{"arguments": {"a": 1}, "name": "bash", "arguments": {"a": 2}}', '{"a": 2}'],
    ['under SGLang’s other name', '{"name": "bash", "parameters": {"a": 1}}', '{"a": 1}'],
    ['not at all', '{"name": "bash"}', '{}'],
    ['that are no object', '{"name": "bash", "arguments": 5 }', '5'],
    ['that are text', '{"name": "bash", "arguments": "{\\"a\\": 1}"}', '"{\\"a\\": 1}"'],
    ['with a name in escapes', '{"n\\u0061me": "bash", "arguments": []}', '[]'],
  ])('keep their arguments byte for byte: %s', (_name, body, args) => {
    expect(json(block(body))).toEqual({ ...nothing, calls: [{ name: 'bash', arguments: args }] })
  })

  it('come in any number, after text', () => {
    const [a, b] = [block('{"name": "a", "arguments": {}}'), block('{"name": "b", "arguments": {}}')]
    const calls = [
      { name: 'a', arguments: '{}' },
      { name: 'b', arguments: '{}' },
    ]
    expect(json(`Go.\n${a}\n${b}`)).toEqual({ ...nothing, content: 'Go.', calls })
    expect(json(`Go.\n\n${a}${b}`)).toEqual({ ...nothing, content: 'Go.', calls })
  })

  it('need not close when the text ends there', () => {
    expect(json('<tool_call>\n{"name": "a", "arguments": {}}').calls).toEqual([{ name: 'a', arguments: '{}' }])
  })

  it.each([
    ['cut short', '<tool_call>\n{"name": "a", "argum', 'call 1: not a JSON object'],
    ['no JSON', block('ls -l'), 'call 1: not a JSON object'],
    ['a list', block('[]'), 'call 1: not a JSON object'],
    ['no name', block('{"arguments": {}}'), 'call 1: has no name'],
    ['an empty name', block('{"name": "", "arguments": {}}'), 'call 1: has no name'],
    ['a name that is none', block('{"name": 5}'), 'call 1: has no name'],
    ['one good, one bad', `${block('{"name": "a", "arguments": {}}')}\n${block('{')}`, 'call 2: not a JSON object'],
    ['one inside another', '<tool_call>\n{"name": "a"}<tool_call>\n{"name": "b"}\n</tool_call>', 'call 1: not a JSON object'],
  ])('that are malformed stay text, all of them: %s', (_name, text, detail) => {
    expect(json(`Go.\n${text}`)).toEqual({
      ...nothing,
      content: `Go.\n${text}`,
      diagnostics: [{ code: 'tool-call-malformed', detail }],
    })
  })

  it('are text when no tool was offered', () => {
    const text = block('{"name": "a", "arguments": {}}')
    expect(json(text, null)).toEqual({ ...nothing, content: text })
  })

  it('lose what follows them, and it is said', () => {
    const found = json(`${block('{"name": "a"}')} and ${block('{"name": "a"}')}\nthen`)
    expect([found.content, found.diagnostics]).toEqual(['', [{ code: 'text-after-calls', detail: '7 characters' }]])
  })

  const text = fc.string({ unit: fc.constantFrom('a', 'é', '🤗', '"', '\\', '\n', '{', '}', '<', ' ', ','), maxLength: 12 })
  const answers = fc.record({
    reasoning: text.map((words) => words.trim()),
    text: text.map((words) => words.trim()),
    toolCalls: fc.array(
      fc.record({
        name: fc.constantFrom('bash', 'read'),
        arguments: fc.dictionary(text, fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.array(text, { maxLength: 3 }))),
      }),
      { maxLength: 3 },
    ),
  })

  it('are, with their text and reasoning, what the engine’s own parser makes of the same sample', () => {
    fc.assert(
      fc.property(answers, (answer: AnswerContent) => {
        const sampled = writeAnswer(answer)
        const parts = parseAnswer(sampled, true)
        const found = json(sampled)
        const textOf = (kind: string) => parts.flatMap((part) => (part.kind === kind && 'text' in part ? [part.text] : [])).join('')
        expect([found.reasoning, found.content]).toEqual([textOf('reasoning'), textOf('content')])
        expect(found.calls).toEqual(
          parts.flatMap((part) => (part.kind === 'tool-call' ? [{ name: part.name, arguments: part.arguments }] : [])),
        )
      }),
    )
  })
})

describe('calls in tags', () => {
  const call = (...parameters: readonly (readonly [string, string])[]) => {
    const inner = parameters.map(([name, value]) => `<parameter=${name}>\n${value}\n</parameter>\n`).join('')
    return `<tool_call>\n<function=bash>\n${inner}</function>\n</tool_call>`
  }

  it('are typed by the tool’s schema', () => {
    const text = call(['command', 'echo "é"\n\nls'], ['timeout', '30'], ['ratio', '1.50'], ['quiet', 'True'], ['env', '{"A":1}'])
    expect(xml(`Go.\n\n${text}`)).toEqual({
      ...nothing,
      content: 'Go.',
      calls: [
        {
          name: 'bash',
          arguments: '{"command": "echo \\"é\\"\\n\\nls", "timeout": 30, "ratio": 1.5, "quiet": true, "env": {"A": 1}}',
        },
      ],
    })
  })

  it.each([
    ['no parameters', '<tool_call><function=bash></function></tool_call>', '{}'],
    [
      'a parameter that does not close',
      '<tool_call><function=bash><parameter=command>ls<parameter=timeout>3</function></tool_call>',
      '{"command": "ls", "timeout": 3}',
    ],
    ['a parameter given twice', call(['command', 'a'], ['timeout', '1'], ['command', 'b']), '{"command": "b", "timeout": 1}'],
    ['one that the schema does not know', call(['extra', '5']), '{"extra": "5"}'],
    ['line breaks of the value itself', call(['command', '\nls\n']), '{"command": "\\nls\\n"}'],
    ['tags inside a value', call(['command', 'echo <b>x</b>']), '{"command": "echo <b>x</b>"}'],
  ])('have %s', (_name, text, args) => {
    expect(xml(text)).toEqual({ ...nothing, calls: [{ name: 'bash', arguments: args }] })
  })

  it('may be of a tool that nobody offered: the agent says so', () => {
    expect(xml('<tool_call>\n<function=made_up>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>').calls).toEqual([
      { name: 'made_up', arguments: '{"x": "1"}' },
    ])
  })

  it.each([
    ['cut inside an argument', '<tool_call>\n<function=bash>\n<parameter=command>\nrm -rf /tm', 'call 1: no complete function'],
    ['one good, one cut', `${call()}\n<tool_call>\n<function=bash>\n<para`, 'call 2: no complete function'],
    ['no function', '<tool_call>\nls\n</tool_call>', 'call 1: no complete function'],
    ['no name', '<tool_call><function=></function></tool_call>', 'call 1: a function has no name'],
    [
      'a parameter without a name',
      '<tool_call><function=bash><parameter=>x</parameter></function></tool_call>',
      'call 1: a parameter of bash has no name',
    ],
  ])('that are malformed stay text: %s', (_name, text, detail) => {
    expect(xml(text)).toEqual({ ...nothing, content: text, diagnostics: [{ code: 'tool-call-malformed', detail }] })
  })

  it('always have arguments that are JSON', () => {
    const value = fc.string({
      unit: fc.constantFrom('1', '-', '.', 'e', '"', "'", '{', '}', '[', ']', ',', ':', 'N', 'a', '\n', '\\'),
      maxLength: 10,
    })
    const names = fc.constantFrom('command', 'timeout', 'ratio', 'quiet', 'env', 'paths', 'note', 'other')
    fc.assert(
      fc.property(fc.array(fc.tuple(names, value), { maxLength: 4 }), (parameters) => {
        const [found] = xml(call(...parameters)).calls
        expect(() => JSON.parse(found?.arguments ?? '')).not.toThrow()
      }),
    )
  })
})

it('any text whatever is read without a throw, and what is no call is all there', () => {
  const piece = fc.constantFrom(
    '<think>',
    '</think>',
    '<tool_call>',
    '</tool_call>',
    '<function=',
    'a>',
    '</function>',
    '{"name":',
    '"x"',
    '}',
    '\n',
    'w',
  )
  fc.assert(
    fc.property(fc.array(piece), fc.boolean(), (pieces, beginsInThought) => {
      const sampled = pieces.join('')
      for (const format of [JSON_FORM, XML_FORM]) {
        const found = readAnswerText(sampled, { format, beginsInThought, tools })
        const letters = (words: string) => words.replace(/<\/?think>|\n/g, '')
        if (found.calls.length === 0) expect(letters(found.reasoning + found.content)).toBe(letters(sampled))
      }
    }),
  )
})

describe('an argument', () => {
  it.each<[unknown, string, string]>([
    [{ type: 'string' }, 'null', '"null"'],
    [{ type: ['string', 'null'] }, 'null', 'null'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'None', 'null'],
    [{ type: 'integer' }, 'null', 'null'],
    [{ type: 'integer' }, ' 007 ', '7'],
    [{ type: 'integer' }, '+1_000', '1000'],
    [{ type: 'integer' }, '-0', '0'],
    [{ type: 'integer' }, '12345678901234567890', '12345678901234567890'],
    [{ type: 'integer' }, '1.5', '"1.5"'],
    [{ type: 'int32' }, '1', '1'],
    [{ type: 'number' }, '5', '5'],
    [{ type: 'number' }, '5.0', '5.0'],
    [{ type: 'number' }, '1e3', '1000.0'],
    [{ type: 'number' }, '-.5', '-0.5'],
    [{ type: 'number' }, 'inf', '"inf"'],
    [{ type: 'number' }, '1e999', '"1e999"'],
    [{ type: 'number' }, '0x10', '"0x10"'],
    [{ type: 'number' }, '', '""'],
    [{ type: 'boolean' }, 'FALSE', 'false'],
    [{ type: 'boolean' }, 'yes', '"yes"'],
    [{ type: 'object' }, '{"b":1,"a":[1.0,2]}', '{"b": 1, "a": [1.0, 2]}'],
    [{ type: 'array' }, "['a', True, None]", '["a", true, null]'],
    [{ type: 'array' }, 'a, b', '"a, b"'],
    [{ anyOf: [{ type: 'integer' }, { type: 'string' }] }, '5', '"5"'],
    [{ anyOf: [{ type: 'array' }, { type: 'null' }] }, '[1]', '[1]'],
    [{ enum: [1, 2] }, '2', '2'],
    [{ enum: ['1', '2'] }, '2', '"2"'],
    [{ type: 'null' }, 'null', 'null'],
    [{}, '5', '"5"'],
    [undefined, 'null', '"null"'],
  ])('of %j sampled as %j is %s', (schema, text, expected) => {
    expect(argumentJson(text, schema)).toBe(expected)
  })
})

describe('a Python literal', () => {
  it.each([
    ["{'a': 1, 'b': [True, None, -2.50]}", '{"a": 1, "b": [true, null, -2.5]}'],
    ['{1: "x", 2.0: (), True: (3,)}', '{"1": "x", "2.0": [], "true": [3]}'],
    ["'it\\'s \\x41\\u00e9\\n\\q'", '"it\'s Aé\\n\\\\q"'],
    ["'''two\nlines'''", '"two\\nlines"'],
    ['((1))', '1'],
    ["{'a': 1, 'a': 2,}", '{"a": 2}'],
    ['1e16', '1e+16'],
    ["{'a'}", null],
    ['[1', null],
    ['01', null],
    ['nan', null],
    ['{[1]: 2}', null],
    ["'open", null],
    ['1 2', null],
    ['', null],
    [`${'['.repeat(10_000)}`, null],
  ])('%s', (text, expected) => {
    expect(pythonLiteral(text)).toBe(expected)
  })
})

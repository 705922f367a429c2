import { describe, expect, it } from 'vitest'
import { openScriptAnswers } from '../../src/engine/scripted/answers.ts'
import { openBag } from '../../src/engine/scripted/bag.ts'
import { conversationOf } from '../../src/engine/scripted/conversation.ts'
import { openGeneratorAnswers } from '../../src/engine/scripted/generator.ts'
import { loadScript, parseScriptText, type ScriptInput, scriptSchema } from '../../src/engine/scripted/script.ts'
import type { ChatMessage, ChatTool } from '../../src/engine/wire/chat-request.ts'

const user = (content: string): ChatMessage => ({ role: 'user', content })
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content })
const tool = (name: string, parameters: Record<string, unknown> = {}): ChatTool => ({ type: 'function', function: { name, parameters } })
const sourceOf = (script: ScriptInput, seed = 1) => openScriptAnswers(scriptSchema.parse(script), seed)
const says = (script: ScriptInput, messages: readonly ChatMessage[], tools: readonly ChatTool[] = []) =>
  sourceOf(script).answer(conversationOf(messages, tools), null).text

describe('which rule answers', () => {
  const ruled = (match: ScriptInput['rules'][number]['match']): ScriptInput => ({
    rules: [{ match, choices: [{ text: 'matched' }] }],
    fallback: { text: 'fallback' },
  })
  const messages = [{ role: 'system', content: 'You are Ada.' }, user('Fix the bug'), assistant('ok'), { role: 'tool', content: 'exit 1' }]

  it.each([
    ['no condition', {}, 'matched'],
    ['its turn', { turn: 2 }, 'matched'],
    ['another turn', { turn: 1 }, 'fallback'],
    ['the last role', { last_role: 'tool' }, 'matched'],
    ['another last role', { last_role: 'user' }, 'fallback'],
    ['text of the last message', { last_contains: 'exit 1' }, 'matched'],
    ['text of an earlier message as last', { last_contains: 'bug' }, 'fallback'],
    ['text of the system message', { system_contains: 'Ada' }, 'matched'],
    ['text that is not in the system message', { system_contains: 'bug' }, 'fallback'],
    ['text of the first user message', { first_user_contains: 'bug' }, 'matched'],
    ['a pattern', { last_contains: { regex: '^EXIT \\d$', flags: 'i' } }, 'matched'],
    ['a pattern that does not match', { last_contains: { regex: '^1' } }, 'fallback'],
    ['plain text with pattern characters', { last_contains: 'exit .' }, 'fallback'],
    ['a tool that is offered', { has_tool: 'bash' }, 'matched'],
    ['a tool that is not offered', { has_tool: 'write' }, 'fallback'],
    ['two conditions of which one fails', { turn: 2, last_role: 'user' }, 'fallback'],
    ['a variant nobody drew', { variant: 'good' }, 'fallback'],
  ] as const)('%s', (_name, match, expected) => {
    expect(says(ruled(match), messages, [tool('bash')])).toBe(expected)
  })

  it('takes the first of several that match', () => {
    expect(says({ rules: [{ choices: [{ text: 'one' }] }, { choices: [{ text: 'two' }] }] }, [user('x')])).toBe('one')
  })

  it('says "Done." when nothing matches and no fallback is written', () => {
    expect(says({ rules: [{ match: { turn: 9 }, choices: [{ text: 'x' }] }] }, [user('x')])).toBe('Done.')
  })
})

describe('variants', () => {
  const script: ScriptInput = {
    rules: [
      {
        match: { turn: 1 },
        choices: [
          { variant: 'good', text: 'I will  look.', tool_calls: [{ name: 'bash', arguments: { command: 'ls', flags: { a: 1, b: 2 } } }] },
          { variant: 'bad', text: 'I know it.' },
        ],
      },
      { match: { turn: 2, variant: 'good' }, choices: [{ text: 'good end' }] },
      { choices: [{ variant: 'bad', text: 'bad end' }] },
    ],
    fallback: { text: 'stranger' },
  }
  const answered = (message: ChatMessage) => says(script, [user('x'), message, user('go on')])
  const calling = (content: string | null, args: unknown) => ({
    role: 'assistant',
    content,
    tool_calls: [{ function: { name: 'bash', arguments: args } }],
  })

  it.each([
    ['as it was sent', calling('I will  look.', '{"command": "ls", "flags": {"a": 1, "b": 2}}'), 'good end'],
    ['with other whitespace', calling('I will\nlook. ', '{\n"command":"ls","flags":{"a":1,"b":2}}'), 'good end'],
    ['with other key order', calling('I will look.', '{"flags":{"b":2,"a":1},"command":"ls"}'), 'good end'],
    ['as an object', calling('I will look.', { command: 'ls', flags: { a: 1, b: 2 } }), 'good end'],
    [
      'with its thinking in the text',
      calling('<think>\nhm\n</think>\n\nI will look.', '{"command":"ls","flags":{"a":1,"b":2}}'),
      'good end',
    ],
    ['the other one', assistant('I know it.'), 'bad end'],
    ['with another argument: nobody knows it', calling('I will look.', '{"command": "pwd"}'), 'stranger'],
    ['without its call: nobody knows it', assistant('I will look.'), 'stranger'],
  ])('recognises the first answer %s', (_name, message, expected) => {
    expect(answered(message)).toBe(expected)
  })

  it.each([1, 2, 3])('draws each in exactly its proportion over every full round (seed %i)', (seed) => {
    const weighted: ScriptInput = {
      rules: [
        {
          match: { turn: 1 },
          choices: [
            { variant: 'a', weight: 2, text: 'a' },
            { variant: 'b', weight: 4, text: 'b' },
            { variant: 'c', weight: 2, text: 'c' },
          ],
        },
      ],
    }
    const source = sourceOf(weighted, seed)
    for (let round = 0; round < 5; round += 1) {
      const drawn = Array.from({ length: 4 }, () => source.answer(conversationOf([user('x')], []), null).variant).sort()
      expect(drawn).toEqual(['a', 'b', 'b', 'c'])
    }
  })

  it('does not let a request without tools take from the conversations that have some', () => {
    const source = sourceOf(script)
    const draw = (tools: readonly ChatTool[]) => source.answer(conversationOf([user('x')], tools), null).variant
    const first = draw([tool('bash')])
    draw([])
    expect([first, draw([tool('bash')])].sort()).toEqual(['bad', 'good'])
  })
})

describe('the stratified bag', () => {
  const rounds = (seed: number) => {
    const bag = openBag([1, 1, 1, 1], seed)
    return Array.from({ length: 10 }, () => Array.from({ length: 4 }, () => bag.draw()).join(''))
  }

  it('draws the same under the same seed and otherwise under another', () => {
    expect(rounds(7)).toEqual(rounds(7))
    expect(rounds(7)).not.toEqual(rounds(8))
  })

  it('shuffles every round anew', () => {
    expect(new Set(rounds(7)).size).toBeGreaterThan(3)
  })
})

describe('script files', () => {
  it('reads YAML and JSON alike', () => {
    const yaml = parseScriptText('rules:\n  - choices:\n      - text: hi\n', 'a.yaml')
    const json = parseScriptText('{"rules":[{"choices":[{"text":"hi"}]}]}', 'a.json')
    expect(yaml.ok).toBe(true)
    expect(yaml).toEqual(json)
  })

  it.each([
    ['rules: [', /script s\.yaml: /],
    ['rules: []', /rules: /],
    ['rules: [{ choices: [{ text: hi, txet: x }] }]', /rules\[0\]\.choices\[0\]: .*txet/],
    ['rules: [{ choices: [{}] }]', /rules\[0\]\.choices\[0\]: needs text, reasoning or tool_calls/],
    ['rules: [{ choices: [{ tool_calls: [{ name: "a b" }] }] }]', /rules\[0\]\.choices\[0\]\.tool_calls\[0\]\.name: must be a tool name/],
    ['rules: [{ choices: [{ text: "x<|im_end|>" }] }]', /rules\[0\]\.choices\[0\]\.text: must not contain a control token/],
    ['rules: [{ match: { last_contains: { regex: "(" } }, choices: [{ text: x }] }]', /rules\[0\]\.match\.last_contains/],
    ['rules: [{ match: { turn: 0 }, choices: [{ text: x }] }]', /rules\[0\]\.match\.turn/],
    ['rules: [{ choices: [{ variant: a, text: x }, { variant: b, text: " x " }] }]', /variants "a" and "b" begin with the same answer/],
  ])('refuses %s and says where', (text, expected) => {
    const loaded = parseScriptText(text, 's.yaml')
    expect(loaded.ok ? '' : loaded.error).toMatch(expected)
  })

  it('names a file it cannot read', async () => {
    const loaded = await loadScript('/nowhere/script.yaml')
    expect(loaded).toEqual({ ok: false, error: expect.stringContaining('/nowhere/script.yaml') })
  })
})

describe('the generator', () => {
  const bash = tool('bash', {
    properties: { command: { type: 'string' }, times: { type: 'integer' }, extra: { type: 'string' } },
    required: ['command', 'times'],
  })
  const run = (seed: number, messages = [user('x')], requestSeed: number | null = null) => {
    const source = openGeneratorAnswers({ toolCallProbability: 1, maxTurns: 3 }, seed)
    return [1, 2, 3].map(() => source.answer(conversationOf(messages, [bash]), requestSeed).text)
  }

  it('gives the same answers under the same seed, other ones under another', () => {
    expect(run(1)).toEqual(run(1))
    expect(run(1)).not.toEqual(run(2))
  })

  it('answers equal prompts differently, unless the request brings its own seed', () => {
    expect(new Set(run(1)).size).toBe(3)
    expect(new Set(run(1, [user('x')], 5)).size).toBe(1)
  })

  it('calls an offered tool with its required arguments only', () => {
    const [text = ''] = run(1)
    const json = /<tool_call>\n(.*)\n<\/tool_call>/.exec(text)?.[1] ?? '{}'
    expect(JSON.parse(json)).toEqual({ name: 'bash', arguments: { command: expect.stringMatching(/^echo /), times: expect.any(Number) } })
  })

  it('calls a tool whose parameters it cannot read without any', () => {
    const source = openGeneratorAnswers({ toolCallProbability: 1 }, 1)
    const odd = tool('odd', { required: 'everything' })
    expect(source.answer(conversationOf([user('x')], [odd]), null).text).toContain('{"name": "odd", "arguments": {}}')
  })

  it('stops calling tools at its last turn', () => {
    const late = [user('x'), assistant('1'), assistant('2')]
    for (const text of run(1, late)) expect(text).toMatch(/^[a-z ]+$/)
  })
})

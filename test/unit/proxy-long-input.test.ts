// Long input is read in time that grows with its length: what takes its square, on these lengths, takes minutes.
import { describe, expect, it } from 'vitest'
import { readAnswerText } from '../../src/proxy/answer-text/answer-text.ts'
import { argumentJson } from '../../src/proxy/answer-text/argument.ts'
import type { AnswerMessage, AssistantMessage, ChatMessage } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { Dialect } from '../../src/proxy/dialects/dialect.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import { parseEngineJson } from '../../src/proxy/engines/engine-json.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { foldSystemMessages } from '../../src/proxy/profiles/system-fold.ts'
import { openRecall } from '../../src/proxy/recall.ts'

/** Each takes well under a second. Of the processor's own time: a machine with much else to do is no reason to fail. */
const PATIENCE_MS = 8_000

function inTime<T>(run: () => T): T {
  const started = process.cpuUsage()
  const result = run()
  const { user, system } = process.cpuUsage(started)
  expect((user + system) / 1_000).toBeLessThan(PATIENCE_MS)
  return result
}

const many = <T>(count: number, make: (index: number) => T): readonly T[] => Array.from({ length: count }, (_, index) => make(index))
const LINE = 'x'.repeat(500)

type Writer = {
  readonly dialect: Dialect
  /** `turns` turns of `calls` calls each, with their results. */
  readonly session: (turns: number, calls: number) => JsonObject
  /** One turn in so many messages. */
  readonly split: (messages: number) => JsonObject
  readonly saying: (text: string) => JsonObject
  /** Each of the tools is named by the choice of tools too, where the vendor has a list for it. */
  readonly offering: (tools: number) => JsonObject
}

const idOf = (turn: number, index: number) => `call_${turn}_${index}`
const USER = { role: 'user', content: 'q' }

const WRITERS: { readonly [name: string]: Writer } = {
  anthropic: {
    dialect: anthropic,
    session: (turns, calls) => ({
      messages: [
        USER,
        ...many(turns, (turn) => [
          { role: 'assistant', content: many(calls, (index) => ({ type: 'tool_use', id: idOf(turn, index), name: 'f', input: {} })) },
          { role: 'user', content: many(calls, (index) => ({ type: 'tool_result', tool_use_id: idOf(turn, index), content: LINE })) },
        ]).flat(),
      ],
    }),
    split: (messages) => ({
      messages: [
        USER,
        ...many(messages, (index) => ({
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: LINE, signature: '' },
            { type: 'text', text: LINE },
            { type: 'tool_use', id: idOf(0, index), name: 'f', input: {} },
          ],
        })),
        USER,
      ],
    }),
    saying: (text) => ({ system: text, messages: [{ role: 'user', content: [{ type: 'text', text }] }] }),
    offering: (tools) => ({ messages: [USER], tools: many(tools, (index) => ({ name: `f${index}`, input_schema: {} })) }),
  },
  google: {
    dialect: google,
    session: (turns, calls) => ({
      contents: [
        { role: 'user', parts: [{ text: 'q' }] },
        ...many(turns, (turn) => [
          { role: 'model', parts: many(calls, (index) => ({ functionCall: { id: idOf(turn, index), name: `f${index % 2}` } })) },
          {
            role: 'user',
            // Half of them are known by their id, half by their name and order.
            parts: many(calls, (index) => ({
              functionResponse: { name: `f${index % 2}`, response: LINE, ...(index % 2 === 0 ? {} : { id: idOf(turn, index) }) },
            })),
          },
        ]).flat(),
      ],
    }),
    split: (messages) => ({ contents: [{ parts: { text: 'q' } }, ...many(messages, () => ({ role: 'model', parts: [{ text: LINE }] }))] }),
    saying: (text) => ({ systemInstruction: text, contents: text }),
    offering: (tools) => ({
      contents: 'q',
      tools: [{ functionDeclarations: many(tools, (index) => ({ name: `f${index}` })) }],
      toolConfig: { functionCallingConfig: { mode: 'AUTO', allowedFunctionNames: many(tools, (index) => `f${index}`) } },
    }),
  },
  'openai-chat': {
    dialect: openaiChat,
    session: (turns, calls) => ({
      messages: [
        USER,
        ...many(turns, (turn) => [
          {
            role: 'assistant',
            tool_calls: many(calls, (index) => ({ id: idOf(turn, index), function: { name: 'f', arguments: '{}' } })),
          },
          ...many(calls, (index) => ({ role: 'tool', tool_call_id: idOf(turn, index), content: LINE })),
        ]).flat(),
      ],
    }),
    split: (messages) => ({ messages: [USER, ...many(messages, () => ({ role: 'assistant', content: LINE }))] }),
    saying: (text) => ({ messages: [{ role: 'user', content: text }] }),
    offering: (tools) => ({ messages: [USER], tools: many(tools, (index) => ({ type: 'function', function: { name: `f${index}` } })) }),
  },
  'openai-responses': {
    dialect: openaiResponses,
    session: (turns, calls) => ({
      input: [
        USER,
        ...many(turns, (turn) => [
          ...many(calls, (index) => ({ type: 'function_call', call_id: idOf(turn, index), name: 'f', arguments: '{}' })),
          ...many(calls, (index) => ({ type: 'function_call_output', call_id: idOf(turn, index), output: LINE })),
        ]).flat(),
      ],
    }),
    split: (messages) => ({ input: [USER, ...many(messages, () => ({ role: 'assistant', content: LINE }))] }),
    saying: (text) => ({ instructions: text, input: text }),
    offering: (tools) => ({
      input: 'q',
      tools: many(tools, (index) => ({ type: 'function', name: `f${index}` })),
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: many(tools, (index) => ({ type: 'function', name: `f${index}` })) },
    }),
  },
}

describe.each(Object.entries(WRITERS))('%s reads in time', (_name, { dialect, session, split, saying, offering }) => {
  const read = (body: JsonObject) => {
    const result = dialect.read({ model: 'm', ...body }, { tier: 'train', pins: {}, url: { model: null, form: null } })
    if (!result.ok) throw new Error(result.failure.message)
    return result.call.request
  }

  it('a session of thousands of turns', () => {
    expect(inTime(() => read(session(5_000, 1))).messages).toHaveLength(10_001)
  })

  it('a turn of tens of thousands of calls', () => {
    expect(inTime(() => read(session(1, 40_000))).messages).toHaveLength(40_002)
  })

  it('a turn that comes in tens of thousands of messages', () => {
    expect(inTime(() => read(split(20_000))).messages.length).toBeGreaterThan(1)
  })

  it('a text of megabytes of white space', () => {
    for (const text of [`${' \t'.repeat(2_500_000)}x`, `${'\n'.repeat(5_000_000)}x`]) {
      expect(JSON.stringify(inTime(() => read(saying(text))).messages)).toContain('x"')
    }
  })

  it('tens of thousands of tools', () => {
    expect(inTime(() => read(offering(40_000))).tools).toHaveLength(40_000)
  })

  it('a field with a name that never ends', () => {
    expect(inTime(() => read({ ...saying('q'), ['_'.repeat(2_000_000)]: 1 })).messages).not.toHaveLength(0)
  })
})

const CALLING = { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] }
const RESULT = { type: 'tool_result', tool_use_id: 'a', content: 'ok' }
const PIXEL = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
const WORD = { type: 'text', text: 'w' }

describe('one message of very many parts is read', () => {
  it.each<{ given: string; dialect: Dialect; body: JsonObject; messages: number }>([
    {
      given: 'a document of blocks',
      dialect: anthropic,
      body: {
        messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'content', content: many(200_000, () => WORD) } }] }],
      },
      messages: 1,
    },
    {
      given: 'a result of images',
      dialect: anthropic,
      body: { messages: [USER, CALLING, { role: 'user', content: [{ ...RESULT, content: many(200_000, () => PIXEL) }] }] },
      messages: 4,
    },
    {
      given: 'results that come late, and again',
      dialect: anthropic,
      body: { messages: [USER, CALLING, ...many(100_000, () => ({ role: 'user', content: [RESULT, WORD] }))] },
      messages: 200_002,
    },
    {
      given: 'contents of one turn',
      dialect: google,
      body: { contents: many(200_000, () => ({ role: 'user', parts: [{ text: 'w' }] })) },
      messages: 200_000,
    },
    {
      given: 'a long tool that is declared again and again',
      dialect: openaiResponses,
      body: {
        input: 'q',
        tools: [
          { type: 'function', name: 'f', parameters: { d: 'D'.repeat(2_000_000) } },
          ...many(50_000, () => ({ type: 'function', name: 'f', parameters: {} })),
        ],
      },
      messages: 1,
    },
  ])('$given', ({ dialect, body, messages }) => {
    const url = { model: null, form: null }
    const read = inTime(() => dialect.read({ model: 'm', ...body }, { tier: 'train', pins: {}, url }))
    expect(read.ok ? read.call.request.messages : read.failure).toHaveLength(messages)
  })

  it('system messages behind one that is in parts', () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    const late = many(50_000, (): ChatMessage => ({ role: 'system', content: 'S' }))
    const { messages, folded } = inTime(() => foldSystemMessages([{ role: 'user', content: [image] }, ...late]))
    expect([messages.length, folded, messages[0]?.content]).toEqual([1, 50_000, expect.objectContaining({ length: 100_001 })])
  })
})

describe('what came back is known in time', () => {
  const said = (text: string, reasoning: string): AnswerMessage => ({
    role: 'assistant',
    content: null,
    reasoning_content: reasoning,
    tool_calls: [{ id: '', type: 'function', function: { name: 'f', arguments: text } }],
  })

  it('among thousands of answers that differ in nothing but their reasoning', () => {
    let count = 0
    const recall = openRecall(() => `id_${count++}`)
    const given = many(4_000, (index) => said('{"a": 1}', `${index} ${LINE}`))
    inTime(() => {
      for (const [index, message] of given.entries()) recall.remember(`${index}`, message, (call) => call)
      const returned = given.map((message) => ({ ...said('{"a":1}', ''), reasoning_content: `${message.reasoning_content ?? ''} ` }))
      expect(recall.restore(returned).messages).toEqual(given)
    })
  })

  const tool = (index: number) => ({ type: 'function' as const, function: { name: `f${index}` } })
  const told = { id: 'told', type: 'function' as const, function: { name: 'f', arguments: '{"a": "b"}' } }
  const silent: AnswerMessage = { role: 'assistant', content: null }

  it.each<{ given: string; answer: AnswerMessage; returned: readonly AssistantMessage[]; tools: number }>([
    {
      given: 'a short answer that stands for a long thought, thirty thousand times',
      answer: { ...silent, content: '', reasoning_content: 'R'.repeat(500_000) },
      returned: many(30_000, () => ({ role: 'assistant', content: '' })),
      tools: 0,
    },
    {
      given: 'one call in thirty thousand messages, beside as many tools',
      answer: { ...silent, tool_calls: [told] },
      returned: many(30_000, () => ({ ...silent, tool_calls: [{ ...told, function: { name: 'f', arguments: '{}' } }] })),
      tools: 30_000,
    },
    {
      given: 'one call thirty thousand times in one message, beside as many tools',
      answer: { ...silent, tool_calls: [told] },
      returned: [{ ...silent, tool_calls: many(30_000, () => ({ ...told, function: { name: 'f', arguments: '{}' } })) }],
      tools: 30_000,
    },
    {
      given: 'a call of long arguments, thirty thousand times without them',
      answer: { ...silent, tool_calls: [{ ...told, function: { name: 'f', arguments: JSON.stringify({ a: 'A'.repeat(500_000) }) } }] },
      returned: many(30_000, () => ({ ...silent, tool_calls: [{ ...told, function: { name: 'f', arguments: '{}' } }] })),
      tools: 0,
    },
    {
      given: 'a call of long arguments, thirty thousand times in one message',
      answer: { ...silent, tool_calls: [{ ...told, function: { name: 'f', arguments: JSON.stringify({ a: 'A'.repeat(500_000) }) } }] },
      returned: [{ ...silent, tool_calls: many(30_000, () => ({ ...told, function: { name: 'f', arguments: '{}' } })) }],
      tools: 0,
    },
    {
      given: 'a thought of white space, thirty thousand times another one',
      answer: { ...silent, content: 'T', reasoning_content: `${' '.repeat(500_000)}x` },
      returned: many(30_000, () => ({ role: 'assistant', content: 'T', reasoning_content: 'y' })),
      tools: 0,
    },
  ])('$given', ({ answer, returned, tools }) => {
    const recall = openRecall(() => 'id_0')
    recall.remember('0', answer, (each) => each)
    const restored = inTime(() => recall.restore(returned, many(tools, tool)))
    expect(restored.messages).toHaveLength(returned.length)
    expect(inTime(() => restored.messages.reduce((sum, message) => sum + JSON.stringify(message).length, 0))).toBeLessThan(2 ** 28)
  })

  it('with arguments of white space that differ in their last character', () => {
    const recall = openRecall(() => 'id_0')
    const blank = ' '.repeat(2_000_000)
    const [call] = recall.remember('0', said(JSON.stringify({ a: `${blank}x` }), 'R'), (each) => each).tool_calls ?? []
    const changed = {
      ...said(JSON.stringify({ a: `${blank}y` }), 'R'),
      tool_calls: [{ ...call, function: { name: 'f', arguments: '{}' } }],
    }
    const back = {
      ...changed,
      tool_calls: [{ id: 'id_0', type: 'function' as const, function: { name: 'f', arguments: `{"a":"${blank}y"}` } }],
    }
    expect(inTime(() => recall.restore([back])).diagnostics).toMatchObject([{ code: 'history-changed' }])
  })
})

describe('what an engine wrote is read in time', () => {
  it.each([
    ['line breaks before a call', `${'\n'.repeat(1_000_000)}x<tool_call>{"name": "f"}</tool_call>`, 'json'],
    ['functions without an end', `<tool_call>${'<function='.repeat(300_000)}`, 'xml'],
    ['calls without an end', '<tool_call>'.repeat(300_000), 'json'],
  ] as const)('%s', (_name, text, calls) => {
    const format = { reasoning: 'none', opensThinking: false, calls } as const
    expect(inTime(() => readAnswerText(text, { format, beginsInThought: false, tools: [] })).reasoning).toBe('')
  })

  it.each(['number', 'integer', 'object'])('digits that are no %s', (type) => {
    const text = `${'1'.repeat(2_000_000)}x`
    expect(inTime(() => argumentJson(text, { type }))).toBe(JSON.stringify(text))
  })

  it('a body that was cut inside a long text, or has a NaN beside one', () => {
    const escaped = '\\"'.repeat(4_000_000)
    expect(inTime(() => parseEngineJson(Buffer.from(`{"a": "${escaped}`)))).toMatchObject({ ok: false })
    expect(inTime(() => parseEngineJson(Buffer.from(`{"a": NaN, "b": "${escaped} NaN"}`)))).toEqual({
      ok: true,
      value: { a: null, b: `${'"'.repeat(4_000_000)} NaN` },
    })
    expect(inTime(() => parseEngineJson(Buffer.from(`{"a": -Infinity, "b": "${'x'.repeat(20_000_000)}"}`)))).toMatchObject({ ok: true })
  })
})

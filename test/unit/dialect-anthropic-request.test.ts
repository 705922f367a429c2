// Anthropic requests: what reaches the engine, what is dropped with a note, what is refused and how it is said.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnswerMessage, ChatMessage } from '../../src/proxy/chat.ts'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import { signatureOf } from '../../src/proxy/dialects/signature.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { openRecall } from '../../src/proxy/recall.ts'

type Tier = 'train' | 'eval'
const context = (tier: Tier) => ({ tier, pins: {}, url: { model: null, form: null } })
const CALL = 'ab'.repeat(16)
const user = { role: 'user', content: 'hi' }
const tool = { name: 'f', description: 'd', input_schema: { type: 'object', properties: { a: { type: 'string' } } } }
const served = { type: 'function', function: { name: 'f', description: 'd', parameters: tool.input_schema } }
const words = (text: string) => ({ type: 'text', text })
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } }
const shown = { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } }
const use = (id: string, input: unknown = {}) => ({ type: 'tool_use', id, name: 'f', input })
const called = (id: string, text = '{}') => ({ id, type: 'function', function: { name: 'f', arguments: text } })
const result = (id: string, content?: unknown) => ({ type: 'tool_result', tool_use_id: id, ...(content === undefined ? {} : { content }) })
const answered = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content })
const said = (content: unknown) => ({ role: 'assistant', content })
const asked = (content: unknown) => ({ role: 'user', content })
const told = (content: unknown) => ({ role: 'system', content })
const BILLING = 'x-anthropic-billing-header: cc_version=9.9.9.aaa; cc_entrypoint=cli; cch=11111;'

function read(body: JsonObject, tier: Tier = 'eval') {
  return anthropic.read({ model: 'm', max_tokens: 100, messages: [user], ...body }, context(tier))
}

function accepted(body: JsonObject, tier: Tier = 'eval') {
  const result = read(body, tier)
  if (!result.ok) throw new Error(result.failure.message)
  return result.call
}

function refused(body: JsonObject, tier: Tier = 'eval') {
  const result = read(body, tier)
  if (result.ok) throw new Error('accepted')
  return result.failure
}

function messages(given: readonly unknown[], system?: unknown): readonly ChatMessage[] {
  return accepted({ messages: given, ...(system === undefined ? {} : { system }) }).request.messages
}

const codes = (body: JsonObject) => accepted(body).diagnostics.map(({ code }) => code)

describe('the system prompt', () => {
  it.each([
    { system: 'S', head: 'S' },
    { system: [words('A'), words('B')], head: 'A\nB' },
    { system: [{ ...words('A'), cache_control: { type: 'ephemeral' } }, words('B')], head: 'A\nB' },
    { system: [words('A'), image], head: [words('A'), shown] },
  ])('$system becomes $head', ({ system, head }) => {
    expect(messages([user], system)).toEqual([told(head), user])
  })

  it.each([{ system: undefined }, { system: null }, { system: '' }, { system: [] }])('$system is none', ({ system }) => {
    expect(messages([user], system)).toEqual([user])
  })

  it.each([
    { system: [words(BILLING), words('You are.')], head: 'You are.' },
    { system: [words('You are.'), words(BILLING)], head: 'You are.' },
    { system: [words(`${BILLING}\nYou are.`)], head: 'You are.' },
    { system: `${BILLING}\nYou are.`, head: 'You are.' },
    { system: `${BILLING}\r\n\r\nYou are.`, head: 'You are.' },
    { system: `${BILLING}\n${BILLING}\nYou are.`, head: 'You are.' },
    { system: `You are.\n${BILLING}`, head: `You are.\n${BILLING}` },
    { system: BILLING, head: null },
    { system: [words(BILLING)], head: null },
  ])('loses the billing line of $system (TI-01)', ({ system, head }) => {
    expect(messages([user], system)).toEqual(head === null ? [user] : [told(head), user])
  })

  it('is the same for two turns whose billing lines differ, and what follows only grows (TI-01)', () => {
    const system = (hash: string) => [words(BILLING.replace('11111', hash)), words('You are a coding agent.')]
    const first = messages([user], system('11111'))
    const second = messages([user, said([words('Hello.')]), asked('go on')], system('22222'))
    expect(second.slice(0, first.length)).toEqual(first)
    expect(first[0]).toEqual(told('You are a coding agent.'))
  })

  it('loses it between messages as well, but users and tools may say it (TI-01)', () => {
    const given = [asked(BILLING), told(`${BILLING}\nnote`), said([use('t1')]), asked([result('t1', BILLING), words(BILLING)])]
    expect(messages(given)).toEqual([
      asked(BILLING),
      told('note'),
      { role: 'assistant', content: null, tool_calls: [called('t1')] },
      answered('t1', BILLING),
      asked(BILLING),
    ])
  })
})

describe('system messages among the others', () => {
  const turn1 = [asked('task'), told('<total_tokens>1000 left</total_tokens>')]
  const turn2 = [
    ...turn1,
    said([{ ...use('toolu_1', { command: 'ls' }), name: 'Bash' }]),
    asked([result('toolu_1', 'a.txt')]),
    told([words('<total_tokens>900 left</total_tokens>')]),
  ]

  it('keep their places, so that a later turn extends an earlier one (TI-02)', () => {
    const first = messages(turn1, 'S')
    const second = messages(turn2, 'S')
    expect(second.slice(0, first.length)).toEqual(first)
    expect(second.map(({ role }) => role)).toEqual(['system', 'user', 'system', 'assistant', 'tool', 'system'])
    expect(second.at(-1)).toEqual(told('<total_tokens>900 left</total_tokens>'))
  })

  it('go behind the result when they stand between it and its call (TI-02)', () => {
    const body = { messages: [user, said([use('a'), use('b')]), told('one'), told('two'), asked([result('a', 'A'), result('b', 'B')])] }
    expect(accepted(body).request.messages).toEqual([
      user,
      { role: 'assistant', content: null, tool_calls: [called('a'), called('b')] },
      answered('a', 'A'),
      answered('b', 'B'),
      told('one'),
      told('two'),
    ])
    expect(codes(body)).toEqual(['order-approximated', 'order-approximated'])
  })

  it('join the prompt when they lead', () => {
    expect(messages([told('D'), user], 'S')).toEqual([told('S\n\nD'), user])
  })

  it('that only change effort or tools say nothing to the model', () => {
    const body = {
      messages: [user, { role: 'system', output_config: { effort: 'low' } }, told([{ type: 'tool_removal', tool: { name: 'f' } }])],
    }
    expect(accepted(body).request.messages).toEqual([user])
    expect(accepted(body).diagnostics).toEqual([{ code: 'block-dropped', detail: 'messages[2].content[0]: tool_removal' }])
  })
})

describe('user messages', () => {
  it.each([
    { given: 'a', sent: 'a' },
    { given: [words('a')], sent: 'a' },
    { given: [{ ...words('a'), cache_control: { type: 'ephemeral' } }], sent: 'a' },
    { given: [words('a'), words('b')], sent: 'a\nb' },
    { given: [words('a'), image], sent: [words('a'), shown] },
    {
      given: [{ type: 'image', source: { type: 'url', url: 'https://x/y.png' } }],
      sent: [{ type: 'image_url', image_url: { url: 'https://x/y.png' } }],
    },
    { given: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'D' } }], sent: 'D' },
    { given: [{ type: 'document', title: 'T', context: 'C', source: { type: 'content', content: 'D' } }], sent: 'T\nC\nD' },
    { given: [{ type: 'document', source: { type: 'content', content: [words('D'), image] } }], sent: [words('D'), shown] },
    { given: [{ type: 'search_result', source: 's', title: 't', content: [words('c')] }], sent: 't\ns\nc' },
  ])('$given become $sent', ({ given, sent }) => {
    const call = accepted({ messages: [asked(given)] })
    expect(call.request.messages).toEqual([asked(sent)])
    expect(call.diagnostics).toEqual([])
  })

  it('with unknown fields lose them with a note', () => {
    expect(accepted({ messages: [{ ...user, mood: 'good' }, asked([{ ...words('x'), size: 3 }])] }).diagnostics).toEqual([
      { code: 'field-dropped', detail: 'messages[0].mood' },
      { code: 'field-dropped', detail: 'messages[1].content[0].size' },
    ])
  })
})

describe('tool results', () => {
  const history = (content: readonly unknown[]) => ({ messages: [user, said([use('a'), use('b')]), asked(content)] })
  const afterCalls = (content: readonly unknown[]) => accepted(history(content)).request.messages.slice(2)

  it.each([
    { given: result('a', 'x'), sent: 'x' },
    { given: result('a', [words('x'), words('y')]), sent: 'x\ny' },
    { given: result('a'), sent: '' },
    { given: { ...result('a', 'x'), is_error: true }, sent: '[Tool Error] x' },
    { given: { ...result('a', 'x'), is_error: false, cache_control: { type: 'ephemeral' } }, sent: 'x' },
    { given: result('a', [{ type: 'tool_reference', tool_name: 'Read' }]), sent: '[tool_reference: Read]' },
    { given: result('a', [{ type: 'document', source: { type: 'text', data: 'D' } }]), sent: 'D' },
  ])('$given becomes a tool message', ({ given, sent }) => {
    expect(afterCalls([given])).toEqual([answered('a', sent)])
    expect(codes(history([given]))).toEqual([])
  })

  it('come before what the user says beside them, with a note when that stood first', () => {
    const sent = [answered('a', 'A'), answered('b', 'B'), asked('before\nafter')]
    expect(afterCalls([words('before'), result('a', 'A'), result('b', 'B'), words('after')])).toEqual(sent)
    expect(accepted(history([words('before'), result('a', 'A')])).diagnostics).toEqual([
      { code: 'order-approximated', detail: 'messages[2].content[1]: moved before what stood in front of it' },
    ])
    expect(codes(history([result('a', 'A'), words('after')]))).toEqual([])
  })

  it('give their images to the user message that follows, before its own words', () => {
    expect(afterCalls([result('a', [words('seen'), image]), result('b', 'B'), words('look')])).toEqual([
      answered('a', 'seen'),
      answered('b', 'B'),
      asked([shown, words('look')]),
    ])
    expect(afterCalls([result('a', [image])])).toEqual([answered('a', ''), asked([shown])])
  })

  it('without a call are refused by id', () => {
    const failure = refused({ messages: [asked([result('toolu_gone', 'x')])] })
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'messages' })
    expect(failure.message).toContain('"toolu_gone"')
  })
})

describe('assistant turns', () => {
  const signature = signatureOf(CALL)
  it.each([
    { given: 'T', sent: { content: 'T' } },
    { given: [], sent: { content: '' } },
    { given: [words('')], sent: { content: '' } },
    { given: [words('T')], sent: { content: 'T' } },
    { given: [words('T'), words(''), words('U')], sent: { content: 'T\nU' } },
    { given: [words('T'), use('a')], sent: { content: 'T', tool_calls: [called('a')] } },
    { given: [use('a', { b: 1 }), use('c')], sent: { content: null, tool_calls: [called('a', '{"b":1}'), called('c')] } },
    { given: [{ ...use('a'), input: undefined, caller: { type: 'direct' } }], sent: { content: null, tool_calls: [called('a')] } },
    {
      given: [{ type: 'thinking', thinking: ' R\n', signature }, words('T')],
      sent: { content: 'T', reasoning_content: ' R\n', origin: CALL },
    },
    { given: [{ type: 'thinking', thinking: '', signature }, words('T')], sent: { content: 'T', origin: CALL } },
    { given: [{ type: 'redacted_thinking', data: signature }, words('T')], sent: { content: 'T', origin: CALL } },
    { given: [{ type: 'compaction', content: 'So far.', encrypted_content: 'e' }], sent: { content: 'So far.' } },
  ])('$given become one message', ({ given, sent }) => {
    const body = { messages: [user, said(given), asked('next')] }
    expect(accepted(body).request.messages[1]).toEqual({ role: 'assistant', ...sent })
    expect(codes(body)).toEqual([])
  })

  it('keep the exact reasoning, whatever its signature, and redacted reasoning is ignored with a note (TI-12)', () => {
    const history = (block: object) => ({
      messages: [user, said([block, words('T'), use('toolu_1')]), asked([result('toolu_1', 'ok')])],
    })
    for (const signature of ['gateway-made', '', undefined]) {
      const body = history({ type: 'thinking', thinking: 'R\n', signature })
      expect(accepted(body).request.messages).toEqual([
        user,
        { role: 'assistant', content: 'T', reasoning_content: 'R\n', tool_calls: [called('toolu_1')] },
        answered('toolu_1', 'ok'),
      ])
      expect(accepted(body).diagnostics).toEqual([{ code: 'signature-unknown', detail: 'messages[1].content[0]' }])
    }
    const redacted = history({ type: 'redacted_thinking', data: 'zz' })
    expect(accepted(redacted).request.messages[1]).toEqual({ role: 'assistant', content: 'T', tool_calls: [called('toolu_1')] })
    expect(codes(redacted)).toEqual(['signature-unknown'])
    expect(JSON.stringify(accepted(history({ type: 'thinking', thinking: 'R', signature: 'secret' })).request)).not.toContain('secret')
  })

  it('in several messages are one turn, unless they answered two calls', () => {
    const thought = (call: string) => ({ type: 'thinking', thinking: 'R', signature: signatureOf(call) })
    const parts = [said([thought(CALL)]), said([words('T')]), said('U'), said([use('a')])]
    expect(messages([user, ...parts, asked([result('a', 'x')])])).toEqual([
      user,
      { role: 'assistant', content: 'T\nU', reasoning_content: 'R', tool_calls: [called('a')], origin: CALL },
      answered('a', 'x'),
    ])
    const two = messages([user, said([thought(CALL), words('T')]), said([thought('cd'.repeat(16)), words('U')]), user])
    expect(two.map(({ role }) => role)).toEqual(['user', 'assistant', 'assistant', 'user'])
  })

  it.each([
    { given: [use('a'), words('T')], place: 1 },
    { given: [words('T'), { type: 'thinking', thinking: 'R', signature }], place: 1 },
  ])('out of order are put into the order of the template, with a note: $given', ({ given, place }) => {
    expect(accepted({ messages: [user, said(given), user] }).diagnostics).toEqual([
      { code: 'order-approximated', detail: `messages[1].content[${place}]` },
    ])
  })

  it('that stand last are no prefix of the answer, and that is noted', () => {
    expect(codes({ messages: [user, said('The answer is')] })).toEqual(['prefill-ignored'])
  })

  it('lose what the vendor’s servers did, by type and with a note (TI-19)', () => {
    const body = {
      messages: [
        user,
        said([
          { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
          { type: 'web_search_tool_result', tool_use_id: 's1', content: [] },
          words('Found.'),
        ]),
        user,
      ],
    }
    expect(accepted(body).request.messages[1]).toEqual(said('Found.'))
    expect(accepted(body).diagnostics).toEqual([
      { code: 'block-dropped', detail: 'messages[1].content[0]: server_tool_use' },
      { code: 'block-dropped', detail: 'messages[1].content[1]: web_search_tool_result' },
    ])
  })
})

describe('what came back restores what was sampled', () => {
  const echo = (given: AnswerMessage) => {
    let fresh = 0
    const recall = openRecall(() => `call_${fresh++}`)
    const read = anthropic.read({ model: 'm', messages: [user] }, context('train'))
    if (!read.ok) throw new Error(read.failure.message)
    const answer = {
      message: recall.remember(CALL, given),
      finishReason: 'stop' as const,
      usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null, reasoningTokens: null },
      stopSequence: null,
      logprobs: null,
    }
    const { content } = JSON.parse(read.reply.plain(answer, { id: CALL, createdSeconds: 0, model: 'm' }))
    const results = (answer.message.tool_calls ?? []).map(({ id }) => result(id, 'ok'))
    return { content, restored: recall.restore(messages([user, said(content), asked([...results, words('next')])])).messages }
  }

  it.each([
    '{"path": "a.txt", "limit": 10}',
    '{"10": "b", "2": "a"}',
    '{"x": 1.0, "id": 12345678901234567890}',
    '{"s": "caf\\u00e9"}',
    '{"a": 1, "a": 2}',
    '',
    '{"broken',
    '[1]',
  ])('arguments %s, byte for byte (TI-03)', (text) => {
    const given: AnswerMessage = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: text } }],
    }
    expect(echo(given).restored[1]).toEqual(given)
  })

  it.each([
    { role: 'assistant', content: '\n\nT ', reasoning_content: ' R\n' },
    { role: 'assistant', content: null, reasoning_content: 'R' },
    { role: 'assistant', content: null },
  ] as const)('%o', (given) => {
    expect(echo(given).restored[1]).toEqual(given)
  })

  it('ids that an engine made and this API refuses, in calls and results (TI-08)', () => {
    const given: AnswerMessage = {
      role: 'assistant',
      content: null,
      tool_calls: ['functions.Bash:0', 'chatcmpl-tool-1', 'call a/b'].map((id) => ({
        id,
        type: 'function',
        function: { name: 'f', arguments: '{}' },
      })),
    }
    const { content, restored } = echo(given)
    for (const { id } of content) expect(id).toMatch(/^[A-Za-z0-9_-]+$/)
    expect(content[1].id).toBe('chatcmpl-tool-1')
    expect(restored[1]).toEqual(given)
    expect(restored.slice(2, 5)).toMatchObject([
      { tool_call_id: 'functions.Bash:0' },
      { tool_call_id: 'chatcmpl-tool-1' },
      { tool_call_id: 'call a/b' },
    ])
  })
})

it('passes ids it has not seen (TI-08)', () => {
  for (const id of ['toolu_01AbC', 'functions.Bash:0', 'call a/b']) {
    expect(messages([user, said([use(id)]), asked([result(id, 'x')])]).slice(1)).toEqual([
      { role: 'assistant', content: null, tool_calls: [called(id)] },
      answered(id, 'x'),
    ])
  }
})

describe('moving cache marks', () => {
  it('never change what the engine is sent', () => {
    const block = fc.constantFrom<JsonObject>(words('w'), image, { type: 'document', source: { type: 'text', data: 'D' } })
    const marked = (given: JsonObject, mark: boolean): JsonObject => (mark ? { ...given, cache_control: { type: 'ephemeral' } } : given)
    fc.assert(
      fc.property(
        fc.array(block, { minLength: 1, maxLength: 4 }),
        fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }),
        (blocks, marks) => {
          const body = (mark: (index: number) => boolean): JsonObject => ({
            system: [marked(words('S'), mark(0)), marked(words('P'), mark(1))],
            tools: [marked(tool, mark(2))],
            messages: [
              asked(blocks.map((each, index) => marked(each, mark(3 + index)))),
              said([marked(words('T'), mark(7)), marked(use('a'), mark(8))]),
              asked([marked(result('a', [marked(words('r'), mark(0))]), mark(1)), marked(words('u'), mark(2))]),
            ],
          })
          const plain = accepted(body(() => false))
          const other = accepted(body((index) => marks[index] === true))
          expect(other.request).toEqual(plain.request)
          expect(other.diagnostics).toEqual([])
        },
      ),
    )
  })
})

describe('parameters', () => {
  it('reach the engine under its names', () => {
    const call = accepted({ temperature: 0.7, top_p: 0.9, top_k: 20, stop_sequences: ['\n\nHuman:'], stream: true })
    expect(call.request.parameters).toEqual({ max_tokens: 100, temperature: 0.7, top_p: 0.9, top_k: 20, stop: ['\n\nHuman:'] })
    expect(call).toMatchObject({ modelRequested: 'm', stream: true, maxTokensRequested: 100, continues: null, diagnostics: [] })
  })

  it.each([
    { body: { thinking: { type: 'enabled', budget_tokens: 200 } }, sent: { chat_template_kwargs: { enable_thinking: true } } },
    { body: { thinking: { type: 'adaptive', display: 'omitted' } }, sent: { chat_template_kwargs: { enable_thinking: true } } },
    { body: { thinking: { type: 'disabled' } }, sent: { chat_template_kwargs: { enable_thinking: false } } },
    { body: { thinking: { type: 'between_tools' } }, sent: { chat_template_kwargs: { enable_thinking: false } } },
    { body: { output_config: { effort: 'low' } }, sent: { reasoning_effort: 'low' } },
    { body: { output_config: {} }, sent: {} },
    { body: { stop_sequences: [] }, sent: {} },
    { body: { max_tokens: undefined }, sent: { max_tokens: undefined } },
  ])('$body send $sent', ({ body, sent }) => {
    expect(accepted(body, 'train').request.parameters).toEqual({ max_tokens: 100, ...sent })
    expect(accepted(body, 'train').diagnostics).toEqual([])
  })

  it.each(['output_config', 'output_format'])('%s asks for JSON of a schema, but not in training', (name) => {
    const format = { type: 'json_schema', schema: { type: 'object' } }
    const body = { [name]: name === 'output_format' ? format : { format } }
    expect(accepted(body).request.parameters).toEqual({
      max_tokens: 100,
      response_format: { type: 'json_schema', json_schema: { name: 'output', schema: { type: 'object' } } },
    })
    const failure = refused(body, 'train')
    expect(failure).toMatchObject({ code: 'constrained-decoding', status: 400 })
    expect(failure.message.startsWith(name)).toBe(true)
  })

  it('that mean nothing here are dropped without a word, unknown ones with a note', () => {
    const call = accepted({
      metadata: { user_id: '{}' },
      context_management: { edits: [] },
      betas: ['x'],
      service_tier: 'auto',
      cache_control: { type: 'ephemeral' },
      output_config: { effort: 'max' },
      mcp_servers: [],
      seed: 7,
    })
    expect(call.request.parameters).toEqual({ max_tokens: 100 })
    expect(call.diagnostics).toEqual([
      { code: 'field-dropped', detail: 'output_config.effort' },
      { code: 'field-dropped', detail: 'mcp_servers' },
      { code: 'field-dropped', detail: 'seed' },
    ])
  })

  it('of the session win', () => {
    const read = anthropic.read({ model: 'm', messages: [user], temperature: 0 }, { ...context('train'), pins: { temperature: 1 } })
    expect(read).toMatchObject({ ok: true, call: { request: { parameters: { temperature: 1 } } } })
  })
})

describe('tools', () => {
  it('keep their schema; those of the vendor are dropped with a note and the request goes on (TI-19)', () => {
    const call = accepted({
      tools: [
        { type: 'web_search_20250305', name: 'web_search', max_uses: 5 },
        { ...tool, type: 'custom', defer_loading: true, cache_control: { type: 'ephemeral' } },
        { name: 'DeferredToolPlaceholder', input_schema: { type: 'object' } },
        { name: 'Strict', input_schema: { type: 'object' }, strict: true },
      ],
    })
    expect(call.request.tools).toEqual([
      served,
      { type: 'function', function: { name: 'DeferredToolPlaceholder', parameters: { type: 'object' } } },
      { type: 'function', function: { name: 'Strict', parameters: { type: 'object' } } },
    ])
    expect(call.diagnostics).toEqual([
      { code: 'tool-dropped', detail: 'tools[0]: no engine here knows tools of type web_search_20250305' },
      { code: 'field-dropped', detail: 'tools[3].strict' },
    ])
  })

  it.each([{ tools: [] }, { tools: null }, { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }])(
    'are none rather than empty, and take their choice with them: $tools',
    ({ tools }) => {
      for (const type of ['auto', 'any', 'none']) {
        const { request } = accepted({ tools, tool_choice: { type, disable_parallel_tool_use: true } }, 'train')
        expect(request).toEqual({ messages: [user], tools: null, parameters: { max_tokens: 100 } })
      }
    },
  )

  it.each([
    { choice: { type: 'auto' }, sent: { tool_choice: 'auto' } },
    { choice: { type: 'any' }, sent: { tool_choice: 'required' } },
    { choice: { type: 'none' }, sent: { tool_choice: 'none' } },
    { choice: { type: 'tool', name: 'f' }, sent: { tool_choice: { type: 'function', function: { name: 'f' } } } },
    { choice: { type: 'auto', disable_parallel_tool_use: true }, sent: { tool_choice: 'auto', parallel_tool_calls: false } },
    { choice: { type: 'auto', disable_parallel_tool_use: false }, sent: { tool_choice: 'auto' } },
    { choice: null, sent: {} },
  ])('are chosen by $choice as $sent', ({ choice, sent }) => {
    expect(accepted({ tools: [tool], tool_choice: choice }).request.parameters).toEqual({ max_tokens: 100, ...sent })
  })

  it.each([{ type: 'any' }, { type: 'tool', name: 'f' }])('cannot be forced in training: %o', (choice) => {
    expect(refused({ tools: [tool], tool_choice: choice }, 'train')).toMatchObject({ code: 'constrained-decoding', param: 'tool_choice' })
  })

  it('cannot be chosen when they were removed or are unknown (TI-19)', () => {
    const hosted = { type: 'web_search_20250305', name: 'web_search' }
    for (const [tools, name] of [
      [[hosted, tool], 'web_search'],
      [[hosted], 'web_search'],
      [[tool], 'g'],
      [undefined, 'f'],
    ] as const) {
      const failure = refused({ ...(tools === undefined ? {} : { tools }), tool_choice: { type: 'tool', name } })
      expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'tool_choice.name' })
      expect(failure.message).toContain(JSON.stringify(name))
    }
  })
})

describe('a count', () => {
  const body = {
    model: 'm',
    system: 'S',
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
    messages: [asked([result('t', 'x'.repeat(20_000))])],
  }

  it('is asked for with all that a call would send, orphaned results included (TO-05)', () => {
    const read = anthropic.readCount(body, context('eval'))
    expect(read).toEqual({
      ok: true,
      countable: {
        kind: 'messages',
        request: {
          messages: [told('S'), answered('t', 'x'.repeat(20_000))],
          tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
          parameters: {},
        },
      },
    })
  })

  it('converts as a call does, thinking and calls included (TO-05)', () => {
    const whole = {
      ...body,
      thinking: { type: 'adaptive' },
      messages: [user, said([{ type: 'thinking', thinking: 'R', signature: 's' }, use('t')]), asked([result('t', [words('x'), image])])],
    }
    const counted = anthropic.readCount({ ...whole, model: undefined }, context('eval'))
    const call = anthropic.read(whole, context('eval'))
    expect(counted.ok && call.ok && counted.countable).toEqual(call.ok && { kind: 'messages', request: call.call.request })
  })

  it('is told as input tokens', () => {
    expect(JSON.parse(anthropic.tokenCount(12, { id: 'm', createdSeconds: 0, maxModelLen: null }))).toEqual({ input_tokens: 12 })
  })

  it('of something else is refused', () => {
    expect(anthropic.readCount({ messages: 'hi' }, context('eval'))).toMatchObject({ ok: false, failure: { param: 'messages' } })
  })
})

describe('refused in the terms of the caller', () => {
  const pdf = { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'x' } }
  const inUser = (block: unknown) => ({ messages: [asked([block])] })
  const inTurn = (block: unknown) => ({ messages: [user, said([block])] })
  it.each([
    { body: { model: undefined }, param: 'model' },
    { body: { messages: undefined }, param: 'messages' },
    { body: { messages: [] }, param: 'messages' },
    { body: { messages: [{ role: 'system', content: '' }] }, param: 'messages' },
    { body: { messages: ['hi'] }, param: 'messages[0]' },
    { body: { messages: [{ role: 'tool', content: 'x' }] }, param: 'messages[0].role' },
    { body: { messages: [{ content: 'x' }] }, param: 'messages[0].role' },
    { body: { messages: [{ role: 'user' }] }, param: 'messages[0].content' },
    { body: { messages: [asked([])] }, param: 'messages[0].content' },
    { body: { messages: [asked(['x'])] }, param: 'messages[0].content[0]' },
    { body: inUser({ text: 'x' }), param: 'messages[0].content[0].type' },
    { body: inUser({ type: 'text' }), param: 'messages[0].content[0].text' },
    { body: inUser({ type: 'hologram' }), param: 'messages[0].content[0]' },
    { body: inUser(use('a')), param: 'messages[0].content[0]' },
    { body: inUser(pdf), param: 'messages[0].content[0]' },
    { body: inUser({ type: 'document', source: { type: 'url', url: 'x' } }), param: 'messages[0].content[0]' },
    { body: inUser({ type: 'image', source: { type: 'file', file_id: 'x' } }), param: 'messages[0].content[0].source' },
    { body: inUser({ type: 'image' }), param: 'messages[0].content[0].source' },
    { body: inUser({ type: 'tool_result', content: 'x' }), param: 'messages[0].content[0].tool_use_id' },
    { body: inUser(result('a', [pdf])), param: 'messages[0].content[0].content[0]' },
    { body: inUser(result('a', 7)), param: 'messages[0].content[0].content' },
    { body: inTurn(image), param: 'messages[1].content[0]' },
    { body: inTurn({ type: 'thinking' }), param: 'messages[1].content[0].thinking' },
    { body: inTurn({ type: 'tool_use', name: 'f', input: {} }), param: 'messages[1].content[0].id' },
    { body: inTurn({ type: 'tool_use', id: 'a', input: {} }), param: 'messages[1].content[0].name' },
    { body: inTurn(use('a', '{}')), param: 'messages[1].content[0].input' },
    { body: { system: 7 }, param: 'system' },
    { body: { system: [{ type: 'text', text: 7 }] }, param: 'system[0].text' },
    { body: { stream: 'yes' }, param: 'stream' },
    { body: { max_tokens: 0 }, param: 'max_tokens' },
    { body: { max_tokens: -5 }, param: 'max_tokens' },
    { body: { max_tokens: '100' }, param: 'max_tokens' },
    { body: { temperature: 'hot' }, param: 'temperature' },
    { body: { stop_sequences: 'x' }, param: 'stop_sequences' },
    { body: { stop_sequences: ['x', 1] }, param: 'stop_sequences[1]' },
    { body: { thinking: 'on' }, param: 'thinking' },
    { body: { thinking: { type: 'deep' } }, param: 'thinking.type' },
    { body: { output_config: 'high' }, param: 'output_config' },
    { body: { output_config: { format: { type: 'regex' } } }, param: 'output_config.format.type' },
    { body: { output_config: { format: { type: 'json_schema' } } }, param: 'output_config.format.schema' },
    { body: { thread: { id: 'x' } }, param: 'thread' },
    { body: { tools: {} }, param: 'tools' },
    { body: { tools: ['f'] }, param: 'tools[0]' },
    { body: { tools: [{ name: 'f' }] }, param: 'tools[0].input_schema' },
    { body: { tools: [{ input_schema: {} }] }, param: 'tools[0].name' },
    { body: { tools: [tool], tool_choice: 'auto' }, param: 'tool_choice' },
    { body: { tools: [tool], tool_choice: { type: 'maybe' } }, param: 'tool_choice.type' },
  ])('$param: $body', ({ body, param }) => {
    const failure = refused(body)
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param })
    expect(failure.message.startsWith(param)).toBe(true)
    const reply = anthropic.failure(failure)
    expect([reply.status, JSON.parse(reply.body)]).toMatchObject([400, { type: 'error', error: { type: 'invalid_request_error' } }])
  })

  it('input nested too deeply to be printed', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`)
    expect(refused(inTurn(use('a', deep)))).toMatchObject({ param: 'messages[1].content[0].input' })
  })

  it('bounds what it notes', () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`field_${index}`, 1]))
    expect(accepted(many).diagnostics).toHaveLength(64)
  })

  const json = fc.jsonValue({ maxDepth: 3 })
  const type = fc.constantFrom(
    'text',
    'image',
    'document',
    'thinking',
    'redacted_thinking',
    'tool_use',
    'tool_result',
    'tool_reference',
    'web_search_tool_result',
    'compaction',
  )
  const block = fc.oneof(
    json,
    fc
      .tuple(
        type,
        fc.dictionary(
          fc.constantFrom('text', 'source', 'thinking', 'id', 'name', 'input', 'tool_use_id', 'content', 'data', 'signature'),
          json,
        ),
      )
      .map(([kind, fields]) => ({ ...fields, type: kind })),
  )
  const message = fc.oneof(
    json,
    fc.record({
      role: fc.constantFrom('user', 'assistant', 'system'),
      content: fc.oneof(fc.string(), fc.array(block, { maxLength: 3 }), json),
    }),
  )
  it('never throws, whatever JSON comes, and names a field of the request', () => {
    fc.assert(
      fc.property(
        fc.record(
          {
            model: fc.constant('m'),
            messages: fc.oneof(fc.array(message, { maxLength: 4 }), json),
            system: fc.oneof(fc.array(block, { maxLength: 2 }), json),
            tools: fc.oneof(fc.array(fc.oneof(fc.constant(tool), json), { maxLength: 2 }), json),
            tool_choice: json,
            thinking: json,
            output_config: json,
            stop_sequences: json,
            max_tokens: json,
          },
          { requiredKeys: ['model'] },
        ),
        fc.constantFrom<Tier>('train', 'eval'),
        (body, tier) => {
          const result = anthropic.read(body, context(tier))
          expect(
            result.ok ||
              /^(messages|system|tools|tool_choice|thinking|output_config|stop_sequences|max_tokens)/.test(result.failure.message),
          ).toBe(true)
          expect(typeof anthropic.readCount(body, context(tier)).ok).toBe('boolean')
        },
      ),
      { numRuns: 500 },
    )
  })
})

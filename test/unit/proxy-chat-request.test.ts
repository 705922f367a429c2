// OpenAI chat requests: what reaches the engine, what is dropped with a note, what is refused and how it is said.
import { describe, expect, it } from 'vitest'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

const user = { role: 'user', content: 'hi' }
const tool = { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } }

function read(body: JsonObject, tier: 'train' | 'eval' = 'eval') {
  return openaiChat.read({ model: 'm', messages: [user], ...body }, { tier, pins: {}, url: { model: null, form: null } })
}

function accepted(body: JsonObject, tier: 'train' | 'eval' = 'eval') {
  const result = read(body, tier)
  if (!result.ok) throw new Error(result.failure.message)
  return result.call
}

describe('parameters', () => {
  it.each([
    { given: { max_completion_tokens: 9 }, sent: { max_tokens: 9 } },
    { given: { max_completion_tokens: 9, max_tokens: 5 }, sent: { max_tokens: 5 } },
    { given: { temperature: 0.3, top_p: null, seed: 7, stop: ['a'] }, sent: { temperature: 0.3, seed: 7, stop: ['a'] } },
    {
      given: { top_k: 4, min_p: 0.1, chat_template_kwargs: { enable_thinking: false } },
      sent: { top_k: 4, min_p: 0.1, chat_template_kwargs: { enable_thinking: false } },
    },
    { given: { tools: [], tool_choice: 'auto', parallel_tool_calls: true }, sent: {} },
    { given: { tool_choice: 'none' }, sent: {} },
    {
      given: { tools: [tool], tool_choice: 'auto', parallel_tool_calls: false },
      sent: { tool_choice: 'auto', parallel_tool_calls: false },
    },
    { given: { stream_options: { include_usage: true } }, sent: {} },
    { given: { logprobs: true, top_logprobs: 5, user: 'u', store: true, metadata: {} }, sent: {} },
    { given: { n: 1, response_format: { type: 'text' }, logit_bias: {} }, sent: {} },
    { given: { _proxy_session_id: 7, _proxy_x: {} }, sent: {} },
  ])('$given become $sent', ({ given, sent }) => {
    const call = accepted(given)
    expect(call.request.parameters).toEqual(sent)
    expect(call.diagnostics).toEqual([])
  })

  it('drops what no engine knows, and notes it', () => {
    const call = accepted({ web_search_options: {}, return_token_ids: true })
    expect(call.request.parameters).toEqual({})
    expect(call.diagnostics).toEqual([
      { code: 'field-dropped', detail: 'web_search_options' },
      { code: 'field-dropped', detail: 'return_token_ids' },
    ])
  })

  it.each([
    { response_format: { type: 'json_object' } },
    { response_format: { type: 'json_schema', json_schema: {} } },
    { logit_bias: { 5: -100 } },
    { guided_json: {}, guided_regex: 'a+' },
    { guided_choice: ['a'] },
    { structured_outputs: { json: {} } },
    { tools: [tool], tool_choice: 'required' },
    { tools: [tool], tool_choice: { type: 'function', function: { name: 'f' } } },
  ])('refuses constrained decoding in training, and only there: %o', (given) => {
    const refused = read(given, 'train')
    expect(refused.ok ? null : refused.failure).toMatchObject({ code: 'constrained-decoding', status: 400 })
    const field = Object.keys(given).at(-1)
    // The first of them in the order in which they are read.
    expect(Object.keys(given)).toContain(refused.ok ? null : refused.failure.param)
    expect(refused.ok ? null : refused.failure.message).toContain('training session')
    expect(accepted(given, 'eval').request.parameters).toHaveProperty(field ?? '')
  })

  it.each([{ temperature: 0 }, { top_p: 0.9 }, { top_k: 5 }, { min_p: 0.1 }, { repetition_penalty: 1.1 }, { presence_penalty: 1 }])(
    'flags %o in training: the trainer must apply it too',
    (given) => {
      expect(accepted(given, 'train').diagnostics).toMatchObject([{ code: 'sampling-shaped' }])
      expect(accepted(given, 'eval').diagnostics).toEqual([])
    },
  )
})

describe('an effort of thinking', () => {
  it.each([
    { effort: 'low', sent: { reasoning_effort: 'low' }, notes: [] },
    {
      effort: 'minimal',
      sent: { reasoning_effort: 'low' },
      notes: [{ code: 'field-approximated', detail: 'reasoning_effort: minimal became low' }],
    },
    { effort: 'none', sent: { chat_template_kwargs: { enable_thinking: false } }, notes: [] },
    { effort: 'ultra', sent: {}, notes: [{ code: 'field-dropped', detail: 'reasoning_effort' }] },
  ])('$effort sends $sent', ({ effort, sent, notes }) => {
    const call = accepted({ reasoning_effort: effort })
    expect(call.request.parameters).toEqual(sent)
    expect(call.diagnostics).toEqual(notes)
  })

  it.each([
    { body: { reasoning: { effort: 'low' } }, sent: { reasoning_effort: 'low' }, notes: [] },
    {
      body: { reasoning: { effort: 'max', exclude: true } },
      sent: { reasoning_effort: 'high' },
      notes: [
        { code: 'field-dropped', detail: 'reasoning.exclude' },
        { code: 'field-approximated', detail: 'reasoning.effort: max became high' },
      ],
    },
    { body: { reasoning: { effort: 'low' }, reasoning_effort: 'high' }, sent: { reasoning_effort: 'high' }, notes: [] },
    { body: { reasoning: { effort: 'none' } }, sent: { chat_template_kwargs: { enable_thinking: false } }, notes: [] },
    { body: { reasoning: null }, sent: {}, notes: [] },
    { body: { reasoning: true }, sent: {}, notes: [{ code: 'field-dropped', detail: 'reasoning' }] },
  ])('reads an effort in the form that routers have for it: $body', ({ body, sent, notes }) => {
    const call = accepted(body)
    expect(call.request.parameters).toEqual(sent)
    expect(call.diagnostics).toEqual(notes)
  })

  it('of none gives way to what is said in the template’s own terms', () => {
    const call = accepted({ reasoning_effort: 'none', chat_template_kwargs: { enable_thinking: true, x: 1 } })
    expect(call.request.parameters).toEqual({ chat_template_kwargs: { enable_thinking: true, x: 1 } })
  })
})

describe('messages', () => {
  const system = (content: unknown) => ({ role: 'system', content })
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"b": 1.0,  "a":12345678901234567890}' } }
  it.each([
    { given: [{ role: 'developer', content: 'D' }, user], sent: [system('D'), user] },
    { given: [system('A'), { role: 'developer', content: 'B' }, user], sent: [system('A\n\nB'), user] },
    { given: [system('A'), user, system('late'), user], sent: [system('A'), user, system('late'), user] },
    { given: [user, system('x'), system('y')], sent: [user, system('x'), system('y')] },
    { given: [system([{ type: 'text', text: 'one' }]), user], sent: [system([{ type: 'text', text: 'one' }]), user] },
    {
      given: [system('A'), system([{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }]), user],
      sent: [
        system([
          { type: 'text', text: 'A' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        ]),
        user,
      ],
    },
    {
      given: [
        user,
        { role: 'assistant', content: null, tool_calls: [call], refusal: null },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
      sent: [user, { role: 'assistant', content: null, tool_calls: [call] }, { role: 'tool', tool_call_id: 'c1', content: 'ok' }],
    },
    {
      given: [user, { role: 'assistant', content: '', reasoning: ' R\n' }],
      sent: [user, { role: 'assistant', content: '', reasoning_content: ' R\n' }],
    },
    {
      given: [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'refusal', refusal: '' },
            { type: 'text', text: '' },
          ],
          name: 'bob',
          tool_calls: [call],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'ok', name: 'f' },
      ],
      sent: [
        user,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: '' },
            { type: 'text', text: '' },
          ],
          tool_calls: [call],
          name: 'bob',
        },
        { role: 'tool', tool_call_id: 'c1', content: 'ok' },
      ],
    },
    {
      given: [{ role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }], name: 'ann' }],
      sent: [{ role: 'user', content: [{ type: 'text', text: 'a' }], name: 'ann' }],
    },
  ])('$given become $sent', ({ given, sent }) => {
    const call = accepted({ messages: given })
    expect(call.request.messages).toEqual(sent)
    expect(call.diagnostics).toEqual([])
  })

  it('keep their order and lose unknown fields with a note', () => {
    const calls = [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '' } }]
    const given = [
      { role: 'system', content: 'S' },
      user,
      { role: 'assistant', content: null, tool_calls: calls },
      { role: 'tool', tool_call_id: 'c1', content: 'ok' },
    ]
    const call = accepted({ messages: given.map((message) => ({ ...message, mood: 'good' })) })
    expect(call.request.messages).toEqual(given)
    expect(call.diagnostics).toEqual(given.map((_message, index) => ({ code: 'field-dropped', detail: `messages[${index}].mood` })))
  })
})

it('takes a model by any name of up to 256 characters', () => {
  expect(accepted({ model: 'm'.repeat(256) }).modelRequested).toBe('m'.repeat(256))
})

describe('tools', () => {
  it('keep their schema untouched; hosted ones are dropped with a note', () => {
    const call = accepted({ tools: [{ type: 'web_search' }, tool, { type: 'function', function: { name: 'bare' } }] })
    expect(call.request.tools).toEqual([tool, { type: 'function', function: { name: 'bare' } }])
    expect(call.diagnostics).toEqual([{ code: 'tool-dropped', detail: 'tools[0]: no engine here runs tools of type web_search' }])
  })

  it('are strict where sampling may be constrained, and not in a training session', () => {
    const tools = [{ ...tool, function: { ...tool.function, strict: true } }]
    expect(accepted({ tools }, 'eval').request.tools).toEqual(tools)
    const trained = accepted({ tools }, 'train')
    expect(trained.request.tools).toEqual([tool])
    expect(trained.diagnostics).toEqual([{ code: 'field-dropped', detail: 'tools[0].function.strict' }])
  })
})

describe('refused in the terms of the caller', () => {
  it.each([
    { body: { model: undefined }, param: 'model' },
    { body: { model: 7 }, param: 'model' },
    { body: { model: '' }, param: 'model' },
    { body: { model: 'm'.repeat(257) }, param: 'model' },
    { body: { messages: undefined }, param: 'messages' },
    { body: { messages: [] }, param: 'messages' },
    { body: { messages: 'hi' }, param: 'messages' },
    { body: { messages: ['hi'] }, param: 'messages[0]' },
    { body: { messages: [user, { role: 'bot', content: '' }] }, param: 'messages[1].role' },
    { body: { messages: [{ role: 'user' }] }, param: 'messages[0].content' },
    { body: { messages: [{ role: 'user', content: [7] }] }, param: 'messages[0].content[0]' },
    { body: { messages: [{ role: 'user', content: [{ type: 'text' }] }] }, param: 'messages[0].content[0].text' },
    { body: { messages: [{ role: 'tool', content: 'x' }] }, param: 'messages[0].tool_call_id' },
    { body: { messages: [{ role: 'assistant', tool_calls: {} }] }, param: 'messages[0].tool_calls' },
    {
      body: { messages: [{ role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: {} } }] }] },
      param: 'messages[0].tool_calls[0].function.arguments',
    },
    { body: { messages: [{ role: 'assistant', content: 'x', reasoning_content: 5 }] }, param: 'messages[0].reasoning_content' },
    { body: { messages: [{ role: 'assistant', content: 'x', reasoning: 5 }] }, param: 'messages[0].reasoning' },
    { body: { reasoning_effort: 3 }, param: 'reasoning_effort' },
    { body: { reasoning: { effort: 3 } }, param: 'reasoning.effort' },
    { body: { n: 2 }, param: 'n' },
    { body: { n: '1' }, param: 'n' },
    { body: { stream: 'yes' }, param: 'stream' },
    { body: { stream: true, stream_options: 'all' }, param: 'stream_options' },
    { body: { temperature: '0.5' }, param: 'temperature' },
    { body: { max_tokens: 0 }, param: 'max_tokens' },
    { body: { max_tokens: 1.5 }, param: 'max_tokens' },
    { body: { max_completion_tokens: [] }, param: 'max_completion_tokens' },
    { body: { max_completion_tokens: 0 }, param: 'max_completion_tokens' },
    { body: { stop: [1] }, param: 'stop' },
    { body: { tools: {} }, param: 'tools' },
    { body: { tools: [{ type: 'function' }] }, param: 'tools[0].function' },
    { body: { tools: [{ type: 'function', function: { name: '' } }] }, param: 'tools[0].function.name' },
    { body: { tools: [{ type: 'function', function: { name: 'f', parameters: 'x' } }] }, param: 'tools[0].function.parameters' },
    { body: { tools: [tool], tool_choice: 'maybe' }, param: 'tool_choice' },
    { body: { tools: [tool, { type: 'custom' }], tool_choice: { type: 'function', function: { name: 'gone' } } }, param: 'tool_choice' },
    { body: { tools: [tool], tool_choice: { type: 'custom', function: { name: 'f' } } }, param: 'tool_choice' },
    { body: { tools: [tool], tool_choice: { type: 'function', function: 'f' } }, param: 'tool_choice' },
    { body: { tools: [tool], tool_choice: { type: 'function', function: {} } }, param: 'tool_choice.function.name' },
    { body: { functions: [] }, param: 'functions' },
    { body: { function_call: 'auto' }, param: 'function_call' },
    { body: { logprobs: 1 }, param: 'logprobs' },
  ])('$param: $body', ({ body, param }) => {
    const result = read(body)
    if (result.ok) throw new Error('accepted')
    expect(result.failure).toMatchObject({ code: 'invalid-request', status: 400, param })
    expect(result.failure.message.startsWith(`${param}`)).toBe(true)
    const told = openaiChat.failure(result.failure)
    expect([told.status, JSON.parse(told.body)]).toMatchObject([400, { error: { type: 'invalid_request_error', param } }])
  })

  it('is a result without its call, which a count takes all the same', () => {
    const messages = [user, { role: 'tool', tool_call_id: 'call_9', content: 'x' }]
    const result = read({ messages })
    if (result.ok) throw new Error('accepted')
    expect(result.failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'messages' })
    expect(result.failure.message).toContain('"call_9"')
    const context = { tier: 'eval', pins: {}, url: { model: null, form: null } } as const
    expect(openaiChat.readCount({ messages }, context)).toMatchObject({ ok: true, countable: { kind: 'messages', request: { messages } } })
  })

  it('quotes no more of a long body than a reader needs', () => {
    const result = read({ messages: [{ role: 'x'.repeat(100_000), content: '' }] })
    if (result.ok) throw new Error('accepted')
    expect(result.failure.message).toMatch(/^messages\[0\]\.role: expected .*x…$/)
    expect(result.failure.message).toHaveLength(401)
  })

  it('never throws, whatever JSON comes', async () => {
    const { default: fc } = await import('fast-check')
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('model', 'messages', 'tools', 'tool_choice', 'stream', 'n', 'stop', 'max_tokens'), fc.jsonValue()),
        (body) => {
          const result = openaiChat.read(body as JsonObject, { tier: 'train', pins: {}, url: { model: null, form: null } })
          expect(typeof result.ok).toBe('boolean')
        },
      ),
    )
  })
})

describe('a count', () => {
  const context = { tier: 'eval', pins: {}, url: { model: null, form: null } } as const

  it('is of a text, or of what a request would send', () => {
    expect(openaiChat.readCount({ prompt: 'how long' }, context)).toEqual({ ok: true, countable: { kind: 'text', text: 'how long' } })
    expect(openaiChat.readCount({ prompt: null, messages: [user], tools: [tool] }, context)).toEqual({
      ok: true,
      countable: { kind: 'messages', request: accepted({ tools: [tool] }).request },
    })
    expect(openaiChat.readCount({ prompt: [1, 2] }, context)).toMatchObject({ ok: false, failure: { status: 400, param: 'prompt' } })
  })

  it('is told in the shape of vLLM', () => {
    const told = (maxModelLen: number | null) => JSON.parse(openaiChat.tokenCount(12, { id: 'm', createdSeconds: 0, maxModelLen }))
    expect(told(4_096)).toEqual({ count: 12, max_model_len: 4_096, tokens: null })
    expect(told(null)).toEqual({ count: 12, max_model_len: null, tokens: null })
  })
})

// Anthropic requests: what reaches the engine, what is dropped with a note, what is refused and how it is said.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import {
  accepted,
  answered,
  asked,
  context,
  image,
  refused,
  result,
  said,
  served,
  type Tier,
  told,
  tool,
  use,
  user,
  words,
} from '../lib/anthropic-requests.ts'

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
    const param = name === 'output_format' ? name : 'output_config.format'
    expect(failure).toMatchObject({ code: 'constrained-decoding', status: 400, param })
    expect(failure.message.startsWith(`${param} `)).toBe(true)
  })

  it('that mean nothing here are dropped without a word, unknown ones with a note', () => {
    const call = accepted({
      metadata: { user_id: '{}' },
      context_management: { edits: [] },
      betas: ['x'],
      service_tier: 'auto',
      cache_control: { type: 'ephemeral' },
      output_config: { effort: 'ultra', task_budget: {} },
      _proxy_session_id: 7,
      mcp_servers: [],
      seed: 7,
    })
    expect(call.request.parameters).toEqual({ max_tokens: 100 })
    expect(call.diagnostics).toEqual([
      { code: 'field-dropped', detail: 'output_config.task_budget' },
      { code: 'field-dropped', detail: 'output_config.effort' },
      { code: 'field-dropped', detail: 'mcp_servers' },
      { code: 'field-dropped', detail: 'seed' },
    ])
  })

  it.each(['xhigh', 'max'])('effort %s is approximated by high, and said to be', (effort) => {
    const call = accepted({ output_config: { effort } })
    expect(call.request.parameters).toEqual({ max_tokens: 100, reasoning_effort: 'high' })
    expect(call.diagnostics).toEqual([{ code: 'field-approximated', detail: `output_config.effort: ${effort} became high` }])
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
        { name: 'DeferredToolPlaceholder', input_schema: { type: 'object' }, input_examples: [{}] },
      ],
    })
    expect(call.request.tools).toEqual([
      served,
      { type: 'function', function: { name: 'DeferredToolPlaceholder', parameters: { type: 'object' } } },
    ])
    expect(call.diagnostics).toEqual([
      { code: 'tool-dropped', detail: 'tools[0]: no engine here knows tools of type web_search_20250305' },
      { code: 'field-dropped', detail: 'tools[2].input_examples' },
    ])
  })

  it('are strict where sampling may be constrained, and not in a training session', () => {
    const tools = [{ ...tool, strict: true }]
    expect(accepted({ tools }).request.tools).toEqual([{ ...served, function: { ...served.function, strict: true } }])
    expect(accepted({ tools }).diagnostics).toEqual([])
    expect(accepted({ tools }, 'train').request.tools).toEqual([served])
    expect(accepted({ tools }, 'train').diagnostics).toEqual([{ code: 'field-dropped', detail: 'tools[0].strict' }])
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

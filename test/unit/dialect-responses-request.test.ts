// OpenAI Responses requests: what reaches the engine, what is dropped with a note, what is refused and how it is said.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { accepted, CALL, messagesOf, read, refused, TOOLS } from '../lib/responses-fixture.ts'

const [tool] = TOOLS

describe('parameters', () => {
  it.each<{ given: JsonObject; sent: JsonObject }>([
    { given: { max_output_tokens: 9, temperature: 0.3, top_p: 0.5 }, sent: { max_tokens: 9, temperature: 0.3, top_p: 0.5 } },
    { given: { max_output_tokens: null, temperature: null, tools: null, text: null, reasoning: null, stream: null }, sent: {} },
    { given: { tools: [], tool_choice: 'auto', parallel_tool_calls: true }, sent: {} },
    {
      given: { tools: [tool], tool_choice: 'none', parallel_tool_calls: false },
      sent: { tool_choice: 'none', parallel_tool_calls: false },
    },
    { given: { reasoning: { effort: 'none' } }, sent: { chat_template_kwargs: { enable_thinking: false } } },
    {
      given: { reasoning: { effort: 'high', summary: 'auto', context: 'all_turns' } },
      sent: { chat_template_kwargs: { enable_thinking: true }, reasoning_effort: 'high' },
    },
    { given: { reasoning: { summary: 'auto' } }, sent: {} },
    { given: { reasoning: { effort: null } }, sent: {} },
    {
      given: { reasoning: { effort: 'low' }, chat_template_kwargs: { enable_thinking: false, x: 1 } },
      sent: { chat_template_kwargs: { enable_thinking: false, x: 1 }, reasoning_effort: 'low' },
    },
    { given: { text: { format: { type: 'text' }, verbosity: 'low' } }, sent: {} },
    { given: { text: { format: { type: 'json_object' } } }, sent: { response_format: { type: 'json_object' } } },
    {
      given: { text: { format: { type: 'json_schema', name: 'codex_output_schema', strict: true, schema: { type: 'object' } } } },
      sent: {
        response_format: { type: 'json_schema', json_schema: { name: 'codex_output_schema', strict: true, schema: { type: 'object' } } },
      },
    },
    { given: { top_k: 4, min_p: 0.1, seed: 7 }, sent: { top_k: 4, min_p: 0.1, seed: 7 } },
    {
      given: {
        store: false,
        include: ['reasoning.encrypted_content'],
        truncation: 'auto',
        prompt_cache_key: 'k',
        service_tier: 'auto',
        metadata: { a: 'b' },
        client_metadata: { session_id: 's' },
        user: 'u',
        safety_identifier: 's',
        stream_options: { include_obfuscation: false },
        background: false,
        generate: true,
        _proxy_session_id: 7,
      },
      sent: {},
    },
  ])('$given become $sent', ({ given, sent }) => {
    const call = accepted(given)
    expect(call.request.parameters).toEqual(sent)
    expect(call.diagnostics).toEqual([])
  })

  it.each([
    { effort: 'minimal', level: 'low' },
    { effort: 'xhigh', level: 'high' },
    { effort: 'max', level: 'high' },
  ])('effort $effort is approximated by $level, and said to be', ({ effort, level }) => {
    const call = accepted({ reasoning: { effort } })
    expect(call.request.parameters).toEqual({ chat_template_kwargs: { enable_thinking: true }, reasoning_effort: level })
    expect(call.diagnostics).toEqual([{ code: 'field-approximated', detail: `reasoning.effort: ${effort} became ${level}` }])
  })

  it('an effort that nobody knows turns thinking on, and is noted', () => {
    const call = accepted({ reasoning: { effort: 'ultra' } })
    expect(call.request.parameters).toEqual({ chat_template_kwargs: { enable_thinking: true } })
    expect(call.diagnostics).toEqual([{ code: 'field-dropped', detail: 'reasoning.effort' }])
  })

  it('notes what is not carried over', () => {
    const call = accepted({ top_logprobs: 5, context_management: [], moderation: null, text: { mood: 'good' }, reasoning: { depth: 3 } })
    expect(call.diagnostics).toEqual([
      { code: 'field-dropped', detail: 'reasoning.depth' },
      { code: 'field-dropped', detail: 'text.mood' },
      { code: 'field-dropped', detail: 'top_logprobs' },
      { code: 'field-dropped', detail: 'context_management' },
    ])
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`field_${index}`, index]))
    expect(accepted(many).diagnostics.length).toBeLessThanOrEqual(64)
  })

  it('states what was asked for', () => {
    expect(accepted({ max_output_tokens: 1, stream: true })).toMatchObject({
      modelRequested: 'gpt-asked',
      stream: true,
      maxTokensRequested: 1,
      continues: null,
    })
    expect(accepted({}).maxTokensRequested).toBeNull()
  })
})

describe('refused in a training session, and only there', () => {
  it.each<{ given: JsonObject; param: string }>([
    { given: { text: { format: { type: 'json_object' } } }, param: 'text.format' },
    { given: { text: { format: { type: 'json_schema', name: 'n', schema: {} } } }, param: 'text.format' },
    { given: { tools: [tool], tool_choice: 'required' }, param: 'tool_choice' },
    { given: { tools: [tool], tool_choice: { type: 'function', name: 'f' } }, param: 'tool_choice' },
    { given: { tools: TOOLS, tool_choice: { type: 'custom', name: 'apply_patch' } }, param: 'tool_choice' },
    { given: { tools: TOOLS, tool_choice: { type: 'shell' } }, param: 'tool_choice' },
    { given: { tools: [tool], tool_choice: { type: 'allowed_tools', mode: 'required', tools: [tool] } }, param: 'tool_choice' },
    { given: { logit_bias: { 5: 1 } }, param: 'logit_bias' },
  ])('$given', ({ given, param }) => {
    expect(refused(given, 'train')).toMatchObject({ code: 'constrained-decoding', status: 400, param })
    expect(read(given, 'eval').ok).toBe(true)
  })
})

describe('the empty probe of Codex', () => {
  it.each([
    { body: { input: [], max_output_tokens: 1 }, sent: [{ role: 'user', content: '' }] },
    { body: { input: '', max_output_tokens: 1 }, sent: [{ role: 'user', content: '' }] },
    {
      body: { input: [], instructions: 'I', max_output_tokens: 1 },
      sent: [
        { role: 'system', content: 'I' },
        { role: 'user', content: '' },
      ],
    },
  ])('$body is a conversation an engine can be told', ({ body, sent }) => {
    expect(accepted(body).request).toEqual({ messages: sent, tools: null, parameters: { max_tokens: 1 } })
  })
})

describe('TI-17: a request that goes on with an earlier response', () => {
  const output = { type: 'function_call_output', call_id: 'call_9', output: 'x' }

  it('names the call whose response it is, and may bring results of calls that stand there', () => {
    const call = accepted({ previous_response_id: `resp_${CALL}`, input: [output], store: false })
    expect(call.continues).toBe(CALL)
    expect(call.request.messages).toEqual([{ role: 'tool', tool_call_id: 'call_9', content: 'x' }])
  })

  it.each<{ body: JsonObject; param: string }>([
    { body: { previous_response_id: 'resp_unknown', input: [output] }, param: 'previous_response_id' },
    { body: { previous_response_id: `resp_${CALL}0` }, param: 'previous_response_id' },
    { body: { previous_response_id: CALL }, param: 'previous_response_id' },
    { body: { input: [{ type: 'item_reference', id: 'msg_1' }] }, param: 'input[0].id' },
    { body: { input: [{ id: 'msg_1' }] }, param: 'input[0].id' },
    { body: { conversation: 'conv_1' }, param: 'conversation' },
    { body: { conversation: { id: 'conv_1' } }, param: 'conversation' },
  ])('is refused with the code clients know when it is not known here: $body', ({ body, param }) => {
    const failure = refused(body)
    expect(failure).toMatchObject({ code: 'previous-response-unknown', status: 400, param })
    const told = openaiResponses.failure(failure)
    expect([told.status, JSON.parse(told.body)]).toEqual([
      400,
      { error: { message: failure.message, type: 'invalid_request_error', param, code: 'previous_response_not_found' } },
    ])
  })
})

describe('refused in the terms of the caller', () => {
  const user = { role: 'user', content: 'x' }
  it.each<{ body: JsonObject; param: string }>([
    { body: { model: undefined }, param: 'model' },
    { body: { model: 7 }, param: 'model' },
    { body: { input: undefined }, param: 'input' },
    { body: { input: null }, param: 'input' },
    { body: { input: 7 }, param: 'input' },
    { body: { input: ['x'] }, param: 'input[0]' },
    { body: { input: [user, { type: 7 }] }, param: 'input[1].type' },
    { body: { input: [{ role: 'bot', content: '' }] }, param: 'input[0].role' },
    { body: { input: [{ role: 'user' }] }, param: 'input[0].content' },
    { body: { input: [{ role: 'user', content: [7] }] }, param: 'input[0].content[0]' },
    { body: { input: [{ role: 'user', content: [{ type: 'input_text' }] }] }, param: 'input[0].content[0].text' },
    { body: { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] }, param: 'input[0].content[0].image_url' },
    { body: { input: [{ role: 'user', content: [{ type: 'input_file', file_data: 'x' }] }] }, param: 'input[0].content[0]' },
    { body: { input: [{ type: 'function_call', name: 'f', arguments: '{}' }] }, param: 'input[0].call_id' },
    { body: { input: [{ type: 'function_call', call_id: 'c', arguments: '{}' }] }, param: 'input[0].name' },
    { body: { input: [{ type: 'function_call', call_id: 'c', name: 'f', arguments: 7 }] }, param: 'input[0].arguments' },
    { body: { input: [{ type: 'custom_tool_call', call_id: 'c', name: 'f' }] }, param: 'input[0].input' },
    { body: { input: [{ type: 'shell_call', call_id: 'c' }] }, param: 'input[0].action' },
    { body: { input: [{ type: 'function_call_output', output: 'x' }] }, param: 'input[0].call_id' },
    { body: { input: [{ type: 'function_call_output', call_id: 'c' }] }, param: 'input[0].output' },
    { body: { input: [{ type: 'function_call_output', call_id: 'c', output: { content: [7] } }] }, param: 'input[0].output[0]' },
    { body: { input: [{ type: 'shell_call_output', call_id: 'c', output: {} }] }, param: 'input[0].output' },
    { body: { instructions: ['I'] }, param: 'instructions' },
    { body: { max_output_tokens: 0 }, param: 'max_output_tokens' },
    { body: { max_output_tokens: '9' }, param: 'max_output_tokens' },
    { body: { max_output_tokens: 1.5 }, param: 'max_output_tokens' },
    { body: { temperature: '0.5' }, param: 'temperature' },
    { body: { stream: 'yes' }, param: 'stream' },
    { body: { background: true }, param: 'background' },
    { body: { prompt: { id: 'pmpt_1' } }, param: 'prompt' },
    { body: { reasoning: 'high' }, param: 'reasoning' },
    { body: { reasoning: { effort: 3 } }, param: 'reasoning.effort' },
    { body: { text: { format: 'json' } }, param: 'text.format' },
    { body: { text: { format: { type: 'xml' } } }, param: 'text.format.type' },
    { body: { tools: {} }, param: 'tools' },
    { body: { tools: ['f'] }, param: 'tools[0]' },
    { body: { tools: [{ name: 'f' }] }, param: 'tools[0].type' },
    { body: { tools: [{ type: 'function' }] }, param: 'tools[0].name' },
    { body: { tools: [{ type: 'function', function: { name: 'f' } }] }, param: 'tools[0].name' },
    { body: { tools: [{ type: 'function', name: 'f', parameters: [] }] }, param: 'tools[0].parameters' },
    { body: { tools: [{ type: 'function', name: 'f', description: 5 }] }, param: 'tools[0].description' },
    { body: { tools: [{ type: 'namespace', name: 'n' }] }, param: 'tools[0].tools' },
    { body: { tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'function' }] }] }, param: 'tools[0].tools[0].name' },
    { body: { tools: [tool], tool_choice: 'maybe' }, param: 'tool_choice' },
    { body: { tools: [tool], tool_choice: { type: 'function' } }, param: 'tool_choice.name' },
    { body: { tools: [tool], tool_choice: { type: 'allowed_tools', mode: 'none', tools: [tool] } }, param: 'tool_choice.mode' },
    { body: { input: [{ type: 'additional_tools', role: 'developer', tools: 3 }] }, param: 'input[0].tools' },
  ])('$param: $body', ({ body, param }) => {
    const failure = refused(body)
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param })
    expect(failure.message.startsWith(`${param}`)).toBe(true)
  })

  it('never throws, whatever JSON comes', () => {
    const name = fc.constantFrom(
      ...'model input instructions tools tool_choice text reasoning stream max_output_tokens previous_response_id'.split(' '),
    )
    const type = fc.constantFrom(
      ...(
        'message reasoning function_call function_call_output custom_tool_call custom_tool_call_output shell_call local_shell_call ' +
        'shell_call_output local_shell_call_output tool_search_call tool_search_output additional_tools input_text input_image function ' +
        'custom namespace shell tool_search web_search compaction item_reference allowed_tools'
      ).split(' '),
    )
    const field = fc.constantFrom(
      ...'role content call_id id name namespace arguments input output action tools summary encrypted_content format parameters text'.split(
        ' ',
      ),
    )
    const thing = fc.tuple(type, fc.dictionary(field, fc.jsonValue())).map(([kind, rest]) => ({ ...rest, type: kind }))
    fc.assert(
      fc.property(fc.dictionary(name, fc.oneof(fc.jsonValue(), fc.array(thing), thing)), (body) => {
        const context = { tier: 'train', pins: {}, url: { model: null, form: null } } as const
        expect(typeof openaiResponses.read({ model: 'm', ...body }, context).ok).toBe('boolean')
        expect(typeof openaiResponses.readCount(body, context).ok).toBe('boolean')
      }),
      { numRuns: 500 },
    )
  })
})

it('TO-02: warming up without an answer is refused, whatever asks for it', () => {
  for (const input of ['', [], 'hi']) {
    expect(refused({ generate: false, input })).toMatchObject({ code: 'invalid-request', status: 400, param: 'generate' })
  }
  expect(accepted({ generate: true }).diagnostics).toEqual([])
})

describe('a count of input tokens', () => {
  const context = { tier: 'eval', pins: {}, url: { model: null, form: null } } as const

  it('is of the conversation that a response would be made of, with its tools', () => {
    const body = { instructions: 'I', input: [{ role: 'user', content: 'x' }], tools: [tool] }
    expect(openaiResponses.readCount(body, context)).toEqual({
      ok: true,
      countable: { kind: 'messages', request: accepted(body).request },
    })
  })

  it('needs no field at all, and cannot go on with a response that is only named', () => {
    expect(openaiResponses.readCount({}, context)).toMatchObject({ ok: true })
    expect(openaiResponses.readCount({ previous_response_id: `resp_${CALL}` }, context)).toMatchObject({
      failure: { code: 'previous-response-unknown', param: 'previous_response_id' },
    })
  })

  it('is told in the shape of the vendor', () => {
    const told = openaiResponses.tokenCount(41, { id: 'm', createdSeconds: 0, maxModelLen: null })
    expect(JSON.parse(told)).toEqual({ object: 'response.input_tokens', input_tokens: 41 })
  })
})

it('reads the bodies that clients really send without a note', () => {
  const pi = {
    input: [
      { role: 'developer', content: 'P' },
      { role: 'user', content: [{ type: 'input_text', text: 'task' }] },
    ],
    stream: true,
    store: false,
    prompt_cache_key: 'k',
    max_output_tokens: 8192,
    reasoning: { effort: 'medium', summary: 'auto' },
    include: ['reasoning.encrypted_content'],
    tools: [{ type: 'function', name: 'bash', description: 'd', parameters: { type: 'object' }, strict: false }],
  }
  const qwen = {
    instructions: 'P',
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'task' }] }],
    prompt_cache_key: 'k',
    store: false,
    max_output_tokens: 64_000,
    parallel_tool_calls: true,
    stream: true,
  }
  const codex = {
    stream: true,
    input: [
      {
        type: 'message',
        role: 'developer',
        id: 'm1',
        content: [{ type: 'input_text', text: 'P' }],
        internal_chat_message_metadata_passthrough: {},
      },
      { type: 'message', role: 'user', id: 'm2', content: [{ type: 'input_text', text: 'task' }] },
    ],
    tools: [{ type: 'function', name: 'exec_command', strict: false, parameters: { type: 'object' } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning: { effort: 'medium', summary: 'auto' },
    store: false,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k',
    client_metadata: { session_id: 's' },
    text: { verbosity: 'low' },
  }
  for (const body of [pi, qwen, codex]) {
    expect(accepted(body, 'train').diagnostics).toEqual([])
    expect(messagesOf(body.input, 'instructions' in body ? { instructions: body.instructions } : {})).toEqual([
      { role: 'system', content: 'P' },
      { role: 'user', content: 'task' },
    ])
  }
})

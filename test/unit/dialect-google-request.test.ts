// Google requests: which settings and tools reach the engine, what is dropped with a note, what is refused and how it is said.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

const hi = { role: 'user', parts: [{ text: 'hi' }] }
const declared = { name: 'f', description: 'd', parametersJsonSchema: { type: 'object', properties: { a: { type: 'string' } } } }
const tools = [{ functionDeclarations: [declared] }]
const calling = (config: object) => ({ tools, toolConfig: { functionCallingConfig: config } })

function read(body: JsonObject, tier: 'train' | 'eval' = 'eval', form: 'plain' | 'events' | 'array' | null = 'plain') {
  return google.read({ contents: [hi], ...body }, { tier, pins: {}, url: { model: 'm', form } })
}

function accepted(body: JsonObject, tier: 'train' | 'eval' = 'eval') {
  const result = read(body, tier)
  if (!result.ok) throw new Error(result.failure.message)
  return result.call
}

describe('the URL', () => {
  it.each([
    { form: 'plain', stream: false, type: 'text/event-stream; charset=utf-8' },
    { form: 'events', stream: true, type: 'text/event-stream; charset=utf-8' },
    { form: 'array', stream: true, type: 'application/json' },
  ] as const)('decides the form and the model: $form', ({ form, stream, type }) => {
    const result = read({ model: 'models/other', stream: !stream }, 'eval', form)
    if (!result.ok) throw new Error(result.failure.message)
    expect(result.call).toMatchObject({ stream, modelRequested: 'm' })
    expect(result.reply.streamType).toBe(type)
  })
})

describe('settings', () => {
  const all = {
    maxOutputTokens: 9,
    temperature: 0.5,
    topP: 0.9,
    topK: 4,
    seed: 7,
    stopSequences: ['a', 'b'],
    presencePenalty: 0.25,
    frequencyPenalty: 0.75,
  }
  const sent = {
    max_tokens: 9,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 4,
    seed: 7,
    stop: ['a', 'b'],
    presence_penalty: 0.25,
    frequency_penalty: 0.75,
  }
  const snake = {
    max_output_tokens: 9,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 4,
    seed: 7,
    stop_sequences: ['a', 'b'],
    presence_penalty: 0.25,
    frequency_penalty: 0.75,
  }
  it.each([
    ['at the top', { generationConfig: all }],
    ['in snake case', { generation_config: snake }],
    ['under config', { config: all }],
    ['under config in snake case', { config: snake }],
    ['nested under config', { config: { generationConfig: all } }],
  ])('are read %s', (_place, given) => {
    const call = accepted(given)
    expect(call.request.parameters).toEqual(sent)
    expect(call.maxTokensRequested).toBe(9)
    expect(call.diagnostics).toEqual([])
  })

  it('of the top win over those under config, member by member', () => {
    const call = accepted({ generationConfig: { topK: 1 }, config: { topK: 2, temperature: 0.1, generationConfig: { topK: 3, seed: 4 } } })
    expect(call.request.parameters).toEqual({ top_k: 1, temperature: 0.1, seed: 4 })
  })

  it('in both spellings are read in the first one, wherever it stands', () => {
    for (const generationConfig of [
      { topK: 1, top_k: 2 },
      { top_k: 2, topK: 1 },
    ]) {
      expect(accepted({ generationConfig }).request.parameters).toEqual({ top_k: 1 })
    }
  })

  it.each([
    [{ candidateCount: 1, responseMimeType: 'text/plain', stopSequences: [], thinkingConfig: {} }],
    [{ temperature: null, thinkingConfig: null, responseSchema: null }],
    [{ responseLogprobs: true, logprobs: 3 }],
    [{ responseMimeType: '' }],
    [{ responseFormat: [{ text: {} }] }],
  ])('that ask for nothing send nothing: %j', (generationConfig) => {
    const call = accepted({ generationConfig }, 'train')
    expect(call.request.parameters).toEqual({})
    expect(call.diagnostics).toEqual([])
  })

  it.each([
    { given: { includeThoughts: true }, sent: { chat_template_kwargs: { enable_thinking: true } } },
    { given: { include_thoughts: true, thinking_budget: -1 }, sent: { chat_template_kwargs: { enable_thinking: true } } },
    { given: { thinkingBudget: 0 }, sent: { chat_template_kwargs: { enable_thinking: false } } },
    { given: { thinkingBudget: 0, includeThoughts: true }, sent: { chat_template_kwargs: { enable_thinking: false } } },
    { given: { thinkingBudget: -1 }, sent: {} },
    { given: { includeThoughts: false }, sent: {} },
    { given: { thinkingLevel: 'THINKING_LEVEL_UNSPECIFIED' }, sent: {} },
    { given: { thinkingLevel: 'LOW' }, sent: { chat_template_kwargs: { enable_thinking: true }, reasoning_effort: 'low' } },
    { given: { thinkingLevel: 'medium' }, sent: { chat_template_kwargs: { enable_thinking: true }, reasoning_effort: 'medium' } },
    {
      given: { includeThoughts: true, thinkingLevel: 'HIGH' },
      sent: { chat_template_kwargs: { enable_thinking: true }, reasoning_effort: 'high' },
    },
  ])('of thinking: $given', ({ given, sent: expected }) => {
    const call = accepted({ generationConfig: { thinkingConfig: given } })
    expect(call.request.parameters).toEqual(expected)
    expect(call.diagnostics).toEqual([])
  })

  it.each([
    { given: { thinkingLevel: 'MINIMAL' }, effort: 'low', code: 'field-approximated' },
    { given: { thinkingLevel: 'XHIGH' }, effort: 'high', code: 'field-approximated' },
    { given: { thinkingLevel: 'LOW', thinkingMood: 'calm' }, effort: 'low', code: 'field-dropped' },
  ])('of thinking that no template knows are noted: $given', ({ given, effort, code }) => {
    const call = accepted({ generationConfig: { thinkingConfig: given } })
    expect(call.request.parameters).toEqual({ chat_template_kwargs: { enable_thinking: true }, reasoning_effort: effort })
    expect(call.diagnostics).toMatchObject([{ code }])
  })

  it('of a budget alone turn thinking on', () => {
    const call = accepted({ generationConfig: { thinkingConfig: { thinkingBudget: 1 } } })
    expect(call.request.parameters).toEqual({ chat_template_kwargs: { enable_thinking: true } })
    expect(call.diagnostics).toEqual([])
  })

  it('of a level that nobody knows are left to the model, and noted', () => {
    const call = accepted({ generationConfig: { thinkingConfig: { thinkingLevel: 'DEEP' } } })
    expect(call.request.parameters).toEqual({})
    expect(call.diagnostics).toEqual([{ code: 'field-dropped', detail: 'generationConfig.thinkingConfig.thinkingLevel' }])
  })

  it.each([
    [{ responseMimeType: 'application/json' }, { type: 'json_object' }],
    [{ responseMimeType: 'Application/JSON' }, { type: 'json_object' }],
    [{ responseFormat: [{ text: { mimeType: 'application/json' } }] }, { type: 'json_object' }],
    [
      { responseMimeType: 'application/json', responseSchema: { type: 'OBJECT', properties: { type: { type: 'STRING' } } } },
      {
        type: 'json_schema',
        json_schema: { name: 'google_response', schema: { type: 'object', properties: { type: { type: 'string' } } } },
      },
    ],
    [
      { response_json_schema: { type: 'ARRAY', items: { type: 'STRING' } } },
      { type: 'json_schema', json_schema: { name: 'google_response', schema: { type: 'array', items: { type: 'string' } } } },
    ],
    [
      { responseFormat: [{ text: { mimeType: 'application/json', schema: { type: 'object' } } }] },
      { type: 'json_schema', json_schema: { name: 'google_response', schema: { type: 'object' } } },
    ],
  ])('of structured output reach the engine, but not in training: %j', (generationConfig, format) => {
    expect(accepted({ generationConfig }).request.parameters).toEqual({ response_format: format })
    const refused = read({ generationConfig }, 'train')
    expect(refused).toMatchObject({ ok: false, failure: { code: 'constrained-decoding', status: 400 } })
    expect(refused.ok ? null : refused.failure.param).toMatch(/^generationConfig\.(response|response_)/)
  })

  it('that are pinned stay pinned', () => {
    const result = google.read(
      { contents: [hi], generationConfig: { temperature: 0.2 } },
      { tier: 'train', pins: { temperature: 1 }, url: { model: 'm', form: 'plain' } },
    )
    expect(result.ok && result.call.request.parameters).toEqual({ temperature: 1 })
    expect(result.ok && result.call.diagnostics).toMatchObject([{ code: 'sampling-pinned' }])
  })

  it('and fields that nothing here knows are dropped with a note, in the caller’s spelling', () => {
    const call = accepted({
      generation_config: { speech_config: {}, topK: 2 },
      config: { imageConfig: {}, httpOptions: {}, automaticFunctionCalling: {} },
      safetySettings: [{}],
      labels: { a: 'b' },
      serviceTier: 'x',
      _proxy_session_id: 7,
      surprise: 1,
    })
    expect(call.request.parameters).toEqual({ top_k: 2 })
    expect(call.diagnostics).toEqual([
      { code: 'field-dropped', detail: 'surprise' },
      { code: 'field-dropped', detail: 'config.imageConfig' },
      { code: 'field-dropped', detail: 'generation_config.speech_config' },
    ])
  })
})

describe('tools', () => {
  it('TI-14: keep every declaration, with lower-case JSON Schema from either field', () => {
    const call = accepted({
      tools: [
        {
          functionDeclarations: [
            {
              name: 'list_directory',
              parameters: {
                type: 'OBJECT',
                properties: {
                  path: { type: 'STRING' },
                  n: { type: 'INTEGER', nullable: true },
                  ignore: { type: 'ARRAY', items: { type: 'STRING' } },
                  kind: { type: 'STRING', enum: ['STRING'] },
                },
                required: ['path'],
              },
            },
            {
              name: 'edit',
              parametersJsonSchema: { $schema: 'x', type: 'object', properties: { type: { type: 'string' } } },
            },
            { name: 'noargs' },
          ],
        },
        { googleSearch: {} },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['edit'] } },
    })
    expect(call.request.tools).toEqual([
      {
        type: 'function',
        function: {
          name: 'list_directory',
          parameters: {
            type: 'object',
            properties: {
              path: { type: 'string' },
              n: { type: ['integer', 'null'] },
              ignore: { type: 'array', items: { type: 'string' } },
              kind: { type: 'string', enum: ['STRING'] },
            },
            required: ['path'],
          },
        },
      },
      {
        type: 'function',
        function: { name: 'edit', parameters: { $schema: 'x', type: 'object', properties: { type: { type: 'string' } } } },
      },
      { type: 'function', function: { name: 'noargs', parameters: { type: 'object', properties: {} } } },
    ])
    expect(call.request.parameters).toEqual({ tool_choice: { type: 'function', function: { name: 'edit' } } })
    expect(call.diagnostics).toEqual([{ code: 'tool-dropped', detail: 'tools[1].googleSearch: no engine here runs it' }])
  })

  it.each([
    [{ type: ['STRING', 'NULL'] }, { type: ['string', 'null'] }],
    [{ type: 'TYPE_UNSPECIFIED', description: 'any' }, { description: 'any' }],
    [
      { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }], nullable: true },
      { anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'null' }] },
    ],
    [{ any_of: [{ type: 'STRING' }] }, { anyOf: [{ type: 'string' }] }],
    [
      { type: 'ARRAY', minItems: '1', max_items: '3', items: { type: 'BOOLEAN', nullable: false } },
      { type: 'array', minItems: 1, maxItems: 3, items: { type: 'boolean' } },
    ],
    [{ type: ['string', 'null'], nullable: true }, { type: ['string', 'null'] }],
    [
      { type: 'OBJECT', properties: { nullable: { type: 'BOOLEAN' }, items: { type: 'STRING' }, enum: { type: 'ARRAY' } } },
      { type: 'object', properties: { nullable: { type: 'boolean' }, items: { type: 'string' }, enum: { type: 'array' } } },
    ],
    [
      { type: 'OBJECT', example: { type: 'STRING' }, default: { type: 'OBJECT' }, enum: [{ type: 'STRING' }] },
      { type: 'object', example: { type: 'STRING' }, default: { type: 'OBJECT' }, enum: [{ type: 'STRING' }] },
    ],
    [
      { type: 'OBJECT', $defs: { type: { type: 'STRING' } }, additionalProperties: { type: 'STRING' }, not: { type: 'NULL' } },
      { type: 'object', $defs: { type: { type: 'string' } }, additionalProperties: { type: 'string' }, not: { type: 'null' } },
    ],
    [
      { type: 'OBJECT', additionalProperties: false },
      { type: 'object', additionalProperties: false },
    ],
    [
      { type: 'OBJECT', example: { a: { type: 'STRING' } }, description: '12', minProperties: 'many', properties: 'none' },
      { type: 'object', example: { a: { type: 'STRING' } }, description: '12', minProperties: 'many', properties: 'none' },
    ],
    [{}, { type: 'object', properties: {} }],
  ])('have types lowered only where they are types: %j', (parameters, schema) => {
    for (const field of ['parameters', 'parametersJsonSchema', 'parameters_json_schema']) {
      const call = accepted({ tools: [{ function_declarations: [{ name: 'f', [field]: parameters }] }] })
      expect(call.request.tools).toEqual([{ type: 'function', function: { name: 'f', parameters: schema } }])
    }
  })

  const schemaOf = (parameters: object) =>
    accepted({ tools: [{ functionDeclarations: [{ name: 'f', parameters }] }] }).request.tools?.[0]?.function.parameters

  it.each(
    (
      'items prefixItems anyOf oneOf allOf not if then else contains propertyNames additionalItems additionalProperties ' +
      'unevaluatedItems unevaluatedProperties'
    ).split(' '),
  )('have types lowered in the schemas under %s', (keyword) => {
    expect(schemaOf({ [keyword]: { type: 'STRING' } })).toEqual({ [keyword]: { type: 'string' } })
    expect(schemaOf({ [keyword]: [{ type: 'STRING' }, true] })).toEqual({ [keyword]: [{ type: 'string' }, true] })
  })

  it.each('properties patternProperties dependentSchemas $defs definitions defs'.split(' '))(
    'have types lowered in the schemas of the names under %s',
    (keyword) => {
      expect(schemaOf({ [keyword]: { type: { type: 'STRING' } } })).toEqual({ [keyword]: { type: { type: 'string' } } })
    },
  )

  it.each([
    ['min_items', 'minItems'],
    ['max_items', 'maxItems'],
    ['min_length', 'minLength'],
    ['max_length', 'maxLength'],
    ['min_properties', 'minProperties'],
    ['max_properties', 'maxProperties'],
  ])('have their counts as numbers, in either spelling: %s, %s', (snake, camel) => {
    for (const name of [snake, camel]) expect(schemaOf({ [name]: '123456789012345' })).toEqual({ [camel]: 123_456_789_012_345 })
    expect(schemaOf({ [camel]: '1234567890123456' })).toEqual({ [camel]: '1234567890123456' })
    expect(schemaOf({ property_ordering: ['a'] })).toEqual({ propertyOrdering: ['a'] })
  })

  it('of several entries become one list, and none at all is no list', () => {
    const call = accepted({
      tools: [
        { functionDeclarations: [{ name: 'a' }], codeExecution: {} },
        { functionDeclarations: [{ name: 'b', response: {}, behavior: 'BLOCKING' }] },
      ],
    })
    expect(call.request.tools?.map((tool) => tool.function.name)).toEqual(['a', 'b'])
    expect(call.diagnostics.map(({ code, detail }) => `${code} ${detail.split(':')[0]}`)).toEqual([
      'tool-dropped tools[0].codeExecution',
      'field-dropped tools[1].functionDeclarations[0].response',
      'field-dropped tools[1].functionDeclarations[0].behavior',
    ])
    for (const empty of [[], [{}], [{ functionDeclarations: [] }], [{ urlContext: {} }]])
      expect(accepted({ tools: empty }).request.tools).toBeNull()
  })

  it.each([
    { config: { mode: 'AUTO' }, sent: {} },
    { config: {}, sent: {} },
    { config: { mode: 'MODE_UNSPECIFIED' }, sent: {} },
    { config: { mode: 'VALIDATED' }, sent: {} },
    { config: { mode: 'NONE' }, sent: { tool_choice: 'none' } },
    { config: { mode: 'any' }, sent: { tool_choice: 'required' } },
    { config: { mode: 'ANY', allowedFunctionNames: [] }, sent: { tool_choice: 'required' } },
    {
      config: { mode: 'ANY', allowed_function_names: ['f'] },
      sent: { tool_choice: { type: 'function', function: { name: 'f' } } },
    },
  ])('are chosen as $config says', ({ config, sent }) => {
    const call = accepted(calling(config))
    expect(call.request.parameters).toEqual(sent)
    expect(call.diagnostics).toEqual([])
    const isForced = 'tool_choice' in sent && sent.tool_choice !== 'none'
    expect(read(calling(config), 'train').ok).toBe(!isForced)
    if (isForced) {
      const param = 'toolConfig.functionCallingConfig.mode'
      expect(read(calling(config), 'train')).toMatchObject({ failure: { code: 'constrained-decoding', param } })
    }
  })

  it('are forced in no way that has no tools', () => {
    for (const mode of ['ANY', 'NONE']) {
      const call = accepted({ toolConfig: { functionCallingConfig: { mode } } }, 'train')
      expect(call.request.parameters).toEqual({})
    }
  })

  it.each([
    { mode: 'ANY', allowed: ['a', 'c'], shown: ['a', 'c'], sent: { tool_choice: 'required' }, notes: [] },
    { mode: 'VALIDATED', allowed: ['b'], shown: ['b'], sent: {}, notes: [] },
    {
      mode: 'AUTO',
      allowed: ['a'],
      shown: ['a', 'b', 'c'],
      sent: {},
      notes: [{ code: 'field-dropped', detail: 'toolConfig.functionCallingConfig.allowedFunctionNames' }],
    },
  ])('are shown as far as they are allowed: $mode of $allowed', ({ mode, allowed, shown, sent, notes }) => {
    const three = [{ functionDeclarations: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] }]
    const call = accepted({ tools: three, toolConfig: { functionCallingConfig: { mode, allowedFunctionNames: allowed } } })
    expect(call.request.tools?.map((each) => each.function.name)).toEqual(shown)
    expect(call.request.parameters).toEqual(sent)
    expect(call.diagnostics).toEqual(notes)
  })

  it('keep a note of what else is said of them', () => {
    const call = accepted({ tools, toolConfig: { retrievalConfig: {}, functionCallingConfig: { streamFunctionCallArguments: true } } })
    expect(call.diagnostics).toEqual([
      { code: 'field-dropped', detail: 'toolConfig.retrievalConfig' },
      { code: 'field-dropped', detail: 'toolConfig.functionCallingConfig.streamFunctionCallArguments' },
    ])
  })
})

describe('refused in the terms of the caller', () => {
  it.each([
    { body: { contents: undefined }, param: 'contents' },
    { body: { contents: [] }, param: 'contents' },
    { body: { contents: 7 }, param: 'contents' },
    { body: { contents: [{ parts: { a: 1 } }] }, param: 'contents' },
    { body: { contents: [7] }, param: 'contents[0]' },
    { body: { contents: [{ role: 'user' }] }, param: 'contents[0].parts' },
    { body: { contents: [{ role: 'assistant', parts: [{ text: 'x' }] }] }, param: 'contents[0].role' },
    { body: { contents: [{ parts: [{ text: 7 }] }] }, param: 'contents[0].parts[0].text' },
    { body: { contents: [{ parts: [7] }] }, param: 'contents[0].parts[0]' },
    { body: { contents: [{ parts: [{ thought: 'yes' }] }] }, param: 'contents[0].parts[0].thought' },
    {
      body: { contents: [{ parts: [{ inline_data: { mime_type: 'audio/wav', data: 'x' } }] }] },
      param: 'contents[0].parts[0].inline_data.mime_type',
    },
    {
      body: { contents: [{ parts: [{ inlineData: { mimeType: 'application/pdf', data: 'x' } }] }] },
      param: 'contents[0].parts[0].inlineData.mimeType',
    },
    { body: { contents: [{ parts: [{ inlineData: { data: 'x' } }] }] }, param: 'contents[0].parts[0].inlineData.mimeType' },
    { body: { contents: [{ parts: [{ inlineData: { mimeType: 'image/png' } }] }] }, param: 'contents[0].parts[0].inlineData.data' },
    { body: { contents: [{ parts: [{ fileData: { fileUri: 'https://a/b.mp4' } }] }] }, param: 'contents[0].parts[0].fileData.mimeType' },
    {
      body: { contents: [{ parts: [{ fileData: { mimeType: 'application/pdf', fileUri: 'https://a/b.png' } }] }] },
      param: 'contents[0].parts[0].fileData.mimeType',
    },
    {
      body: { contents: [{ parts: [{ fileData: { mimeType: 'video/mp4', fileUri: 'https://a/b' } }] }] },
      param: 'contents[0].parts[0].fileData.mimeType',
    },
    { body: { contents: [{ parts: [{ functionCall: { name: 'f' } }] }] }, param: 'contents[0].parts[0]' },
    { body: { contents: [{ role: 'model', parts: [{ functionCall: { args: {} } }] }] }, param: 'contents[0].parts[0].functionCall.name' },
    {
      body: { contents: [{ role: 'model', parts: [{ functionCall: { name: 'f', args: [] } }] }] },
      param: 'contents[0].parts[0].functionCall.args',
    },
    {
      body: { contents: [{ role: 'model', parts: [{ functionResponse: { name: 'f' } }] }] },
      param: 'contents[0].parts[0].functionResponse',
    },
    {
      body: { contents: [{ role: 'model', parts: [{ inlineData: { mimeType: 'image/png', data: 'x' } }] }] },
      param: 'contents[0].parts[0]',
    },
    { body: { contents: [{ parts: [{ functionResponse: { response: {} } }] }] }, param: 'contents[0].parts[0].functionResponse.name' },
    {
      body: { contents: [{ parts: [{ functionResponse: { name: 'f', parts: [{ inlineData: { mimeType: 'video/mp4', data: 'x' } }] } }] }] },
      param: 'contents[0].parts[0].functionResponse.parts[0].inlineData.mimeType',
    },
    { body: { systemInstruction: 7 }, param: 'systemInstruction' },
    { body: { system_instruction: { parts: [{ text: 7 }] } }, param: 'system_instruction.parts[0].text' },
    { body: { generationConfig: 7 }, param: 'generationConfig' },
    { body: { config: 7 }, param: 'config' },
    { body: { generationConfig: { candidateCount: 2 } }, param: 'generationConfig.candidateCount' },
    { body: { generation_config: { candidate_count: 2 } }, param: 'generation_config.candidate_count' },
    { body: { generationConfig: { maxOutputTokens: 0 } }, param: 'generationConfig.maxOutputTokens' },
    { body: { generationConfig: { maxOutputTokens: 1.5 } }, param: 'generationConfig.maxOutputTokens' },
    { body: { config: { temperature: '0.5' } }, param: 'config.temperature' },
    { body: { generationConfig: { stopSequences: ['a', 1] } }, param: 'generationConfig.stopSequences[1]' },
    { body: { generationConfig: { responseLogprobs: 1 } }, param: 'generationConfig.responseLogprobs' },
    { body: { generationConfig: { responseMimeType: 'text/x.enum' } }, param: 'generationConfig.responseMimeType' },
    { body: { generationConfig: { responseSchema: 'x' } }, param: 'generationConfig.responseSchema' },
    { body: { generationConfig: { responseFormat: [{ image: {} }] } }, param: 'generationConfig.responseFormat[0]' },
    { body: { generationConfig: { thinkingConfig: { thinkingLevel: 3 } } }, param: 'generationConfig.thinkingConfig.thinkingLevel' },
    { body: { cachedContent: 'cachedContents/1' }, param: 'cachedContent' },
    { body: { config: { cached_content: 'c' } }, param: 'config.cached_content' },
    { body: { tools: 'x' }, param: 'tools' },
    { body: { tools: [{ functionDeclarations: [{}] }] }, param: 'tools[0].functionDeclarations[0].name' },
    { body: { tools: [{ functionDeclarations: [{ name: 'f', parameters: 'x' }] }] }, param: 'tools[0].functionDeclarations[0].parameters' },
    { body: { tools: { function_declarations: 7 } }, param: 'tools[0].function_declarations' },
    { body: calling({ mode: 'SOMETIMES' }), param: 'toolConfig.functionCallingConfig.mode' },
    { body: calling({ mode: 'ANY', allowedFunctionNames: ['g'] }), param: 'toolConfig.functionCallingConfig.allowedFunctionNames' },
  ])('$param: $body', ({ body, param }) => {
    const result = read(body)
    if (result.ok) throw new Error('accepted')
    expect(result.failure).toMatchObject({ code: 'invalid-request', status: 400, param })
    expect(result.failure.message.startsWith(`${param}: `)).toBe(true)
  })

  it.each([
    [{ topK: 1.5 }, 'generationConfig.topK: expected an integer, got 1.5'],
    [{ topP: 'x' }, 'generationConfig.topP: expected a number, got a string'],
    [{ topP: true }, 'generationConfig.topP: expected a number, got a boolean'],
  ])('with what was expected and what stood there: %j', (generationConfig, message) => {
    expect(read({ generationConfig })).toMatchObject({ ok: false, failure: { message } })
  })

  it('the model, when neither the URL nor the body names it', () => {
    const url = { model: null, form: 'plain' } as const
    expect(google.read({ contents: [hi] }, { tier: 'eval', pins: {}, url })).toMatchObject({ ok: false, failure: { param: 'model' } })
    expect(google.read({ contents: [hi], model: 'b' }, { tier: 'eval', pins: {}, url })).toMatchObject({ call: { modelRequested: 'b' } })
  })

  it('and never throws, whatever JSON comes', () => {
    const names =
      'contents role parts text thought thoughtSignature functionCall functionResponse inlineData fileData id name args response systemInstruction ' +
      'tools functionDeclarations parameters toolConfig functionCallingConfig mode allowedFunctionNames generationConfig config thinkingConfig ' +
      'responseSchema responseFormat stopSequences mimeType data fileUri __proto__ constructor'
    const key = fc.constantFrom(...names.split(' '))
    const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 7, depthSize: 'large' },
        fc.oneof(fc.constantFrom('user', 'model', 'system', 'ANY', 'image/png', 'OBJECT', ''), fc.jsonValue({ maxDepth: 1 })),
        fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
        fc.array(tie('tree'), { maxLength: 3 }),
      ),
    }))
    fc.assert(
      fc.property(fc.dictionary(key, tree), fc.constantFrom('train', 'eval'), (given, tier) => {
        const body: JsonObject = JSON.parse(JSON.stringify(given))
        const context = { tier, pins: {}, url: { model: 'm', form: 'events' } } as const
        const results = [google.read(body, context), google.readCount(body, context)]
        for (const result of results) {
          if (result.ok) continue
          expect(result.failure.status).toBe(400)
          expect(result.failure.message).toMatch(/^[^ ]+: .|not allowed/)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('a count', () => {
  const context = { tier: 'eval', pins: {}, url: { model: 'm', form: null } } as const
  it('is of contents, or of a whole request', () => {
    const whole = { contents: [hi], systemInstruction: 'S', tools }
    const expected = {
      messages: [
        { role: 'system', content: 'S' },
        { role: 'user', content: 'hi' },
      ],
      tools: accepted(whole).request.tools,
      parameters: {},
    }
    for (const body of [whole, { generateContentRequest: { model: 'models/m', ...whole } }, { generate_content_request: whole }]) {
      expect(google.readCount(body, context)).toEqual({ ok: true, countable: { kind: 'messages', request: expected } })
    }
    expect(google.readCount({}, context)).toMatchObject({ ok: false, failure: { param: 'contents' } })
    expect(JSON.parse(google.tokenCount(7, { id: 'm', createdSeconds: 0, maxModelLen: null }))).toEqual({ totalTokens: 7 })
  })
})

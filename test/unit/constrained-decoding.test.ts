// What would keep tokens out of the model's reach, in the words of every dialect: refused in training, once and for good; served in an evaluation.
import { describe, expect, it } from 'vitest'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { Dialect } from '../../src/proxy/dialects/dialect.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } } }
const PARAMETERS = { name: 'look', description: 'looks', parameters: SCHEMA }

type Way = { readonly dialect: Dialect; readonly body: JsonObject }
const CHAT: Way = {
  dialect: openaiChat,
  body: { model: 'm', messages: [{ role: 'user', content: 'hi' }], tools: [{ type: 'function', function: PARAMETERS }] },
}
const RESPONSES: Way = { dialect: openaiResponses, body: { model: 'm', input: 'hi', tools: [{ type: 'function', ...PARAMETERS }] } }
const MESSAGES: Way = {
  dialect: anthropic,
  body: { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }], tools: [{ name: 'look', input_schema: SCHEMA }] },
}
const GOOGLE: Way = {
  dialect: google,
  body: { contents: [{ role: 'user', parts: [{ text: 'hi' }] }], tools: [{ functionDeclarations: [PARAMETERS] }] },
}

const read = ({ dialect, body }: Way, more: JsonObject, tier: 'train' | 'eval') =>
  dialect.read({ ...body, ...more }, { tier, pins: {}, url: { model: 'm', form: null } })

const FORMAT = { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA } }
const named = { type: 'function', function: { name: 'look' } }

/** The engines' own words, which an OpenAI client sends beside the vendor's. */
const ENGINES: JsonObject = {
  logit_bias: { 5: -100 },
  guided_json: SCHEMA,
  guided_regex: 'a+',
  guided_choice: ['a', 'b'],
  guided_grammar: 'root ::= "a"',
  structured_outputs: { json: SCHEMA },
  regex: 'a+',
  ebnf: 'root ::= "a"',
  json_schema: '{}',
  allowed_token_ids: [1, 2],
  bad_words: ['no'],
  min_tokens: 5,
  ignore_eos: true,
}
const ofEngines = (way: Way) => Object.entries(ENGINES).map(([name, value]): [Way, JsonObject, string] => [way, { [name]: value }, name])

const REFUSED: readonly (readonly [Way, JsonObject, string])[] = [
  [CHAT, { response_format: FORMAT }, 'response_format'],
  [CHAT, { response_format: { type: 'json_object' } }, 'response_format'],
  [CHAT, { tool_choice: 'required' }, 'tool_choice'],
  [CHAT, { tool_choice: named }, 'tool_choice'],
  ...ofEngines(CHAT),
  [RESPONSES, { text: { format: { type: 'json_schema', name: 'x', schema: SCHEMA } } }, 'text.format'],
  [RESPONSES, { text: { format: { type: 'json_object' } } }, 'text.format'],
  [RESPONSES, { tool_choice: 'required' }, 'tool_choice'],
  [RESPONSES, { tool_choice: { type: 'function', name: 'look' } }, 'tool_choice'],
  [RESPONSES, { tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'look' }] } }, 'tool_choice'],
  ...ofEngines(RESPONSES),
  [MESSAGES, { output_config: { format: { type: 'json_schema', schema: SCHEMA } } }, 'output_config.format'],
  [MESSAGES, { output_format: { type: 'json_schema', schema: SCHEMA } }, 'output_format'],
  [MESSAGES, { tool_choice: { type: 'any' } }, 'tool_choice'],
  [MESSAGES, { tool_choice: { type: 'tool', name: 'look' } }, 'tool_choice'],
  [GOOGLE, { generationConfig: { responseMimeType: 'application/json' } }, 'generationConfig.responseMimeType'],
  [GOOGLE, { generationConfig: { responseMimeType: 'application/json', responseSchema: SCHEMA } }, 'generationConfig.responseSchema'],
  [
    GOOGLE,
    { generationConfig: { responseMimeType: 'application/json', responseJsonSchema: SCHEMA } },
    'generationConfig.responseJsonSchema',
  ],
  [
    GOOGLE,
    { generationConfig: { responseFormat: [{ text: { mimeType: 'application/json', schema: SCHEMA } }] } },
    'generationConfig.responseFormat[0].text.schema',
  ],
  [GOOGLE, { toolConfig: { functionCallingConfig: { mode: 'ANY' } } }, 'toolConfig.functionCallingConfig.mode'],
  [
    GOOGLE,
    { toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look'] } } },
    'toolConfig.functionCallingConfig.mode',
  ],
]

const GRAMMAR = { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' } }
const FREE: readonly (readonly [Way, JsonObject])[] = [
  [CHAT, { response_format: { type: 'text' }, tool_choice: 'auto', logit_bias: {}, guided_choice: [] }],
  [CHAT, { response_format: null, tool_choice: 'none', min_tokens: 0, ignore_eos: false }],
  [CHAT, { tools: [{ type: 'function', function: { ...PARAMETERS, strict: true } }] }],
  [RESPONSES, { text: { format: { type: 'text' }, verbosity: 'low' }, tool_choice: 'auto' }],
  [RESPONSES, { tools: [GRAMMAR] }],
  [RESPONSES, { tools: [{ type: 'function', ...PARAMETERS, strict: true }] }],
  [MESSAGES, { output_config: { effort: 'high' }, tool_choice: { type: 'auto' } }],
  [MESSAGES, { tools: [{ name: 'look', input_schema: SCHEMA, strict: true }], tool_choice: { type: 'none' } }],
  [GOOGLE, { generationConfig: { responseMimeType: 'text/plain' }, toolConfig: { functionCallingConfig: { mode: 'AUTO' } } }],
  [GOOGLE, { toolConfig: { functionCallingConfig: { mode: 'VALIDATED' } } }],
]

const title = ({ dialect }: Way, more: JsonObject): string => `${dialect.name} ${JSON.stringify(more)}`
const refused = REFUSED.map(([way, more, place]) => [title(way, more), way, more, place] as const)
const free = FREE.map(([way, more]) => [title(way, more), way, more] as const)

describe('constrained decoding', () => {
  it.each(refused)('is refused in training by the name the client gave it: %s', (_, way, more, place) => {
    const asked = read(way, more, 'train')
    if (asked.ok) throw new Error('it was taken')
    expect(asked.failure).toMatchObject({ code: 'constrained-decoding', status: 400, isFinal: true, retryAfterMs: null })
    expect([asked.failure.param, asked.failure.message]).toEqual([
      place,
      expect.stringContaining(`${place} is not allowed in a training session`),
    ])
    // Claude Code asks five times more after a 400 that does not say this.
    const reply = way.dialect.failure(asked.failure)
    expect([reply.status, reply.headers['x-should-retry'], reply.headers['retry-after']]).toEqual([400, 'false', undefined])
  })

  it.each(refused)('is served in an evaluation: %s', (_, way, more) => {
    expect(read(way, more, 'eval')).toMatchObject({ ok: true })
  })

  it.each(free)('is not what this is, and no engine is told to do it: %s', (_, way, more) => {
    const asked = read(way, more, 'train')
    if (!asked.ok) throw new Error(asked.failure.message)
    const told = JSON.stringify(asked.call.request)
    expect(told).not.toMatch(/response_format|guided|logit_bias|"tool_choice":("required"|\{)|"strict"/)
  })
})

// What no client gets through any dialect: addresses that an inference server would fetch, and words that would stand for the gateway's own.
import { describe, expect, it } from 'vitest'
import { anthropic } from '../../src/proxy/dialects/anthropic/dialect.ts'
import type { Dialect } from '../../src/proxy/dialects/dialect.ts'
import { google } from '../../src/proxy/dialects/google/dialect.ts'
import { openaiChat } from '../../src/proxy/dialects/openai-chat/dialect.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

const URL_WISHES = { model: null, form: null }
const CONTEXT = { pins: {}, url: URL_WISHES }

function read(dialect: Dialect, body: JsonObject, tier: 'train' | 'eval' = 'train') {
  return dialect.read({ model: 'm', ...body }, { ...CONTEXT, tier })
}

function refusal(dialect: Dialect, body: JsonObject, tier: 'train' | 'eval' = 'train') {
  const result = read(dialect, body, tier)
  return result.ok ? result.call : { code: result.failure.code, param: result.failure.param }
}

const said = (text: unknown): JsonObject => ({ messages: [{ role: 'user', content: text }] })

type Showing = { readonly name: string; readonly dialect: Dialect; readonly body: (url: string) => JsonObject; readonly param: string }

const SHOWING: readonly Showing[] = [
  {
    name: 'chat',
    dialect: openaiChat,
    body: (url) => said([{ type: 'image_url', image_url: { url } }]),
    param: 'messages[0].content[0].image_url.url',
  },
  {
    name: 'chat, in one field',
    dialect: openaiChat,
    body: (url) => said([{ type: 'image_url', image_url: url }]),
    param: 'messages[0].content[0].image_url',
  },
  {
    name: 'chat, in a result',
    dialect: openaiChat,
    body: (url) => ({
      messages: [
        { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
        { role: 'tool', tool_call_id: 'c', content: [{ type: 'image_url', image_url: { url } }] },
      ],
    }),
    param: 'messages[1].content[0].image_url.url',
  },
  {
    name: 'responses',
    dialect: openaiResponses,
    body: (url) => ({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }] }),
    param: 'input[0].content[0].image_url',
  },
  {
    name: 'anthropic',
    dialect: anthropic,
    body: (url) => ({ max_tokens: 9, ...said([{ type: 'image', source: { type: 'url', url } }]) }),
    param: 'messages[0].content[0].source.url',
  },
  {
    name: 'google',
    dialect: google,
    body: (url) => ({ contents: [{ parts: [{ fileData: { mimeType: 'image/png', fileUri: url } }] }] }),
    param: 'contents[0].parts[0].fileData.fileUri',
  },
]

describe.each(SHOWING)('an image of $name', ({ dialect, body, param }) => {
  it.each([
    'http://169.254.169.254/latest/meta-data/',
    'https://images.example/a.png',
    'file:///etc/passwd',
    '/etc/ssl/private/a.png',
    'gs://bucket/a.png',
    'data:text/html;base64,AAAA',
    'data:image/png,AAAA',
    'data:,http://127.0.0.1/a.png',
    ' data:image/png;base64,AAAA',
    'blob:a',
  ])('is not fetched from %s, in no session', (url) => {
    expect(refusal(dialect, body(url), 'train')).toEqual({ code: 'invalid-request', param })
    expect(refusal(dialect, body(url), 'eval')).toEqual({ code: 'invalid-request', param })
  })

  it('is given with its bytes', () => {
    const result = read(dialect, body('data:image/svg+xml;base64,AAAA'))
    const sent = result.ok ? JSON.stringify(result.call.request.messages) : result.failure.message
    expect(sent).toContain('{"type":"image_url","image_url":{"url":"data:image/svg+xml;base64,AAAA"}}')
  })
})

describe('bytes that come with a type', () => {
  it.each<{ name: string; dialect: Dialect; body: (type: string) => JsonObject; param: string }>([
    {
      name: 'anthropic',
      dialect: anthropic,
      body: (media_type) => ({ max_tokens: 9, ...said([{ type: 'image', source: { type: 'base64', media_type, data: 'AAAA' } }]) }),
      param: 'messages[0].content[0].source.media_type',
    },
    {
      name: 'google',
      dialect: google,
      body: (mimeType) => ({ contents: [{ parts: [{ inlineData: { mimeType, data: 'AAAA' } }] }] }),
      param: 'contents[0].parts[0].inlineData.mimeType',
    },
  ])('of $name are an image or refused', ({ dialect, body, param }) => {
    for (const type of ['text/html', 'video/mp4', 'image/', 'image/png,http://x/', 'image/png\n']) {
      expect(refusal(dialect, body(type))).toEqual({ code: 'invalid-request', param })
    }
    expect(read(dialect, body('image/png')).ok).toBe(true)
  })
})

describe('a part of chat completions', () => {
  it.each([
    { type: 'video_url', video_url: { url: 'http://127.0.0.1/' } },
    { type: 'audio_url', audio_url: { url: 'http://127.0.0.1/' } },
    { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
    { type: 'file', file: { file_id: 'f' } },
    { type: 'image_embeds', image_embeds: 'AAAA' },
    { type: 'image_pil', image_pil: 'x' },
    { type: 'image_file', image_file: '/etc/passwd' },
  ])('of type $type, which engines load by themselves, is refused', (part) => {
    expect(refusal(openaiChat, said([part]), 'eval')).toEqual({ code: 'invalid-request', param: 'messages[0].content[0].type' })
  })

  it('names nothing that an engine keeps for all sessions', () => {
    const url = 'data:image/png;base64,AAAA'
    const result = read(openaiChat, said([{ type: 'image_url', image_url: { url, detail: 'low', uuid: 'a' }, uuid: 'b' }]))
    expect(result).toMatchObject({
      ok: true,
      call: {
        request: { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url, detail: 'low' } }] }] },
        diagnostics: [
          { code: 'field-dropped', detail: 'messages[0].content[0].uuid' },
          { code: 'field-dropped', detail: 'messages[0].content[0].image_url.uuid' },
        ],
      },
    })
    expect(result.ok && result.call.request.messages[0]?.content).toEqual([{ type: 'image_url', image_url: { url, detail: 'low' } }])
  })
})

describe.each([
  { name: 'chat', dialect: openaiChat, body: said('q') },
  { name: 'responses', dialect: openaiResponses, body: { input: 'q' } },
])('$name, whose clients may speak to the engine,', ({ dialect, body }) => {
  it.each([
    'chat_template',
    'messages',
    'conversation',
    'tools',
    'documents',
    'add_generation_prompt',
    'continue_final_message',
    'tokenize',
    'bos_token',
    'eos_token',
  ])('cannot put %s under the chat template', (name) => {
    for (const tier of ['train', 'eval'] as const) {
      const failure = refusal(dialect, { ...body, chat_template_kwargs: { enable_thinking: true, [name]: '{{ 1 }}' } }, tier)
      expect(failure).toEqual({ code: 'invalid-request', param: `chat_template_kwargs.${name}` })
    }
  })

  it.each([
    ['min_tokens', 1, 'constrained-decoding'],
    ['ignore_eos', true, 'constrained-decoding'],
    ['continue_final_message', true, 'invalid-request'],
    ['add_generation_prompt', false, 'invalid-request'],
  ])('cannot train on what %s makes of an answer', (name, value, code) => {
    expect(refusal(dialect, { ...body, [name]: value })).toEqual({ code, param: name })
    expect(read(dialect, { ...body, [name]: value }, 'eval')).toMatchObject({
      ok: true,
      call: { request: { parameters: { [name]: value } } },
    })
  })

  it.each([
    ['min_tokens', 0],
    ['ignore_eos', false],
    ['continue_final_message', false],
    ['add_generation_prompt', true],
    ['stop', Array.from({ length: 64 }, (_, index) => `s${index}`)],
    ['chat_template_kwargs', { enable_thinking: false, preserve_thinking: true, thinking_budget: 5 }],
    ['cache_salt', 's'],
  ])('may say %s, which changes nothing of it', (name, value) => {
    expect(read(dialect, { ...body, [name]: value })).toMatchObject({ ok: true, call: { request: { parameters: { [name]: value } } } })
  })

  it('may stop an answer by so many strings and no more: each costs the engine a search per token', () => {
    const stop = Array.from({ length: 65 }, (_, index) => `s${index}`)
    expect(refusal(dialect, { ...body, stop }, 'eval')).toEqual({ code: 'invalid-request', param: 'stop' })
  })

  it.each([
    ['vllm_xargs', { kv_transfer_params: { remote_host: '169.254.169.254' } }],
    ['kv_transfer_params', { do_remote_prefill: true }],
    ['priority', -1],
    ['lora_path', '/etc'],
    ['lora_request', { lora_path: '/etc' }],
    ['mm_processor_kwargs', { trust_remote_code: true }],
    ['chat_template', '{{ 1 }}'],
    ['documents', [{ text: 'd' }]],
    ['echo', true],
    ['prompt_logprobs', 5],
    ['prompt_embeds', 'AAAA'],
    ['input_ids', [1]],
    ['custom_logit_processor', 'x'],
    ['custom_params', { a: 1 }],
    ['rid', 'another'],
    ['session_params', { id: 's' }],
    ['bootstrap_host', '127.0.0.1'],
    ['data_parallel_rank', 1],
    ['best_of', 2],
    ['use_beam_search', true],
    ['return_hidden_states', true],
    ['truncate_prompt_tokens', 5],
    ['logits_processors', ['x']],
    ['request_id', 'r'],
  ])('sends no %s', (name, value) => {
    const result = read(dialect, { ...body, [name]: value })
    expect(result).toMatchObject({ ok: true, call: { diagnostics: [{ code: 'field-dropped', detail: name }] } })
    expect(result.ok && JSON.stringify(result.call.request)).not.toContain(name)
  })
})

describe.each([
  { name: 'anthropic', dialect: anthropic, body: { max_tokens: 9, ...said('q') } },
  { name: 'google', dialect: google, body: { contents: 'q' } },
])('$name, whose clients know no engine,', ({ dialect, body }) => {
  it.each([
    ['chat_template_kwargs', { chat_template: '{{ 1 }}' }],
    ['continue_final_message', true],
    ['min_tokens', 5],
    ['vllm_xargs', { a: 1 }],
    ['logit_bias', { 1: 100 }],
    ['regex', 'a'],
    ['stop_token_ids', [1]],
    ['messages_override', 'x'],
  ])('sends no %s', (name, value) => {
    const result = read(dialect, { ...body, [name]: value })
    expect(result).toMatchObject({ ok: true, call: { diagnostics: [{ code: 'field-dropped', detail: name }] } })
    expect(result.ok && JSON.stringify(result.call.request)).not.toContain(name)
  })
})

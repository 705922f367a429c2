// OpenAI Responses answers: the plain object, the stream that says the same, and how failures are told before and after the head.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ChatAnswer } from '../../src/proxy/chat.ts'
import { openaiResponses } from '../../src/proxy/dialects/openai-responses/dialect.ts'
import { signatureOf } from '../../src/proxy/dialects/signature.ts'
import { type FailureCode, failure } from '../../src/proxy/failure.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { answer, CALL, call, eventsOf, formOf, IDENTITY, SAMPLES, type StreamEvent, streamOf, TOOLS } from '../lib/responses-fixture.ts'

const plainOf = (sample: ChatAnswer, body: JsonObject = { tools: TOOLS }) => JSON.parse(formOf(body).plain(sample, IDENTITY))

/** TO-01's own answer. */
const TURN = answer({
  reasoning_content: 'think',
  content: 'text',
  tool_calls: [call('call_a', '{"cmd":"ls"}', 'shell'), call('call_b', '{}', 'shell')],
})
const SHELL = { tools: [{ type: 'function', name: 'shell', parameters: { type: 'object' } }] }

describe('a plain answer', () => {
  it('has every field of the vendor, and numbers and objects where clients index', () => {
    expect(plainOf(SAMPLES[10] ?? TURN, {})).toEqual({
      id: `resp_${CALL}`,
      object: 'response',
      created_at: 1_700_000_000,
      status: 'completed',
      background: false,
      error: null,
      incomplete_details: null,
      instructions: null,
      model: 'gpt-asked',
      output: [
        {
          id: `msg_${CALL}_0`,
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', annotations: [], logprobs: [], text: 'x' }],
        },
      ],
      max_output_tokens: null,
      metadata: {},
      parallel_tool_calls: true,
      previous_response_id: null,
      reasoning: { effort: null, summary: null },
      temperature: null,
      tool_choice: 'auto',
      top_p: null,
      access_programs: null,
      service_tier: 'default',
      store: false,
      text: { format: { type: 'text' } },
      tools: [],
      truncation: 'disabled',
      usage: {
        input_tokens: 1,
        input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
        output_tokens: 2,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 3,
      },
    })
  })

  it('repeats no metadata that is no text', () => {
    expect(plainOf(TURN, { metadata: { a: 'b', c: 0, d: null, e: ['f'] } }).metadata).toEqual({ a: 'b' })
  })

  it('repeats what the request asked for, and the usage as it was', () => {
    const asked = {
      max_output_tokens: 9,
      metadata: { a: 'b' },
      parallel_tool_calls: false,
      temperature: 0.5,
      top_p: 0.9,
      tool_choice: 'none',
      reasoning: { effort: 'low', summary: 'auto' },
    }
    expect(plainOf(TURN, asked)).toMatchObject(asked)
    expect(plainOf(TURN).usage).toEqual({
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 6, cache_write_tokens: 0 },
      output_tokens: 4,
      output_tokens_details: { reasoning_tokens: 2 },
      total_tokens: 14,
    })
  })

  it('signs its reasoning with the call it came from', () => {
    expect(plainOf(TURN).output[0]).toEqual({
      id: `rs_${CALL}_0`,
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'think' }],
      encrypted_content: signatureOf(CALL),
    })
  })

  it.each([
    { finishReason: 'length', reason: 'max_output_tokens' },
    { finishReason: 'content_filter', reason: 'content_filter' },
  ] as const)('that ended by $finishReason is incomplete, and so is what was sampled last', ({ finishReason, reason }) => {
    const parts = plainOf({ ...TURN, finishReason }, SHELL)
    expect(parts).toMatchObject({ status: 'incomplete', incomplete_details: { reason } })
    expect(parts.output.map(({ status }: JsonObject) => status)).toEqual([undefined, 'completed', 'completed', 'incomplete'])
    expect(plainOf(answer({ content: 'x' }, { finishReason })).output).toMatchObject([{ status: 'incomplete' }])
  })

  it('leaves out a message that would be empty beside calls', () => {
    expect(plainOf(answer({ content: '', tool_calls: [call('a', '{}')] })).output).toMatchObject([{ type: 'function_call' }])
  })
})

describe('TO-08: an answer that says nothing', () => {
  it.each([
    { message: { content: null }, types: ['message'] },
    { message: { content: '' }, types: ['message'] },
    { message: { content: null, reasoning_content: 'think <tool_call>{"name":"f"}</tool_call>' }, types: ['reasoning', 'message'] },
  ])('is complete, with a message of an empty text and no invented call: $message', ({ message, types }) => {
    const sample = answer(message)
    expect(plainOf(sample)).toMatchObject({ status: 'completed' })
    expect(plainOf(sample).output.map(({ type }: JsonObject) => type)).toEqual(types)
    expect(plainOf(sample).output.at(-1).content).toEqual([{ type: 'output_text', annotations: [], logprobs: [], text: '' }])
    expect(streamOf(sample).at(-1)).toMatchObject({ type: 'response.completed', response: plainOf(sample) })
  })
})

describe('TO-01: a stream', () => {
  const events = streamOf(TURN, formOf(SHELL))
  const items = (name: string): readonly StreamEvent[] => events.filter(({ type }) => type === `response.output_item.${name}`)

  it('has every event in order', () => {
    expect(events.map(({ type }) => type.replace('response.', ''))).toEqual([
      'created',
      'in_progress',
      'in_progress',
      'output_item.added',
      'reasoning_summary_part.added',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.done',
      'reasoning_summary_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ])
  })

  it('has numbers that rise by one, and contiguous places', () => {
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index))
    expect(items('added').map(({ output_index: place }) => place)).toEqual([0, 1, 2, 3])
    expect(items('done').map(({ output_index: place }) => place)).toEqual([0, 1, 2, 3])
  })

  it('adds items without their text and ends them whole', () => {
    expect(items('added').map(({ item }) => item)).toEqual([
      { id: `rs_${CALL}_0`, type: 'reasoning', summary: [] },
      { id: `msg_${CALL}_1`, type: 'message', status: 'in_progress', role: 'assistant', content: [] },
      { id: `fc_${CALL}_2`, type: 'function_call', status: 'in_progress', call_id: 'call_a', name: 'shell', arguments: '' },
      { id: `fc_${CALL}_3`, type: 'function_call', status: 'in_progress', call_id: 'call_b', name: 'shell', arguments: '' },
    ])
    expect(items('done')[2]?.item).toEqual({
      id: `fc_${CALL}_2`,
      type: 'function_call',
      status: 'completed',
      call_id: 'call_a',
      name: 'shell',
      arguments: '{"cmd":"ls"}',
    })
  })

  it('names the item and its places on everything that belongs to one', () => {
    const within = events.filter((event) => 'output_index' in event && !('item' in event))
    expect(within).toHaveLength(12)
    for (const event of within) {
      const done = items('done').find(({ output_index: place }) => place === event.output_index)
      expect(event.item_id).toBe((done?.item as JsonObject | undefined)?.id) // the item is an object, as tested above
      if (event.type.includes('summary')) expect(event.summary_index).toBe(0)
      if (event.type.includes('output_text') || event.type.includes('content_part')) expect(event.content_index).toBe(0)
      if (event.type.includes('output_text')) expect(event.logprobs).toEqual([])
    }
  })

  it.each(SAMPLES.map((sample, index) => ({ sample, index })))(
    'tells the same turn to a reader of done items, to one of deltas and to one of the end: sample $index',
    ({ sample }) => {
      sameInEveryForm(sample)
    },
  )

  it('and the plain answer agree for any texts', () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 })
    const name = fc.constantFrom(
      'f',
      'apply_patch',
      'mcp__files____status',
      'mcp__files____write',
      'shell',
      'local_shell',
      'tool_search',
      'x',
    )
    fc.assert(
      fc.property(fc.option(text), text, fc.array(fc.tuple(name, text), { maxLength: 3 }), (content, reasoning, made) => {
        sameInEveryForm(
          answer({
            content,
            ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
            ...(made.length === 0 ? {} : { tool_calls: made.map(([tool, args], index) => call(`c${index}`, args, tool)) }),
          }),
        )
      }),
    )
  })

  it('has no [DONE], and one id from end to end', () => {
    const stream = formOf().stream(IDENTITY)
    const text = [stream.open(null), ...stream.answer(TURN)].join('')
    expect(text).not.toContain('[DONE]')
    const responses = eventsOf([text]).flatMap(({ response }) => (response === undefined ? [] : [response]))
    expect(responses).toHaveLength(3)
    for (const response of responses) {
      expect(response).toMatchObject({
        id: `resp_${CALL}`,
        object: 'response',
        model: 'gpt-asked',
        created_at: 1_700_000_000,
        store: false,
      })
    }
  })

  it('has no delta that would hide a slow reader', () => {
    for (const event of streamOf(SAMPLES[7] ?? TURN))
      if (event.type.endsWith('.delta')) expect(JSON.stringify(event).length).toBeLessThan(20_000)
  })
})

function sameInEveryForm(sample: ChatAnswer): void {
  const plain = plainOf(sample)
  const events = streamOf(sample)
  const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item)
  const last = events.at(-1)
  expect(last?.type).toBe(
    sample.finishReason === 'length' || sample.finishReason === 'content_filter' ? 'response.incomplete' : 'response.completed',
  )
  expect(last?.response).toEqual(plain)
  expect(done).toEqual(plain.output)
  expect(folded(events)).toEqual(plain.output.map(textOf))
  const calls = plain.output.filter((item: JsonObject) => 'call_id' in item)
  expect(calls.map((item: JsonObject) => item.call_id)).toEqual((sample.message.tool_calls ?? []).map(({ id }) => id))
}

/** What each item's deltas say together. */
function folded(events: readonly StreamEvent[]): readonly string[] {
  const texts: string[] = []
  for (const event of events) {
    if (event.type === 'response.output_item.added') texts.push('')
    if (!event.type.endsWith('.delta')) continue
    const place = Number(event.output_index)
    expect(place).toBe(texts.length - 1)
    texts[place] += String(event.delta)
  }
  return texts
}

function textOf(item: JsonObject & { readonly summary?: readonly JsonObject[]; readonly content?: readonly JsonObject[] }): string {
  if (item.type === 'function_call') return String(item.arguments)
  if (item.type === 'custom_tool_call') return String(item.input)
  return [...(item.summary ?? []), ...(item.content ?? [])].map(({ text }) => text).join('')
}

describe('ST-01: a client that waits', () => {
  it('is told created and in_progress with the head, then in_progress again and again, with rising numbers', () => {
    const stream = formOf().stream(IDENTITY)
    const events = eventsOf([stream.open(null), stream.beat(), stream.beat(), stream.beat()])
    expect(events.map(({ type, sequence_number: number }) => [type, number])).toEqual([
      ['response.created', 0],
      ['response.in_progress', 1],
      ['response.in_progress', 2],
      ['response.in_progress', 3],
      ['response.in_progress', 4],
    ])
    for (const { response } of events) expect(response).toMatchObject({ status: 'in_progress', output: [], usage: null, error: null })
  })

  it('may be told so between any two frames of the answer', () => {
    const stream = formOf().stream(IDENTITY)
    const frames = [stream.open(null)]
    for (const frame of stream.answer(TURN)) frames.push(frame, stream.beat())
    expect(eventsOf(frames).map(({ sequence_number: number }) => number)).toEqual(eventsOf(frames).map((_, index) => index))
  })
})

describe('a failure before the head', () => {
  it.each([
    { code: 'unauthenticated', status: 401, type: 'authentication_error', told: 'invalid_api_key' },
    { code: 'overloaded', status: 429, type: 'rate_limit_error', told: 'rate_limit_exceeded' },
    { code: 'engine-timeout', status: 504, type: 'server_error', told: 'engine_timeout' },
  ] as const)('$code has the envelope of OpenAI', ({ code, status, type, told }) => {
    const reply = openaiResponses.failure(failure(code, 'why', { param: 'p', retryAfterMs: 1_500 }))
    expect([reply.status, JSON.parse(reply.body)]).toEqual([status, { error: { message: 'why', type, param: 'p', code: told } }])
    expect(reply.headers['retry-after']).toBe('2')
  })

  it('TO-06: says a prompt that is too long in the words clients compact upon', () => {
    const reply = openaiResponses.failure(failure('context-overflow', 'too long', { param: 'messages' }))
    expect([reply.status, JSON.parse(reply.body)]).toEqual([
      400,
      {
        error: {
          message: 'Your input exceeds the context window of this model: too long',
          type: 'invalid_request_error',
          param: 'input',
          code: 'context_length_exceeded',
        },
      },
    ])
  })
})

describe('a failure after the head', () => {
  const failed = (
    code: FailureCode,
    particulars: { readonly retryAfterMs?: number; readonly status?: number } = {},
  ): StreamEvent | undefined => {
    const stream = formOf().stream(IDENTITY)
    const told = stream.open(null) + (stream.failure(failure(code, 'why', particulars)) ?? '')
    const events = eventsOf([told])
    expect(events.map(({ sequence_number: number }) => number)).toEqual([0, 1, 2])
    return events.at(-1)
  }

  it.each<{
    code: FailureCode
    particulars?: { readonly retryAfterMs?: number; readonly status?: number }
    error: JsonObject
    codex: string
  }>([
    {
      code: 'context-overflow',
      error: { code: 'context_length_exceeded', message: 'Your input exceeds the context window of this model: why' },
      codex: 'compacts',
    },
    { code: 'budget-exhausted', error: { code: 'insufficient_quota', message: 'why' }, codex: 'gives up' },
    { code: 'engine-rejected', error: { code: 'invalid_prompt', message: 'why' }, codex: 'gives up' },
    { code: 'engine-rejected', particulars: { status: 422 }, error: { code: 'invalid_prompt', message: 'why' }, codex: 'gives up' },
    {
      code: 'overloaded',
      particulars: { retryAfterMs: 1_500 },
      error: { code: 'rate_limit_exceeded', message: 'why (please try again in 1.5s)' },
      codex: 'comes back after 1.5 s',
    },
    { code: 'overloaded', error: { code: 'rate_limit_exceeded', message: 'why' }, codex: 'tries again soon' },
    {
      code: 'engine-aborted',
      particulars: { retryAfterMs: 1_000 },
      error: { code: 'server_error', message: 'why' },
      codex: 'tries again soon',
    },
    { code: 'engine-timeout', error: { code: 'server_error', message: 'why' }, codex: 'tries again soon' },
  ])('$code is response.failed with $error, upon which Codex $codex', ({ code, particulars, error }) => {
    expect(failed(code, particulars)).toMatchObject({
      type: 'response.failed',
      response: { id: `resp_${CALL}`, status: 'failed', error, output: [], usage: null, incomplete_details: null },
    })
  })

  it('says a delay as Codex looks for it', () => {
    const message = JSON.stringify(failed('overloaded', { retryAfterMs: 2_000 }))
    expect(/try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)/i.exec(message)?.slice(1)).toEqual(['2', 's'])
  })
})

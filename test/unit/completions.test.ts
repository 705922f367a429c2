// Packed calls and what is told of them: Polar's completion records, in the order of the calls, a bounded part at a time.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import { taskId } from '../../src/contract/ids.ts'
import { completionRecord } from '../../src/contract/wire/completions.ts'
import { type CompletionsPart, openCompletions, packCompletions, sealedPart } from '../../src/trajectory/completions.ts'
import { type CompletionsWish, renderCompletions } from '../../src/trajectory/render-completions.ts'
import { SESSION, toyCall } from './trajectory-calls.ts'

const TEXTS = [
  '{"role":"user","content":"Grüße, \\"Welt\\"\\n\u2028😀"}',
  '{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\\"a\\": 1}"}}]}',
  '[{"type":"function","function":{"name":"f"}}]',
  '{"temperature":1,"stop":["\\n\\n"]}',
  '{}',
]

function call(sequence: number, more: Partial<CallRecord> = {}): CallRecord {
  return toyCall(
    {
      id: `${String(sequence).padStart(12, '0')}`,
      p: [],
      r: [],
      record: {
        promptMessages: [0],
        responseMessage: 1,
        tools: 2,
        toolCount: 1,
        parameters: 3,
        startedAtMs: 1_000,
        durationMs: 500,
        ...more,
      },
    },
    sequence,
  ).record
}

const FAILED: Partial<CallRecord> = {
  status: 'failed',
  httpStatus: 502,
  responseMessage: null,
  finishReason: null,
  error: 'the engine is gone',
}

function part(calls: readonly CallRecord[], more: Partial<CompletionsPart> = {}): CompletionsPart {
  const all = sealedPart({
    session: SESSION,
    task: taskId('t'),
    taskMetadata: { group_id: 'g', session_id: 'not this' },
    calls,
    messages: TEXTS,
  })
  return { ...all, ...more }
}

const ALL: CompletionsWish = { from: 0, until: Number.MAX_SAFE_INTEGER, maxBytes: 1_000_000 }

function read(packed: ArrayBuffer, wish: Partial<CompletionsWish> = {}) {
  const { answered, failed, next, total } = renderCompletions(packed, { ...ALL, ...wish })
  return { answered: list(answered), failed: list(failed), next, total }
}

// biome-ignore lint/suspicious/noExplicitAny: what a client reads.
const list = (bytes: ArrayBuffer): readonly any[] => JSON.parse(`[${Buffer.from(bytes).toString()}]`)
const sequences = (records: readonly { metadata: { polar_node: { sequence: number } } }[]) =>
  records.map(({ metadata }) => metadata.polar_node.sequence)

describe('a completion record', () => {
  it('is a record as Polar’s clients parse it, with the request as it was sent and a whole answer', () => {
    const lineage = { agent: 'one', parent: 'main', purpose: null }
    const usage = { promptTokens: 7, completionTokens: 3, cachedTokens: 2, reasoningTokens: null }
    const [record] = read(
      packCompletions(part([call(0, { usage, finishReason: 'tool_calls', dialect: 'anthropic', streamed: true, lineage })])),
    ).answered
    expect(completionRecord.safeParse(record).success).toBe(true)
    expect(record).toEqual({
      completion_id: 'msg_000000000000',
      timestamp: '1970-01-01T00:00:01.500Z',
      request: {
        model: 'served',
        messages: [JSON.parse(TEXTS[0]!)],
        tools: JSON.parse(TEXTS[2]!),
        temperature: 1,
        stop: ['\n\n'],
      },
      original_request: { model: 'main-model', stream: true, max_tokens: null, polar_node: { dialect: 'anthropic', body: 'not kept' } },
      response: {
        id: 'chatcmpl-000000000000',
        object: 'chat.completion',
        created: 1,
        model: 'served',
        choices: [{ index: 0, message: JSON.parse(TEXTS[1]!), logprobs: null, finish_reason: 'tool_calls' }],
        usage: {
          prompt_tokens: 7,
          completion_tokens: 3,
          total_tokens: 10,
          prompt_tokens_details: { cached_tokens: 2 },
          completion_tokens_details: { reasoning_tokens: 0 },
        },
      },
      metadata: {
        group_id: 'g',
        session_id: SESSION,
        task_id: 't',
        polar_node: expect.objectContaining({
          sequence: 0,
          attempt: 1,
          status: 'ok',
          http_status: 200,
          weight_version: 'w1',
          duration_ms: 500,
          lineage,
        }),
      },
    })
  })

  it('leaves out tools and parameters that there were none of', () => {
    const [record] = read(packCompletions(part([call(0, { tools: null, parameters: 4 })]))).answered
    expect(Object.keys(record.request)).toEqual(['model', 'messages'])
  })

  it.each<[string, Partial<CallRecord>]>([
    ['failed', FAILED],
    ['was cancelled with an answer', { status: 'cancelled' }],
    ['was aborted', { status: 'aborted', responseMessage: null, finishReason: 'abort' }],
  ])('is none of a call that %s: such a call stands by itself, without messages', (_, more) => {
    const { answered, failed } = read(packCompletions(part([call(0), call(1, more), call(2)])))
    expect(sequences(answered)).toEqual([0, 2])
    expect(sequences(failed)).toEqual([1])
    expect(Object.keys(failed[0])).toEqual(['completion_id', 'timestamp', 'original_request', 'error', 'metadata'])
  })
})

describe('the list', () => {
  it('is in the order of arrival, whenever the answers were there', () => {
    const calls = [call(2, { durationMs: 1 }), call(0, { durationMs: 9_000 }), call(1, { durationMs: 4 })]
    expect(sequences(read(packCompletions(part(calls))).answered)).toEqual([0, 1, 2])
  })

  it.each([
    [{ from: 0, until: 3 }, [0, 1, 2], 3],
    [{ from: 3, until: 5 }, [3, 4], 5],
    [{ from: 8, until: 100 }, [8, 9], 10],
    [{ from: 10, until: 100 }, [], 10],
    [{ from: 50, until: 100 }, [], 50],
  ])('holds of ten calls by %j those of %j and goes on at %i', (wish, expected, next) => {
    const packed = packCompletions(part(Array.from({ length: 10 }, (_, at) => call(at))))
    const told = read(packed, wish)
    expect([sequences(told.answered), told.next, told.total]).toEqual([expected, next, 10])
  })

  it('ends early where it would be large, and with one record at least', () => {
    const packed = packCompletions(part(Array.from({ length: 5 }, (_, at) => call(at, at === 1 ? FAILED : {}))))
    const told: number[] = []
    for (let from = 0; from < 5; ) {
      const { answered, failed, next } = read(packed, { from, maxBytes: 0 })
      expect(answered.length + failed.length).toBe(1)
      told.push(...sequences([...answered, ...failed]))
      from = next
    }
    expect(told).toEqual([0, 1, 2, 3, 4])
  })

  it('passes over calls that are in flight', () => {
    const packed = packCompletions(part([call(4), call(6)], { from: 4, until: 7, total: 9 }))
    expect(read(packed, { from: 4, until: 9 })).toMatchObject({ next: 7, total: 9 })
    expect(sequences(read(packed, { from: 5, until: 7 }).answered)).toEqual([6])
  })
})

describe('packed calls', () => {
  it('hold a text once, however many calls name it', () => {
    const long = JSON.stringify({ role: 'user', content: 'x'.repeat(10_000) })
    const calls = Array.from({ length: 100 }, (_, at) =>
      call(at, { promptMessages: Array.from({ length: 200 }, () => 0), responseMessage: 0 }),
    )
    const packed = packCompletions(part(calls, { messages: [long, ...TEXTS.slice(1)] }))
    expect(packed.byteLength).toBeLessThan(10_000 + 100 * 2_000)
    const rendered = renderCompletions(packed, { ...ALL, until: 1 }).answered.byteLength
    expect(rendered).toBeGreaterThan(200 * 10_000)
  })

  it('give back what was packed, for arbitrary texts', () => {
    const texts = fc.array(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      { minLength: 1, maxLength: 20 },
    )
    fc.assert(
      fc.property(texts, (messages) => {
        const open = openCompletions(packCompletions(part([call(0)], { messages })))
        expect(messages.map((_, at) => Buffer.from(open.message(at)).toString())).toEqual(messages)
        expect(open.call(0)).toEqual(call(0))
      }),
    )
  })

  it('are told from other bytes', () => {
    expect(() => openCompletions(new Uint8Array([0xc0]).buffer)).toThrow(/no packed completions/)
  })
})

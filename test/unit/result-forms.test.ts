// A result in JSON and in MessagePack, whole, as pages and by reference: one content, which a foreign decoder can read.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { knownSessionId } from '../../src/contract/ids.ts'
import type { SessionResult, Trace } from '../../src/contract/result.ts'
import { resultTag } from '../../src/contract/result-form.ts'
import { packSession } from '../../src/trajectory/pack.ts'
import { renderSession, toBytes } from '../../src/trajectory/render.ts'
import { renderResult, renderTraces, type TracesWish } from '../../src/trajectory/render-result.ts'
import { decodePlain, withNumbers } from '../lib/plain-msgpack.ts'

const jsonObject = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 20 })
const message = fc.record({
  role: fc.constantFrom('user', 'assistant'),
  content: fc.oneof(fc.string({ unit: 'binary' }), fc.constant(null)),
})
const messages = fc.array(message, { maxLength: 20 })

const trace: fc.Arbitrary<Trace> = fc
  .record({
    prompt: fc.array(fc.integer({ min: 0, max: 2 ** 31 - 1 }), { maxLength: 30 }),
    sampled: fc.array(
      fc.record({
        id: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
        mask: fc.integer({ min: 0, max: 1 }),
        logprob: fc.float({ max: 0, noNaN: true, noDefaultInfinity: true }),
      }),
      { maxLength: 300 },
    ),
    hasLogprobs: fc.boolean(),
    prompt_messages: messages,
    response_messages: messages,
    tools: fc.oneof(fc.constant(null), fc.array(jsonObject, { maxLength: 3 })),
    finish_reason: fc.constantFrom(null, 'stop', 'length'),
    reward: fc.oneof(fc.constant(null), fc.double({ noNaN: true, noDefaultInfinity: true })),
    metadata: jsonObject,
  })
  .map(({ prompt, sampled, hasLogprobs, ...rest }) => ({
    ...rest,
    prompt_ids: Int32Array.from(prompt),
    response_ids: Int32Array.from(sampled, ({ id }) => id),
    loss_mask: Uint8Array.from(sampled, ({ mask }) => mask),
    response_logprobs: hasLogprobs ? Float32Array.from(sampled, ({ logprob }) => logprob) : null,
  }))

const SESSION = 'sk-polar-1'

function resultOf(traces: readonly Trace[], metadata: Readonly<Record<string, unknown>> = {}): SessionResult {
  return {
    session_id: SESSION,
    task_id: 't',
    status: 'COMPLETED',
    trajectory: { status: 'COMPLETED', metadata: { builder: 'prefix_merging', ...metadata }, traces },
    timing: { run_ms: 1.5 },
    node_id: 'g',
    metadata: { polar_node: { attempt: 2, outcome: 'completed' } },
  }
}

const results = fc.tuple(fc.array(trace, { maxLength: 20 }), jsonObject).map(([traces, metadata]) => resultOf(traces, metadata))

type Read = { readonly [key: string]: unknown; readonly traces: readonly unknown[]; readonly next_offset: number | null }

function asJson(pieces: Iterable<string | Uint8Array>): unknown {
  return JSON.parse(Buffer.from(toBytes(pieces)).toString())
}

function asMsgpack(pieces: Iterable<string | Uint8Array>): unknown {
  return withNumbers(decodePlain(new Uint8Array(toBytes(pieces))))
}

/** Floats of JSON are the shortest that round to the recorded float32; -0 and 0 are one number to JSON. */
function rounded(value: unknown, key = ''): unknown {
  if (key === 'response_logprobs' && Array.isArray(value)) return value.map((logprob) => Math.fround(logprob) + 0)
  if (Array.isArray(value)) return value.map((inner) => rounded(inner))
  if (typeof value === 'number') return value + 0
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, rounded(inner, name)]))
}

describe('the two forms of a result', () => {
  it('say the same of arbitrary trajectories', () => {
    fc.assert(
      fc.property(results, (result) => {
        const packed = packSession(result)
        expect(rounded(asMsgpack(renderResult(packed, 'msgpack')))).toEqual(rounded(asJson(renderResult(packed, 'json'))))
      }),
      { numRuns: 100 },
    )
  })

  it('give a trainer the very ids and logprobs that were recorded', () => {
    fc.assert(
      fc.property(trace, (row) => {
        const [told] = (asMsgpack(renderTraces(packSession(resultOf([row])), 'msgpack', PAGE)) as Read).traces
        expect(told).toMatchObject({
          prompt_ids: [...row.prompt_ids],
          response_ids: [...row.response_ids],
          loss_mask: [...row.loss_mask],
          response_logprobs: row.response_logprobs === null ? null : [...row.response_logprobs],
        })
      }),
    )
  })

  it('have the same bytes every time, as their tags promise', () => {
    const packed = packSession(resultOf([fc.sample(trace, { seed: 7, numRuns: 1 })[0]!]))
    for (const form of ['json', 'msgpack'] as const) {
      expect(Buffer.from(toBytes(renderResult(packed, form)))).toEqual(Buffer.from(toBytes(renderResult(packed, form))))
    }
  })

  it('MessagePack: a message that many traces tell is right in each', () => {
    const shared = { role: 'user', content: 'once' }
    const [row] = fc.sample(trace, { seed: 3, numRuns: 1 })
    const traces = Array.from({ length: 3 }, (): Trace => ({ ...row!, prompt_messages: [shared, shared], tools: [] }))
    const told = asMsgpack(renderResult(packSession(resultOf(traces)), 'msgpack')) as { readonly trajectory: Read }
    expect(told.trajectory.traces).toEqual(traces.map(() => expect.objectContaining({ prompt_messages: [shared, shared], tools: [] })))
  })
})

const PAGE: TracesWish = { offset: 0, limit: 1_000, maxBytes: 1_000_000 }

describe.each(['json', 'msgpack'] as const)('pages of traces in %s', (form) => {
  const read = (packed: ArrayBuffer, wish: TracesWish): Read => {
    const pieces = renderTraces(packed, form, wish)
    return (form === 'json' ? asJson(pieces) : asMsgpack(pieces)) as Read
  }

  it('put together are the traces of the whole', () => {
    const cases = fc.tuple(results, fc.integer({ min: 1, max: 7 }), fc.constantFrom(0, 500, 1_000_000))
    fc.assert(
      fc.property(cases, ([result, limit, maxBytes]) => {
        const packed = packSession(result)
        const { traces } = read(packed, PAGE)
        const told: unknown[] = []
        for (let offset: number | null = 0; offset !== null; ) {
          const page = read(packed, { offset, limit, maxBytes })
          expect(page).toMatchObject({ session_id: SESSION, task_id: 't', attempt: 2, total: traces.length, offset })
          expect(page.traces.length).toBeLessThanOrEqual(limit)
          told.push(...page.traces)
          offset = page.next_offset
        }
        expect(told).toEqual(traces)
      }),
      { numRuns: 50 },
    )
  })

  it('are empty behind the last trace', () => {
    expect(read(packSession(resultOf([])), { ...PAGE, offset: 3 })).toMatchObject({ traces: [], total: 0, next_offset: null })
  })
})

describe('a result by reference', () => {
  const [row] = fc.sample(trace, { seed: 5, numRuns: 1 })
  const asked = { ...resultOf([row!]), metadata: { polar_node: { attempt: 2, results: 'reference' } } }
  const told = (result: SessionResult, results: 'inline' | 'reference' | null) => asJson(renderSession(packSession(result), results))

  it('has everything but the traces, and says where those are', () => {
    const packed = packSession(resultOf([row!]))
    const { trajectory, ...session } = resultOf([row!])
    const result = {
      href: `/sessions/${SESSION}/result`,
      etag: resultTag(knownSessionId(SESSION), 2, 'msgpack'),
      bytes: packed.byteLength,
      traces: 1,
    }
    expect(asJson(renderSession(packed, 'reference'))).toEqual({
      ...session,
      metadata: { polar_node: { attempt: 2, outcome: 'completed', result } },
      trajectory: { ...trajectory, traces: [] },
    })
  })

  it.each([
    ['nobody asked', resultOf([row!]), null, 1],
    ['its task asked for references', asked, null, 0],
    ['the reader wants it inline all the same', asked, 'inline', 1],
    ['the reader asks', resultOf([row!]), 'reference', 0],
  ] as const)('is what is told where it should be: %s', (_, result, results, traces) => {
    expect(told(result, results)).toMatchObject({ trajectory: { traces: { length: traces } } })
  })
})

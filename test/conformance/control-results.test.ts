// Results by themselves as an HTTP client meets them: forms, tags, ranges, pages, references, and what is there when they are not.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { SessionId } from '../../src/contract/ids.ts'
import type { Trajectory } from '../../src/contract/result.ts'
import { packTrajectory } from '../../src/trajectory/pack.ts'
import { decodePlain, withNumbers } from '../lib/plain-msgpack.ts'
import { openControl, TOKEN, task } from './control-world.ts'

let control: Awaited<ReturnType<typeof openControl>>
beforeEach(async () => {
  control = await openControl()
  control.startGateway(8)
})
afterEach(async () => {
  await control.close()
  expect(control.reports).toEqual([])
})

const TRACES = 5
const MSGPACK = { accept: 'application/msgpack' }

const BUILT: Trajectory = {
  status: 'COMPLETED',
  metadata: { builder: 'prefix_merging', reconstruction_stats: {} },
  traces: Array.from({ length: TRACES }, (_, at) => ({
    prompt_ids: Int32Array.of(1, 2),
    response_ids: Int32Array.of(7, 8, at),
    loss_mask: Uint8Array.of(1, 1, 0),
    prompt_messages: [{ role: 'user', content: 'Grüße' }],
    response_messages: [{ role: 'assistant', content: `answer ${at}` }],
    tools: null,
    finish_reason: 'stop',
    response_logprobs: Float32Array.of(-0.1, -0.25, 0),
    reward: null,
    metadata: {},
  })),
}

/** A session that has run, and is held still. */
async function running(metadata: Readonly<Record<string, unknown>> = {}, more: Readonly<Record<string, unknown>> = {}): Promise<SessionId> {
  expect((await control.call('POST', '/rollout/task/submit', task('t', { metadata, ...more }))).status).toBe(200)
  await vi.waitFor(() => expect(control.held.size).toBe(1), { interval: 1, timeout: 20_000 })
  return [...control.held.keys()][0]!
}

async function ended(metadata: Readonly<Record<string, unknown>> = {}, more: Readonly<Record<string, unknown>> = {}): Promise<SessionId> {
  const session = await running(metadata, more)
  await control.finish(session, 'completed', { built: packTrajectory(BUILT) })
  await vi.waitFor(async () => expect((await get(`/sessions/${session}/result`)).statusCode).toBe(200), { interval: 1, timeout: 20_000 })
  return session
}

const get = (url: string, headers: Readonly<Record<string, string>> = {}, method: 'GET' | 'HEAD' = 'GET') =>
  control.app.inject({ method, url, headers: { authorization: `Bearer ${TOKEN}`, ...headers } })

describe('the form of a result', () => {
  it.each([
    [undefined, 'json'],
    ['*/*', 'json'],
    ['application/*', 'json'],
    ['application/json', 'json'],
    ['application/msgpack', 'msgpack'],
    ['application/x-msgpack', 'msgpack'],
    ['application/vnd.msgpack', 'msgpack'],
    ['APPLICATION/MSGPACK', 'msgpack'],
    ['application/msgpack, application/json', 'json'],
    ['application/msgpack;q=0.9, application/json;q=0.8', 'msgpack'],
    ['application/msgpack, */*;q=0.1', 'msgpack'],
    ['application/json;q=0, */*', 'msgpack'],
    ['text/html, application/json;q=0.5', 'json'],
    ['application/msgpack;q=nonsense, application/json;q=0.1', 'json'],
  ])('for Accept: %s is %s', async (accept, form) => {
    const session = await ended()
    const reply = await get(`/sessions/${session}/result`, accept === undefined ? {} : { accept })
    expect(reply.statusCode).toBe(200)
    expect(reply.headers['content-type']).toMatch(new RegExp(`^application/${form}`))
    expect(reply.headers.vary).toBe('accept')
    const result = form === 'json' ? reply.json() : withNumbers(decodePlain(reply.rawPayload))
    expect(result).toMatchObject({ session_id: session, status: 'COMPLETED', trajectory: { traces: { length: TRACES } } })
  })

  it.each(['text/html', 'application/json;q=0', 'image/*', 'application/msgpack;q=0'])('for Accept: %s is none: 406', async (accept) => {
    const session = await ended()
    const reply = await get(`/sessions/${session}/result`, { accept })
    expect([reply.statusCode, reply.headers['x-polar-error']]).toEqual([406, 'not-acceptable'])
    expect(reply.json().detail).toContain('application/msgpack')
  })

  it('is in JSON what the task’s own result is', async () => {
    const session = await ended()
    const { results } = (await control.call('GET', '/rollout/task/t')).body
    expect((await get(`/sessions/${session}/result`)).json()).toEqual(results[0])
  })
})

describe('the tag of a result', () => {
  it('is strong, of its form, and the same with every read', async () => {
    const session = await ended()
    const tags = new Set<unknown>()
    for (const headers of [{}, MSGPACK]) {
      for (let round = 0; round < 2; round += 1) tags.add((await get(`/sessions/${session}/result`, headers)).headers.etag)
    }
    expect(tags.size).toBe(2)
    for (const tag of tags) expect(tag).toMatch(/^"[^"]+"$/)
  })

  it.each([
    ['itself', (tag: string) => tag, 304],
    ['itself, weakly', (tag: string) => `W/${tag}`, 304],
    ['one of several', (tag: string) => `"a", ${tag} , "b"`, 304],
    ['anything', () => '*', 304],
    ['another', () => '"other"', 200],
    ['itself without quotes', (tag: string) => tag.slice(1, -1), 200],
  ] as const)('If-None-Match that names %s', async (_, make, status) => {
    const session = await ended()
    const { headers } = await get(`/sessions/${session}/result`, MSGPACK)
    const reply = await get(`/sessions/${session}/result`, { ...MSGPACK, 'if-none-match': make(String(headers.etag)) })
    expect(reply.statusCode).toBe(status)
    expect(reply.headers.etag).toBe(headers.etag)
    if (status === 304) expect(reply.rawPayload).toHaveLength(0)
  })

  it('of one form is not taken for the other', async () => {
    const session = await ended()
    const { etag } = (await get(`/sessions/${session}/result`)).headers
    expect((await get(`/sessions/${session}/result`, { ...MSGPACK, 'if-none-match': String(etag) })).statusCode).toBe(200)
  })
})

describe('a part of a result', () => {
  const WHOLE = 200
  it.each<[string, number, (length: number) => readonly [number, number] | null]>([
    ['bytes=0-0', 206, () => [0, 0]],
    ['bytes=5-9', 206, () => [5, 9]],
    ['bytes=5-', 206, (length) => [5, length - 1]],
    ['bytes=-7', 206, (length) => [length - 7, length - 1]],
    ['bytes=-999999', 206, (length) => [0, length - 1]],
    ['bytes=5-999999', 206, (length) => [5, length - 1]],
    ['bytes=999999-', 416, () => null],
    ['bytes=-0', 416, () => null],
    ['bytes=9-5', WHOLE, () => null],
    ['bytes=0-1,3-4', WHOLE, () => null],
    ['bytes=-', WHOLE, () => null],
    ['bytes=a-b', WHOLE, () => null],
    ['items=0-1', WHOLE, () => null],
  ])('Range: %s is %i', async (range, status, part) => {
    const session = await ended()
    const whole = (await get(`/sessions/${session}/result`, MSGPACK)).rawPayload
    const reply = await get(`/sessions/${session}/result`, { ...MSGPACK, range })
    expect(reply.statusCode).toBe(status)
    expect(reply.headers['accept-ranges']).toBe('bytes')
    const place = part(whole.length)
    if (place !== null) {
      const [start, end] = place
      expect(reply.headers['content-range']).toBe(`bytes ${start}-${end}/${whole.length}`)
      expect(reply.headers['content-length']).toBe(String(end + 1 - start))
      expect(reply.rawPayload.equals(whole.subarray(start, end + 1))).toBe(true)
    } else if (status === 416) {
      expect(reply.headers['content-range']).toBe(`bytes */${whole.length}`)
      expect(reply.json().detail).toBeTruthy()
    } else {
      expect(reply.headers['content-range']).toBeUndefined()
      expect(reply.rawPayload.equals(whole)).toBe(true)
    }
  })

  it.each([
    ['its tag', (tag: string) => tag, 206],
    ['another tag', () => '"other"', 200],
    ['its tag, weakly', (tag: string) => `W/${tag}`, 200],
    ['a date', () => 'Sun, 06 Nov 1994 08:49:37 GMT', 200],
  ] as const)('by If-Range with %s', async (_, make, status) => {
    const session = await ended()
    const { headers } = await get(`/sessions/${session}/result`)
    const reply = await get(`/sessions/${session}/result`, { range: 'bytes=0-3', 'if-range': make(String(headers.etag)) })
    expect(reply.statusCode).toBe(status)
  })

  it('can be put together with the others to the whole', async () => {
    const session = await ended()
    const whole = (await get(`/sessions/${session}/result`, MSGPACK)).rawPayload
    const parts: Buffer[] = []
    for (let at = 0; at < whole.length; at += 100) {
      parts.push((await get(`/sessions/${session}/result`, { ...MSGPACK, range: `bytes=${at}-${at + 99}` })).rawPayload)
    }
    expect(Buffer.concat(parts).equals(whole)).toBe(true)
  })

  it.each([{}, MSGPACK])('is none for HEAD, which says how long the whole is: %j', async (headers) => {
    const session = await ended()
    const whole = await get(`/sessions/${session}/result`, headers)
    const reply = await get(`/sessions/${session}/result`, { ...headers, range: 'bytes=0-0' }, 'HEAD')
    expect([reply.statusCode, reply.headers['content-length'], reply.headers.etag, reply.headers['content-type']]).toEqual([
      200,
      String(whole.rawPayload.length),
      whole.headers.etag,
      whole.headers['content-type'],
    ])
    expect(reply.rawPayload).toHaveLength(0)
  })
})

describe('pages of traces', () => {
  it.each([
    ['', [0, 1, 2, 3, 4], null],
    ['?limit=2', [0, 1], 2],
    ['?offset=2&limit=2', [2, 3], 4],
    ['?offset=4&limit=2', [4], null],
    ['?offset=5', [], null],
    ['?offset=900', [], null],
  ] as const)('%s', async (query, expected, next) => {
    const session = await ended()
    const url = `/sessions/${session}/result/traces${query}`
    const page = (await get(url)).json()
    expect(page).toMatchObject({ session_id: session, task_id: 't', attempt: 1, total: TRACES, next_offset: next })
    expect(page.traces.map(({ response_ids: ids }: { response_ids: readonly number[] }) => ids.at(-1))).toEqual(expected)
    const packed = await get(url, MSGPACK)
    expect(packed.headers['content-type']).toBe('application/msgpack')
    expect(withNumbers(decodePlain(packed.rawPayload))).toMatchObject({
      total: TRACES,
      next_offset: next,
      traces: { length: expected.length },
    })
  })

  it.each(['?offset=-1', '?offset=x', '?limit=0', '?limit=1001', '?limit=1.5'])('%s is 422', async (query) => {
    const session = await ended()
    const reply = await get(`/sessions/${session}/result/traces${query}`)
    expect([reply.statusCode, reply.json().detail[0].loc[0]]).toEqual([422, 'query'])
  })
})

describe('a result that is not there', () => {
  const paths = ['/result', '/result/traces']
  it.each(paths)('is 404 for an unknown session: %s', async (path) => {
    const reply = await get(`/sessions/sk-polar-none${path}`)
    expect([reply.statusCode, reply.headers['x-polar-error']]).toEqual([404, 'session-unknown'])
  })

  it.each(paths)('is 409 while the session has not ended: %s', async (path) => {
    const session = await running()
    const reply = await get(`/sessions/${session}${path}`)
    expect([reply.statusCode, reply.headers['x-polar-error']]).toEqual([409, 'session-running'])
  })

  it.each(paths)('is 410 when it is no longer kept: %s', async (path) => {
    await control.close()
    const missing = { ok: false, error: 'missing', detail: 'dropped' } as const
    control = await openControl({ results: { whole: async () => missing, traces: async () => missing } })
    control.startGateway(8)
    const other = await running()
    await control.finish(other, 'completed')
    await vi.waitFor(async () => expect((await get(`/sessions/${other}${path}`)).statusCode).toBe(410), { interval: 1, timeout: 20_000 })
  })
})

describe('results by reference', () => {
  const reference = { polar_node: { results: 'reference' } }

  it('are told where the reader asks: all but the traces, and where those are', async () => {
    const session = await ended({ group_id: 'g' })
    const inline = (await control.call('GET', '/rollout/task/t?results=inline')).body
    expect((await control.call('GET', '/rollout/task/t')).body).toEqual(inline)
    const { results, ...head } = (await control.call('GET', '/rollout/task/t?results=reference')).body
    const [whole] = inline.results
    expect(head).toEqual({ ...inline, results: undefined })
    const { result, ...own } = results[0].metadata.polar_node
    expect(results[0]).toEqual({
      ...whole,
      metadata: { ...whole.metadata, polar_node: { ...own, result } },
      trajectory: { ...whole.trajectory, traces: [] },
    })
    expect(own).toEqual(whole.metadata.polar_node)
    expect(result).toMatchObject({ href: `/sessions/${session}/result`, traces: TRACES })
    const fetched = await get(result.href, MSGPACK)
    expect(fetched.headers.etag).toBe(result.etag)
    expect(result.bytes).toBeGreaterThan(0)
  })

  it('are told where the task asks, to its callback as well', async () => {
    const session = await ended(reference, { callback_url: 'http://127.0.0.1:9/' })
    await vi.waitFor(() => expect(control.delivered).toHaveLength(1), { interval: 1, timeout: 20_000 })
    const told = { session_id: session, trajectory: { traces: [] }, metadata: { polar_node: { result: { traces: TRACES } } } }
    expect(control.delivered[0]?.body).toMatchObject({ task_id: 't', results: [told] })
    expect((await control.call('GET', '/rollout/task/t')).body.results).toMatchObject([told])
    expect((await control.call('GET', '/rollout/task/t?results=inline')).body.results[0].trajectory.traces).toHaveLength(TRACES)
  })

  it('leave a delivery inline as it was where nobody asks', async () => {
    await ended({}, { callback_url: 'http://127.0.0.1:9/' })
    await vi.waitFor(() => expect(control.delivered).toHaveLength(1), { interval: 1, timeout: 20_000 })
    expect(control.delivered[0]?.body).toMatchObject({ results: [{ trajectory: { traces: { length: TRACES } } }] })
  })

  it('are 422 by any other name', async () => {
    const submit = await control.call('POST', '/rollout/task/submit', task('u', { metadata: { polar_node: { results: 'by mail' } } }))
    expect([submit.status, submit.body.detail[0].loc]).toEqual([422, ['body', 'metadata', 'polar_node', 'results']])
    await ended()
    const read = await control.call('GET', '/rollout/task/t?results=')
    expect([read.status, read.body.detail[0].loc]).toEqual([422, ['query', 'results']])
  })
})

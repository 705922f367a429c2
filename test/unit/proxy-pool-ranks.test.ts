// One endpoint with data-parallel ranks: every rank a replica of its own, told apart by a header alone.
import { afterEach, describe, expect, it } from 'vitest'
import type { HttpRequest } from '../../src/proxy/engines/engine.ts'
import type { TransportReply } from '../../src/proxy/engines/transport.ts'
import { openEndpoints } from '../../src/proxy/pool/endpoints.ts'
import { openReplicas, type Replicas } from '../lib/replica-fixture.ts'

let replicas: Replicas | null = null

afterEach(async () => {
  await replicas?.close()
  expect(replicas?.timers() ?? 0).toBe(0)
  replicas = null
})

describe('an endpoint with ranks', () => {
  it('is a replica for each rank, with its share of the caps, over one connection', async () => {
    replicas = openReplicas()
    replicas.add('gpu', 'http://gpu', { ranks: 4, inFlight: 10, line: 3 })
    await replicas.settle()
    expect((await replicas.views()).map(({ id, rank, state, tier, maxInFlight }) => [id, rank, state, tier, maxInFlight])).toEqual([
      ['gpu@0', 0, 'up', 'train', 2],
      ['gpu@1', 1, 'up', 'train', 2],
      ['gpu@2', 2, 'up', 'train', 2],
      ['gpu@3', 3, 'up', 'train', 2],
    ])
    expect(replicas.host('http://gpu').connections).toBe(1)
    // A rank has at least one place in line, whatever the division says.
    const calls = []
    for (let index = 0; index < 8 + 4; index += 1) calls.push(await replicas.call(index))
    expect(calls.filter((call) => call.place() === 'waiting')).toHaveLength(4)
    expect((await replicas.call(99)).place()).toMatch(/^overloaded/)
  })

  it('is probed once per rank, and asked once for what is the same for all', async () => {
    replicas = openReplicas()
    replicas.add('gpu', 'http://gpu', { ranks: 3 })
    await replicas.settle()
    const { asked } = replicas.host('http://gpu')
    expect(asked.filter(({ path }) => path !== '/v1/chat/completions').map(({ path, rank }) => [path, rank])).toEqual([
      ['/health', null],
      ['/is_sleeping', null],
      ['/v1/models', null],
      ['/weight_info', null],
    ])
    const generations = Map.groupBy(
      asked.filter(({ path }) => path === '/v1/chat/completions'),
      ({ rank }) => rank,
    )
    expect([...generations.keys()]).toEqual(['0', '1', '2'])
    expect(new Set([...generations.values()].map(({ length }) => length)).size).toBe(1)
  })

  it('keeps a session on its rank', async () => {
    replicas = openReplicas()
    replicas.add('gpu', 'http://gpu', { ranks: 4 })
    await replicas.settle()
    const homes = []
    for (const session of [1, 2, 3, 4]) homes.push(await replicas.call(session))
    const ids = homes.map((call) => call.place())
    expect(ids).toEqual(['gpu@0', 'gpu@1', 'gpu@2', 'gpu@3'])
    for (const home of homes) home.release()
    for (const session of [4, 3, 2, 1]) {
      const call = await replicas.call(session)
      expect(call.place()).toBe(ids[session - 1])
      call.release()
    }
  })

  it('goes as a whole', async () => {
    replicas = openReplicas()
    replicas.add('gpu', 'http://gpu', { ranks: 2 })
    await replicas.settle()
    const call = await replicas.call(1)
    replicas.remove('gpu')
    expect(await replicas.states()).toEqual(['gpu@0 removing'])
    expect(replicas.serving).toEqual([true, false])
    expect(replicas.host('http://gpu').connections).toBe(1)
    call.release()
    await replicas.settle()
    expect(replicas.host('http://gpu').connections).toBe(0)
    expect(replicas.kernel.stats().actors).toBe(0)
  })
})

describe('what the ranks of an endpoint share', () => {
  const get = (path: string): HttpRequest => ({ method: 'GET', path, headers: {}, body: null })
  const post: HttpRequest = { method: 'POST', path: '/p', headers: { a: 'b' }, body: '{}' }

  /** A server that answers when told to. */
  function openServer() {
    const sent: { readonly request: HttpRequest; readonly signal: AbortSignal; answer(status: number): void }[] = []
    let closed = 0
    const endpoints = openEndpoints(
      () => ({
        send(request, signal) {
          const { promise, resolve } = Promise.withResolvers<TransportReply>()
          const reply = (status: number): TransportReply => ({ ok: true, response: { status, headers: {}, body: new Uint8Array() } })
          sent.push({ request, signal, answer: (status) => resolve(reply(status)) })
          return promise
        },
        async close() {
          closed += 1
        },
      }),
      1,
    )
    return { sent, endpoints, closed: () => closed }
  }
  const statusOf = (reply: TransportReply): unknown => (reply.ok ? reply.response.status : reply.error)

  it('is asked anew once it was answered', async () => {
    const { sent, endpoints } = openServer()
    const [one, two] = [endpoints.open('http://e', 0), endpoints.open('http://e', 1)]
    const { signal } = new AbortController()
    const first = [one.send(get('/a'), signal), two.send(get('/a'), signal), two.send(get('/b'), signal)]
    expect(sent.map(({ request }) => request.path)).toEqual(['/a', '/b'])
    sent[0]?.answer(200)
    sent[1]?.answer(404)
    expect((await Promise.all(first)).map(statusOf)).toEqual([200, 200, 404])
    const again = one.send(get('/a'), signal)
    sent[2]?.answer(503)
    expect(statusOf(await again)).toBe(503)
  })

  it('is given up only when nobody wants it', async () => {
    const { sent, endpoints } = openServer()
    const [one, two] = [endpoints.open('http://e', 0), endpoints.open('http://e', 1)]
    const [impatient, patient] = [new AbortController(), new AbortController()]
    const replies = [one.send(get('/a'), impatient.signal), two.send(get('/a'), patient.signal)]
    impatient.abort()
    expect(statusOf((await replies[0]) as TransportReply)).toBe('aborted')
    expect(sent[0]?.signal.aborted).toBe(false)
    patient.abort()
    expect(sent[0]?.signal.aborted).toBe(true)
    expect(statusOf((await replies[1]) as TransportReply)).toBe('aborted')
    expect(statusOf(await two.send(get('/a'), AbortSignal.abort()))).toBe('aborted')
    expect(sent).toHaveLength(1)
  })

  it('is asked anew by whoever comes after it was given up, also before the server has noticed', async () => {
    const { sent, endpoints } = openServer()
    const connection = endpoints.open('http://e', 0)
    const gone = new AbortController()
    const lost = connection.send(get('/a'), gone.signal)
    gone.abort()
    const fresh = [connection.send(get('/a'), new AbortController().signal), connection.send(get('/a'), new AbortController().signal)]
    expect(sent).toHaveLength(2)
    // The first one's end is nobody's business any more.
    sent[0]?.answer(500)
    expect(statusOf(await lost)).toBe('aborted')
    const third = connection.send(get('/a'), new AbortController().signal)
    expect(sent).toHaveLength(2)
    sent[1]?.answer(200)
    expect((await Promise.all([...fresh, third])).map(statusOf)).toEqual([200, 200, 200])
  })

  it('is no call: each of those goes out by itself, with its rank and what it had', () => {
    const { sent, endpoints } = openServer()
    const { signal } = new AbortController()
    for (const rank of [0, 7, null]) void endpoints.open('http://e', rank).send(post, signal)
    expect(sent.map(({ request }) => request.headers)).toEqual([
      { a: 'b', 'x-data-parallel-rank': '0' },
      { a: 'b', 'x-data-parallel-rank': '7' },
      { a: 'b' },
    ])
  })

  it('closes with the last of them, once, and is opened anew after that', async () => {
    const { endpoints, closed } = openServer()
    const [one, two] = [endpoints.open('http://e', 0), endpoints.open('http://e', 1)]
    await one.close()
    await one.close()
    expect(closed()).toBe(0)
    await two.close()
    expect(closed()).toBe(1)
    await endpoints.open('http://e', 0).close()
    expect(closed()).toBe(2)
  })
})

// A router of inference servers: who its workers are, from one list to the next, and that they are called without it.
import { Buffer } from 'node:buffer'
import { afterEach, describe, expect, it } from 'vitest'
import type { TransportReply } from '../../src/proxy/engines/transport.ts'
import { readWorkers } from '../../src/proxy/pool/router/workers.ts'
import { openReplicas, type Replicas, ROUTER_READ_MS } from '../lib/replica-fixture.ts'

let replicas: Replicas | null = null

afterEach(async () => {
  await replicas?.close()
  expect(replicas?.timers() ?? 0).toBe(0)
  replicas = null
})

const described = (...urls: readonly string[]) => ({
  '/workers': { workers: urls.map((url) => ({ url, worker_type: 'regular', connection_mode: 'Http', is_healthy: true })) },
})

async function openRouter(...urls: readonly string[]): Promise<Replicas> {
  const opened = openReplicas()
  replicas = opened
  opened.host('http://router').lists = described(...urls)
  expect(opened.add('router', 'http://router', { router: true, inFlight: 2 })).toEqual({ ok: true })
  await opened.settle()
  return opened
}

describe('the workers of a router', () => {
  it('are replicas of their own, with the limits of its entry each, and the router is sent no call', async () => {
    const opened = await openRouter('http://10.0.0.1:30000', 'http://10.0.0.2:30000')
    expect(await opened.views()).toMatchObject([
      { id: 'router', role: 'router', state: 'up', url: 'http://router', detail: null },
      { id: 'router/10.0.0.1:30000', role: 'engine', state: 'up', url: 'http://10.0.0.1:30000', maxInFlight: 2, tier: 'train' },
      { id: 'router/10.0.0.2:30000', role: 'engine', state: 'up', url: 'http://10.0.0.2:30000', maxInFlight: 2, tier: 'train' },
    ])
    const calls = [await opened.call(1), await opened.call(2)]
    expect(calls.map((call) => call.place())).toEqual(['router/10.0.0.1:30000', 'router/10.0.0.2:30000'])
    expect(opened.host('http://router').asked.map(({ path }) => path)).toEqual(['/workers'])
  })

  it('are followed: a new one joins, a vanished one goes once two lists in a row lack it', async () => {
    const opened = await openRouter('http://a', 'http://b')
    const call = await opened.call(1)
    expect(call.place()).toBe('router/a')
    opened.host('http://router').lists = described('http://b', 'http://c')
    await opened.world.advance(ROUTER_READ_MS.every)
    expect(await opened.states()).toEqual(['router up', 'router/a up', 'router/b up', 'router/c up'])
    await opened.world.advance(ROUTER_READ_MS.every)
    // Its call runs on, as for any replica that is removed.
    expect(await opened.states()).toEqual(['router up', 'router/b up', 'router/c up', 'router/a removing'])
    call.release()
    expect(await opened.states()).toEqual(['router up', 'router/b up', 'router/c up'])
    expect(opened.host('http://a').connections).toBe(0)
    opened.host('http://router').lists = described('http://a', 'http://b', 'http://c')
    await opened.world.advance(ROUTER_READ_MS.every)
    expect(await opened.states()).toEqual(['router up', 'router/b up', 'router/c up', 'router/a up'])
    const [joined, left] = ['worker-joined', 'worker-left']
    expect(opened.reports).toEqual([
      `${joined} http://a`,
      `${joined} http://b`,
      `${joined} http://c`,
      `${left} http://a`,
      `${joined} http://a`,
    ])
  })

  it('stay when one list lacks them', async () => {
    const opened = await openRouter('http://a', 'http://b')
    for (const urls of [[], ['http://a', 'http://b'], ['http://b'], ['http://a']]) {
      opened.host('http://router').lists = described(...urls)
      await opened.world.advance(ROUTER_READ_MS.every)
    }
    expect(await opened.states()).toEqual(['router up', 'router/a up', 'router/b up'])
    expect(opened.serving).toEqual([true])
  })

  it.each([
    ['is down', (opened: Replicas) => Object.assign(opened.host('http://router'), { isUp: false }), /ECONNREFUSED/],
    ['does not answer', (opened: Replicas) => Object.assign(opened.host('http://router'), { hangs: true }), /aborted/],
    [
      'answers something else',
      (opened: Replicas) => Object.assign(opened.host('http://router'), { lists: { '/workers': { a: 1 } } }),
      /no list of workers; \/list_workers answered 404/,
    ],
  ])('stay while it %s, and are followed again after that', async (_, harm, detail) => {
    const opened = await openRouter('http://a', 'http://b')
    const call = await opened.call(1)
    harm(opened)
    await opened.world.advance(600_000)
    expect(await opened.states()).toEqual(['router down', 'router/a up', 'router/b up'])
    expect((await opened.views())[0]?.detail).toMatch(detail)
    expect((await opened.call(2)).place()).toBe('router/b')
    call.release()
    Object.assign(opened.host('http://router'), { isUp: true, hangs: false, lists: described('http://a', 'http://b', 'http://c') })
    await opened.world.advance(ROUTER_READ_MS.every + ROUTER_READ_MS.deadline)
    expect(await opened.states()).toEqual(['router up', 'router/a up', 'router/b up', 'router/c up'])
  })

  it('are found later when the router starts after the gateway', async () => {
    const opened = openReplicas()
    replicas = opened
    Object.assign(opened.host('http://router'), { isUp: false, lists: described('http://a') })
    opened.add('router', 'http://router', { router: true })
    expect(await opened.states()).toEqual(['router down'])
    opened.host('http://router').isUp = true
    await opened.world.advance(ROUTER_READ_MS.every)
    expect(await opened.states()).toEqual(['router up', 'router/a up'])
  })

  it('go with it, and it is asked no more', async () => {
    const opened = await openRouter('http://a')
    const call = await opened.call(1)
    opened.remove('router')
    expect(await opened.states()).toEqual(['router/a removing'])
    call.release()
    await opened.settle()
    const asked = opened.host('http://router').asked.length
    await opened.world.advance(60_000)
    expect(opened.host('http://router').asked).toHaveLength(asked)
    expect(opened.kernel.stats().actors).toBe(0)
    expect(['http://router', 'http://a'].map((url) => opened.host(url).connections)).toEqual([0, 0])
  })

  it('go with it also while its list is on its way', async () => {
    const opened = openReplicas()
    replicas = opened
    Object.assign(opened.host('http://router'), { hangs: true, lists: described('http://a') })
    opened.add('router', 'http://router', { router: true })
    await opened.settle()
    opened.remove('router')
    await opened.settle()
    expect([await opened.states(), opened.host('http://router').connections, opened.kernel.stats().actors]).toEqual([[], 0, 0])
  })

  it('that are replicas by themselves are called once, until they are no more', async () => {
    const opened = openReplicas()
    replicas = opened
    opened.host('http://router').lists = described('http://a', 'http://b')
    opened.add('own', 'http://a')
    opened.add('router', 'http://router', { router: true })
    expect(await opened.states()).toEqual(['router up', 'own up', 'router/b up'])
    expect((await opened.views())[0]?.detail).toBe('http://a is replica own')
    opened.remove('own')
    await opened.world.advance(ROUTER_READ_MS.every)
    expect(await opened.states()).toEqual(['router up', 'router/b up', 'router/a up'])
    expect((await opened.views())[0]?.detail).toBeNull()
  })

  it('are addressed by rank when it lists ranks', async () => {
    const opened = await openRouter('http://a:1@0', 'http://a:1@1')
    expect((await opened.views()).map(({ id, rank }) => [id, rank])).toEqual([
      ['router', null],
      ['router/a:1@0', 0],
      ['router/a:1@1', 1],
    ])
    expect(new Set(opened.host('http://a:1').asked.flatMap(({ rank }) => rank ?? []))).toEqual(new Set(['0', '1']))
    expect(opened.host('http://a:1').connections).toBe(1)
  })
})

describe('a list of workers', () => {
  const signal = new AbortController().signal
  /** A router that answers these paths, with 404 for every other. */
  const answering = (bodies: Readonly<Record<string, unknown>>) => ({
    async send({ path }: { readonly path: string }): Promise<TransportReply> {
      const status = path in bodies ? 200 : 404
      return { ok: true, response: { status, headers: {}, body: Buffer.from(JSON.stringify(bodies[path] ?? {})) } }
    },
    close: async () => {},
  })
  const read = (bodies: Readonly<Record<string, unknown>>) => readWorkers(answering(bodies), signal)

  it('is read in the newer form', async () => {
    const workers = [
      { id: 'x', url: 'http://0.0.0.0:31378/', model_id: 'mistral', worker_type: 'regular', is_healthy: false, connection_mode: 'Http' },
      { id: 'y', url: 'http://b:1', worker_type: 'regular', connection_mode: 'http' },
      { url: 'http://c:1' },
      { url: 'http://b:1', worker_type: 'regular' },
    ]
    expect(await read({ '/workers': { workers, total: 4, stats: {} } })).toEqual({
      type: 'listed',
      workers: ['http://0.0.0.0:31378', 'http://b:1', 'http://c:1'].map((url) => ({ url, rank: null })),
      passed: [],
    })
  })

  it('is read in the older form, also behind a router that passes unknown paths on', async () => {
    const urls = ['http://a:1', 'http://a:2@3', 'http://a:1/']
    const listed = {
      type: 'listed',
      workers: [
        { url: 'http://a:1', rank: null },
        { url: 'http://a:2', rank: 3 },
      ],
      passed: [],
    }
    expect(await read({ '/list_workers': { urls } })).toEqual(listed)
    expect(await read({ '/workers': { error: 'no such model' }, '/list_workers': { urls } })).toEqual(listed)
  })

  it.each([
    [{ url: 'http://a', worker_type: 'prefill' }, 'http://a is of type prefill'],
    [{ url: 'http://a', worker_type: 'decode' }, 'http://a is of type decode'],
    [{ url: 'http://a', connection_mode: 'Grpc { port: 3 }' }, 'http://a speaks Grpc { port: 3 }'],
    [{ url: 'grpc://a:1' }, 'grpc://a:1 is no HTTP address'],
    [{ url: 7 }, '7 is no HTTP address'],
    ['http://a', 'an entry is no HTTP address'],
    [null, 'an entry is no HTTP address'],
  ])('passes over what cannot be called directly: %j', async (entry, why) => {
    expect(await read({ '/workers': { workers: [entry, { url: 'http://b' }] } })).toEqual({
      type: 'listed',
      workers: [{ url: 'http://b', rank: null }],
      passed: [why],
    })
  })

  it('is shown without the credentials and the query of its workers, which are not sent', async () => {
    const urls = ['http://me:secret@a:1/x?key=secret', 'https://me:secret@b@2', 'grpc://me:secret@c:1']
    const list = {
      type: 'listed',
      workers: [
        { url: 'http://a:1/x', rank: null },
        { url: 'https://b', rank: 2 },
      ],
    }
    expect(await read({ '/list_workers': { urls } })).toEqual({ ...list, passed: ['grpc://c:1 is no HTTP address'] })
    expect(await read({ '/workers': { workers: urls.map((url) => ({ url })) } })).toEqual({
      ...list,
      passed: ['grpc://c:1 is no HTTP address'],
    })
  })

  it.each([[{}], [{ '/workers': [] }], [{ '/workers': { workers: 3 } }], [{ '/list_workers': { urls: {} } }], [{ '/list_workers': null }]])(
    'is none: %j',
    async (bodies) => {
      expect(await read(bodies)).toMatchObject({ type: 'unread', detail: expect.stringContaining('/list_workers') })
    },
  )
})

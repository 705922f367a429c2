// Replicas that are added and removed while calls run: who is served by whom, who waits no longer, and what is left of them.
import { afterEach, describe, expect, it } from 'vitest'
import { sessionId } from '../../src/contract/ids.ts'
import { type Call, openReplicas, type Replicas } from '../lib/replica-fixture.ts'

let replicas: Replicas

afterEach(async () => {
  await replicas.close()
  expect([replicas.kernel.stats().actors, replicas.timers()]).toEqual([0, 0])
})

describe('a replica that is added', () => {
  it('is probed as at the start, and then takes its share of new sessions', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    const before = [await replicas.call(1), await replicas.call(2)]
    expect(replicas.add('b', 'http://b')).toEqual({ ok: true })
    await replicas.settle()
    expect(
      replicas
        .host('http://b')
        .asked.slice(0, 4)
        .map(({ path }) => path),
    ).toEqual(['/health', '/is_sleeping', '/v1/models', '/v1/chat/completions'])
    const after = [await replicas.call(3), await replicas.call(4)]
    expect([...before, ...after].map((call) => call.place())).toEqual(['a', 'a', 'b', 'b'])
  })

  it('takes over those who wait for a full one, as many as it has room for, and they stay', async () => {
    replicas = openReplicas({ limits: { inFlight: 2, line: 8, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    await replicas.settle()
    const calls = [await replicas.call(1), await replicas.call(2), await replicas.call(3), await replicas.call(4), await replicas.call(5)]
    expect(calls.map((call) => call.place())).toEqual(['a', 'a', 'waiting', 'waiting', 'waiting'])
    replicas.add('b', 'http://b')
    await replicas.settle()
    expect(calls.map((call) => call.place())).toEqual(['a', 'a', 'b', 'b', 'waiting'])
    for (const call of calls) call.release()
    await replicas.settle()
    expect(calls[4]?.place()).toBe('a')
    calls[4]?.release()
    expect((await replicas.call(3)).place()).toBe('b')
    expect((await replicas.call(1)).place()).toBe('a')
  })

  it('sends nobody away for good: whoever finds it taken waits where he waited', async () => {
    replicas = openReplicas({ limits: { inFlight: 1, line: 1, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    await replicas.settle()
    const [holder, waiting] = [await replicas.call(1), await replicas.call(2)]
    const quicker: Promise<Call>[] = []
    const stop = replicas.kernel.inspect(({ message }) => {
      // Between the word and the move, others come.
      if ((message as { readonly type: string }).type === 'relieve') quicker.push(replicas.call(3), replicas.call(4))
    })
    replicas.add('b', 'http://b')
    await replicas.settle()
    stop()
    expect((await Promise.all(quicker)).map((call) => call.place())).toEqual(['b', 'waiting'])
    expect(waiting.place()).toBe('waiting')
    holder.release()
    await replicas.settle()
    expect(waiting.place()).toBe('a')
  })

  it('takes over no training call when it cannot train', async () => {
    replicas = openReplicas({ limits: { inFlight: 1, line: 8, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    await replicas.settle()
    const calls = [await replicas.call(1), await replicas.call(2, 'train'), await replicas.call(3, 'eval'), await replicas.call(4, 'train')]
    replicas.host('http://b').trains = false
    replicas.add('b', 'http://b')
    await replicas.settle()
    expect(calls.map((call) => call.place())).toEqual(['a', 'waiting', 'b', 'waiting'])
    calls[0]?.release()
    await replicas.settle()
    // Nobody lost his place in the line by it.
    expect(calls.map((call) => call.place())).toEqual(['a', 'a', 'b', 'waiting'])
  })

  it('delays nobody while its probe is not answered', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    replicas.host('http://slow').hangs = true
    replicas.add('slow', 'http://slow')
    const calls = [await replicas.call(1), await replicas.call(2)]
    expect(calls.map((call) => call.place())).toEqual(['a', 'a'])
    expect(await replicas.states()).toEqual(['a up', 'slow unprobed'])
    await replicas.world.advance(60_000)
    expect(await replicas.states()).toEqual(['a up', 'slow down'])
  })

  it('takes over those who wait for one that has not answered its probe', async () => {
    replicas = openReplicas()
    replicas.host('http://slow').hangs = true
    replicas.add('slow', 'http://slow')
    const calls = [await replicas.call(1), await replicas.call(2)]
    expect(calls.map((call) => call.place())).toEqual(['waiting', 'waiting'])
    replicas.add('b', 'http://b')
    await replicas.settle()
    expect(calls.map((call) => call.place())).toEqual(['b', 'b'])
  })

  it('shows what its probe found of logprobs', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    expect((await replicas.views()).map(({ tier, logprobMode, maxModelLen }) => [tier, logprobMode, maxModelLen])).toEqual([
      ['train', 'raw', 4_096],
    ])
  })

  it('is named by what it serves, and by how much it reads', async () => {
    replicas = openReplicas()
    Object.assign(replicas.host('http://a'), { model: 'old', maxModelLen: 100 })
    Object.assign(replicas.host('http://b'), { model: 'new', maxModelLen: 200 })
    replicas.add('a', 'http://a')
    await replicas.settle()
    expect([replicas.pool.modelName(), replicas.pool.maxModelLen()]).toEqual(['old', 100])
    replicas.add('b', 'http://b')
    await replicas.settle()
    expect(replicas.pool.maxModelLen()).toBe(200)
    replicas.remove('a')
    expect([replicas.pool.modelName(), replicas.pool.maxModelLen()]).toEqual(['new', 200])
    replicas.remove('b')
    expect([replicas.pool.modelName(), replicas.pool.maxModelLen()]).toEqual(['', null])
  })

  it.each([
    ['an id that is there', 'a', 'http://b', 'taken', 'there is a replica a already'],
    ['a server that is there', 'b', 'http://a', 'taken', 'http://a is replica a already'],
    ['a server whose ranks are there', 'b', 'http://ranked', 'taken', 'http://ranked is replica ranked already'],
    ['a router that is there', 'b', 'http://router', 'taken', 'http://router is replica router already'],
    ['a worker of a router that is there', 'b', 'http://worker', 'taken', 'http://worker is replica router already'],
  ])('is refused for %s', async (_, id, url, error, detail) => {
    replicas = openReplicas()
    replicas.host('http://router').lists = { '/workers': { workers: [{ url: 'http://worker' }] } }
    replicas.add('a', 'http://a')
    replicas.add('ranked', 'http://ranked', { ranks: 2 })
    replicas.add('router', 'http://router', { router: true })
    await replicas.settle()
    const before = await replicas.states()
    expect(replicas.add(id, url)).toEqual({ ok: false, error, detail })
    expect(await replicas.states()).toEqual(before)
  })

  it.each([
    ['nowhere', {}],
    ['http://h', { ranks: 0 }],
  ])('is refused when it cannot be: %s %j', (url, config) => {
    replicas = openReplicas()
    expect(replicas.add('a', url, config)).toMatchObject({ ok: false, error: 'invalid' })
  })

  it('is refused beyond the most a gateway may have, and when the gateway stops', async () => {
    replicas = openReplicas()
    const added = Array.from({ length: 65 }, (_, index) => replicas.add(`r${index}`, `http://r${index}`))
    expect(added.filter(({ ok }) => ok)).toHaveLength(64)
    expect(added[64]).toEqual({ ok: false, error: 'full', detail: 'a gateway has at most 64 replicas' })
    await replicas.set.close()
    expect(added.map((_, index) => replicas.host(`http://r${index}`).connections)).toEqual(Array(65).fill(0))
    expect(replicas.add('late', 'http://late')).toMatchObject({ ok: false, error: 'closed' })
  })
})

describe('a replica that is removed', () => {
  it('gets no new call, sends those who wait elsewhere at once, and is gone when its last call has ended', async () => {
    replicas = openReplicas({ limits: { inFlight: 1, line: 8, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    replicas.add('b', 'http://b')
    await replicas.settle()
    const calls = [await replicas.call(1), await replicas.call(2), await replicas.call(1)]
    expect(calls.map((call) => call.place())).toEqual(['a', 'b', 'waiting'])
    expect((await replicas.views()).map(({ waiting }) => waiting)).toEqual([1, 0])

    expect(replicas.remove('a')).toEqual({ ok: true })
    expect(await replicas.states()).toEqual(['b up', 'a removing'])
    expect((await replicas.views()).map(({ inFlight, waiting }) => [inFlight, waiting])).toEqual([
      [1, 1],
      [1, 0],
    ])
    calls[1]?.release()
    await replicas.settle()
    expect(calls[2]?.place()).toBe('b')
    expect(replicas.host('http://a').connections).toBe(1)

    calls[0]?.release()
    expect(await replicas.states()).toEqual(['b up'])
    expect(replicas.host('http://a').connections).toBe(0)
    calls[2]?.release()
    expect((await replicas.call(1)).place()).toBe('b')
  })

  it('sends its whole line to the others, who may be busy too', async () => {
    replicas = openReplicas({ limits: { inFlight: 1, line: 2, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    replicas.add('b', 'http://b')
    await replicas.settle()
    const holders = [await replicas.call(1), await replicas.call(2)]
    expect(holders.map((call) => call.place())).toEqual(['a', 'b'])
    const waiting = [await replicas.call(1), await replicas.call(1), await replicas.call(2)]
    replicas.remove('a')
    await replicas.settle()
    // One place in line was left at `b`.
    expect(waiting.map((call) => call.place())).toEqual([
      'waiting',
      'overloaded: every inference server is busy; try again later',
      'waiting',
    ])
    holders[1]?.release()
    await replicas.settle()
    expect(waiting[2]?.place()).toBe('b')
    waiting[2]?.release()
    await replicas.settle()
    expect(waiting[0]?.place()).toBe('b')
  })

  it('is forgotten by its sessions, also when it comes back', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    ;(await replicas.call(1)).release()
    replicas.add('b', 'http://b')
    replicas.remove('a')
    await replicas.settle()
    const moved = await replicas.call(1)
    expect(moved.place()).toBe('b')
    moved.release()
    expect(replicas.add('a', 'http://a')).toEqual({ ok: true })
    await replicas.settle()
    expect((await replicas.call(1)).place()).toBe('b')
    expect((await replicas.call(2)).place()).toBe('a')
  })

  it('counts no prompt any more, whosever session it was', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    const call = await replicas.call(1)
    replicas.add('b', 'http://b')
    await replicas.settle()
    const count = (): Promise<number | null> => replicas.pool.countTokens(sessionId('1'), () => ({ kind: 'text', text: 'hello' }))
    expect(await count()).toBe(7)
    replicas.remove('a')
    expect(await count()).toBe(7)
    const counted = (url: string): number => replicas.host(url).asked.filter(({ path }) => path === '/tokenize').length
    expect([counted('http://a'), counted('http://b')]).toEqual([1, 1])
    call.release()
    replicas.remove('b')
    expect(await count()).toBeNull()
  })

  it('counts no prompt while it does not serve, also for its own sessions', async () => {
    replicas = openReplicas({
      model: 'policy',
      limits: { inFlight: 4, line: 8, downAfter: 1, probeBackoffMs: { first: 500, longest: 4_000 } },
    })
    replicas.host('http://dead').isUp = false
    replicas.add('dead', 'http://dead')
    await replicas.settle()
    const count = (): Promise<number | null> => replicas.pool.countTokens(sessionId('1'), () => ({ kind: 'text', text: 'hello' }))
    const counted = (url: string): number => replicas.host(url).asked.filter(({ path }) => path === '/tokenize').length
    expect([await count(), counted('http://dead')]).toEqual([null, 0])
    replicas.add('a', 'http://a')
    await replicas.settle()
    const call = await replicas.call(1)
    replicas.add('b', 'http://b')
    await replicas.settle()
    expect([await count(), counted('http://a')]).toEqual([7, 1])
    replicas.host('http://a').isUp = false
    call.release('unreachable')
    await replicas.settle()
    expect([await count(), counted('http://a'), counted('http://b')]).toEqual([7, 1, 1])
  })

  it('keeps the place of a call that is cancelled until its generation has ended', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    const call = await replicas.call(1)
    call.abort()
    expect((await replicas.views()).map(({ inFlight }) => inFlight)).toEqual([1])
    call.release('cancelled')
    expect((await replicas.views()).map(({ inFlight }) => inFlight)).toEqual([0])
  })

  it('is not shown when it goes while it is asked for its state', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    replicas.add('b', 'http://b')
    await replicas.settle()
    const views = replicas.set.views()
    replicas.remove('a')
    await replicas.settle()
    expect((await views).map(({ id }) => id)).toEqual(['b'])
  })

  it('may be added again while its last call runs, and shares its connection with it', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    const old = await replicas.call(1)
    replicas.remove('a')
    expect(replicas.add('a', 'http://a')).toEqual({ ok: true })
    expect(await replicas.states()).toEqual(['a up', 'a removing'])
    expect(replicas.host('http://a').connections).toBe(1)
    const next = await replicas.call(1)
    expect(next.place()).toBe('a')
    old.release()
    await replicas.settle()
    expect(await replicas.states()).toEqual(['a up'])
    expect(replicas.host('http://a').connections).toBe(1)
  })

  it('leaves nobody serving when it was the last, and is heard of when it is back', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    const held = await replicas.call(1)
    expect(replicas.serving).toEqual([true])
    replicas.remove('a')
    // At once, although a call still runs.
    expect(replicas.serving).toEqual([true, false])
    expect((await replicas.call(2)).place()).toBe('engine-unreachable: there is no inference server; try again later')
    held.release()
    await replicas.settle()
    expect(replicas.serving).toEqual([true, false])
    replicas.add('a', 'http://a')
    await replicas.settle()
    expect(replicas.serving).toEqual([true, false, true])
    expect((await replicas.call(2)).place()).toBe('a')
  })

  it('while it is down, or not yet probed, is not asked again', async () => {
    replicas = openReplicas()
    replicas.host('http://down').isUp = false
    replicas.host('http://slow').hangs = true
    replicas.add('down', 'http://down')
    replicas.add('slow', 'http://slow')
    await replicas.settle()
    const waiting = await replicas.call(1)
    expect(waiting.place()).toBe('waiting')
    replicas.remove('down')
    replicas.remove('slow')
    await replicas.settle()
    expect(waiting.place()).toMatch(/^engine-unreachable/)
    const asked = replicas.host('http://down').asked.length
    await replicas.world.advance(120_000)
    expect(replicas.host('http://down').asked).toHaveLength(asked)
    expect(replicas.serving).toEqual([])
    expect(['http://down', 'http://slow'].map((url) => replicas.host(url).connections)).toEqual([0, 0])
  })

  it('leaves its training sessions with the reason why the rest cannot serve them', async () => {
    replicas = openReplicas()
    replicas.host('http://b').trains = false
    replicas.add('a', 'http://a')
    replicas.add('b', 'http://b')
    await replicas.settle()
    const training = await replicas.call(1, 'train')
    expect(training.place()).toBe('a')
    replicas.remove('a')
    expect((await replicas.call(1, 'train')).place()).toMatch(/^not-trainable: replica b cannot serve training sessions: ids-missing/)
    expect((await replicas.call(2, 'eval')).place()).toBe('b')
    expect(replicas.serving).toEqual([true])
  })

  it.each([
    ['nobody', 'unknown', 'there is no replica nobody'],
    ['ranked@0', 'part', 'ranked@0 is a part of replica ranked: remove that'],
    ['router/worker', 'part', 'router/worker is a part of replica router: remove that'],
    ['nobody@0', 'unknown', 'there is no replica nobody@0'],
  ])('must be there by itself: %s', async (id, error, detail) => {
    replicas = openReplicas()
    replicas.host('http://router').lists = { '/workers': { workers: [{ url: 'http://worker' }] } }
    replicas.add('ranked', 'http://ranked', { ranks: 2 })
    replicas.add('router', 'http://router', { router: true })
    await replicas.settle()
    expect(replicas.remove(id)).toEqual({ ok: false, error, detail })
    expect(await replicas.states()).toEqual(['router up', 'ranked@0 up', 'ranked@1 up', 'router/worker up'])
  })
})

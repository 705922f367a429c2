// A pause of all replicas of a gateway thread: what is held, what goes on, and what reaches an engine meanwhile.
import { afterEach, describe, expect, it } from 'vitest'
import type { PauseOutcome } from '../../src/proxy/boundary.ts'
import { openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'
import { openReplicas, type Replicas } from '../lib/replica-fixture.ts'

const LONG_MS = 300_000

describe('the places of a paused gateway', () => {
  let replicas: Replicas
  afterEach(async () => {
    await replicas.close()
    expect([replicas.kernel.stats().actors, replicas.timers()]).toEqual([0, 0])
  })

  async function pause(timeoutMs = LONG_MS): Promise<() => PauseOutcome | null> {
    let ended: PauseOutcome | null = null
    void replicas.pool.pause(timeoutMs).then((outcome) => {
      ended = outcome
    })
    await replicas.settle()
    return () => ended
  }

  it('are given to nobody new; those who have one keep it, and those in line stay there', async () => {
    replicas = openReplicas({ limits: { inFlight: 1, line: 8, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    await replicas.settle()
    const [running, inLine] = [await replicas.call(1), await replicas.call(2)]
    const paused = await pause()
    const late = await replicas.call(3)
    expect([[running, inLine, late].map((call) => call.place()), paused(), replicas.pool.counts()]).toEqual([
      ['a', 'waiting', 'waiting'],
      null,
      { inFlight: 1, waiting: 2 },
    ])
    running.release()
    await replicas.settle()
    expect([paused(), inLine.place(), late.place(), await replicas.states()]).toEqual(['paused', 'waiting', 'waiting', ['a paused']])
    replicas.pool.resume()
    await replicas.settle()
    expect([inLine.place(), late.place(), await replicas.states()]).toEqual(['a', 'waiting', ['a up']])
    inLine.release()
    await replicas.settle()
    expect(late.place()).toBe('a')
  })

  it('are taken back from a call whose grant was on its way when the pause came', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    let paused: Promise<PauseOutcome> | null = null
    const stop = replicas.kernel.inspect(({ message }) => {
      if ((message as { readonly type: string }).type === 'acquire') paused ??= replicas.pool.pause(LONG_MS)
    })
    const call = await replicas.call(1)
    stop()
    expect([await paused, call.place(), replicas.pool.counts()]).toEqual(['paused', 'waiting', { inFlight: 0, waiting: 1 }])
    replicas.pool.resume()
    await replicas.settle()
    expect([call.place(), (await replicas.views())[0]?.inFlight]).toEqual(['a', 1])
  })

  it('are no business of a call that waits longer in the pause than it may wait for one', async () => {
    replicas = openReplicas({ limits: { inFlight: 1, line: 2, downAfter: 3, probeBackoffMs: { first: 500, longest: 4_000 } } })
    replicas.add('a', 'http://a')
    await replicas.settle()
    const [running, inLine] = [await replicas.call(1), await replicas.call(2)]
    await pause()
    running.release()
    const held = [await replicas.call(3), await replicas.call(4)]
    await replicas.world.advance(700_000)
    expect([inLine, ...held].map((call) => call.place())).toEqual(['waiting', 'waiting', 'waiting'])
    replicas.pool.resume()
    await replicas.settle()
    expect([inLine, ...held].map((call) => call.place()).sort()).toEqual(['a', 'waiting', 'waiting'])
  })

  it('are not looked for by probes: of one that is added, of one that is down, of one that was about to be asked', async () => {
    replicas = openReplicas()
    replicas.host('http://down').isUp = false
    replicas.host('http://hangs').hangs = true
    replicas.add('down', 'http://down')
    replicas.add('hangs', 'http://hangs')
    await replicas.settle()
    await pause()
    replicas.add('new', 'http://new')
    const asked = (): number => ['http://down', 'http://hangs', 'http://new'].reduce((sum, url) => sum + replicas.host(url).asked.length, 0)
    const before = asked()
    replicas.host('http://down').isUp = true
    // Its answer comes to a probe that was given up.
    replicas.host('http://hangs').thaw()
    await replicas.world.advance(LONG_MS)
    expect([asked() - before, await replicas.states()]).toEqual([0, ['down paused', 'hangs paused', 'new paused']])
    const call = await replicas.call(1)
    replicas.pool.resume()
    await replicas.world.advance(5_000)
    expect([await replicas.states(), call.place()]).toEqual([
      ['down up', 'hangs up', 'new up'],
      expect.stringMatching(/^(down|hangs|new)$/),
    ])
  })

  it('come with the first server, where there was none', async () => {
    replicas = openReplicas()
    await pause()
    const call = await replicas.call(1)
    replicas.add('a', 'http://a')
    await replicas.world.advance(60_000)
    expect(call.place()).toBe('waiting')
    replicas.pool.resume()
    await replicas.world.advance(1_000)
    expect((await replicas.call(2)).place()).toBe('a')
  })

  it('are held by a call that leaves no more', async () => {
    replicas = openReplicas()
    replicas.add('a', 'http://a')
    await replicas.settle()
    const [running, held] = [await replicas.call(1), await replicas.call(2)]
    const paused = await pause()
    held.abort()
    running.abort()
    running.release('cancelled')
    held.release('cancelled')
    await replicas.settle()
    expect([paused(), replicas.pool.counts()]).toEqual(['paused', { inFlight: 0, waiting: 0 }])
  })
})

describe('the agents of a paused gateway', () => {
  let proxy: ProxyFixture
  afterEach(() => proxy.close())
  const streaming = { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true }

  it('notice nothing: plain calls wait, streams get their beats, and nothing reaches an engine', async () => {
    proxy = openProxy({ replicas: 2 })
    await proxy.settle()
    expect(await proxy.boundary.pause(LONG_MS)).toBe('paused')
    const [plain, stream] = [await proxy.chat(proxy.openDoor()), await proxy.chat(proxy.openDoor(), streaming)]
    await proxy.world.advance(100_000)
    expect([proxy.generations.length, plain.status(), stream.status()]).toEqual([0, null, 200])
    const beats = stream.events().length
    expect(beats).toBeGreaterThanOrEqual(9)
    const asked = proxy.boundary.inference()
    await proxy.settle()
    expect(await asked).toMatchObject({
      paused: true,
      inFlight: 0,
      waiting: 2,
      replicas: [{ state: 'paused', engine: 'vllm' }, { state: 'paused' }],
    })
    proxy.boundary.resume()
    await proxy.settle()
    expect(proxy.generations).toHaveLength(2)
    for (const generation of proxy.generations) generation.answer()
    await proxy.settle()
    expect([plain.status(), stream.events().at(-1)]).toEqual([200, '[DONE]'])
    expect(stream.events().length).toBeGreaterThan(beats)
  })

  it('are answered what was in flight, and an aborted generation is repeated after the pause', async () => {
    proxy = openProxy()
    await proxy.settle()
    const sink = await proxy.chat(proxy.openDoor())
    const paused = proxy.boundary.pause(LONG_MS)
    proxy.generations[0]?.answer({ finish: 'abort' })
    expect(await paused).toBe('paused')
    await proxy.world.advance(60_000)
    expect(proxy.generations).toHaveLength(1)
    proxy.boundary.resume()
    await proxy.settle()
    proxy.generations[1]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
  })

  it('are not told of an outage that lies in the pause: engines sleep in it, and wake after it', async () => {
    const dead = new Set([0])
    proxy = openProxy({ dead, settings: { outageMs: 60_000 } })
    await proxy.settle()
    const sink = await proxy.chat(proxy.openDoor())
    await proxy.world.advance(30_000)
    await proxy.boundary.pause(LONG_MS)
    await proxy.world.advance(200_000)
    proxy.boundary.resume()
    await proxy.settle()
    expect(sink.status()).toBeNull()
    dead.clear()
    await proxy.world.advance(30_000)
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
  })

  it('wait behind those that are held as long as the pause lasts, and no longer than they may after it', async () => {
    proxy = openProxy({ settings: { callsPerSession: 1, holdDeadlineMs: 30_000 } })
    await proxy.settle()
    const door = proxy.openDoor()
    await proxy.boundary.pause(LONG_MS)
    await proxy.chat(door)
    const behind = await proxy.chat(door, { ...streaming, stream: false, user: 'another' })
    await proxy.world.advance(200_000)
    expect(behind.status()).toBeNull()
    proxy.boundary.resume()
    await proxy.world.advance(30_000)
    expect(behind.status()).toBe(429)
  })

  it('keep their sessions: one may end in a pause, and a boundary may close in it', async () => {
    proxy = openProxy()
    await proxy.settle()
    const [ending, staying] = [proxy.openDoor(), proxy.openDoor()]
    await proxy.boundary.pause(LONG_MS)
    await proxy.chat(ending)
    await proxy.chat(staying)
    expect((await ending.seal()).calls).toMatchObject([{ status: 'cancelled' }])
    await proxy.boundary.close()
    expect((await staying.seal()).calls).toMatchObject([{ status: 'cancelled' }])
  })
})

// Eight replicas and one: who serves whom, who steps in, and what a caller is told when nobody can.
import { describe, expect, it } from 'vitest'
import { openProxy } from '../lib/proxy-fixture.ts'

const ask = (text: string) => ({ model: 'm', messages: [{ role: 'user', content: text }] })

describe('eight replicas', () => {
  it('share new sessions evenly, and each session stays where its prefix is', async () => {
    const proxy = openProxy({ replicas: 8, settings: { replica: SMALL } })
    const doors = Array.from({ length: 16 }, () => proxy.openDoor())
    for (const door of doors) await proxy.chat(door, ask('first'))
    const homes = proxy.generations.map(({ url }) => url)
    expect(new Set(homes.slice(0, 8)).size).toBe(8)
    expect(new Set(homes.slice(8)).size).toBe(8)
    for (const generation of proxy.generations) generation.answer()
    await proxy.settle()
    for (const door of doors.toReversed()) await proxy.chat(door, ask('second'))
    expect(proxy.generations.slice(16).map(({ url }) => url)).toEqual(homes.toReversed())
  })

  it('count who lives with them before who calls at this moment', async () => {
    const proxy = openProxy({ replicas: 2, settings: { replica: SMALL } })
    const [busy, quiet] = [proxy.openDoor(), proxy.openDoor()]
    await proxy.chat(busy, ask('a'))
    await proxy.chat(quiet, ask('a'))
    await proxy.chat(proxy.openDoor(), ask('a'))
    const homes = proxy.generations.map(({ url }) => url)
    // Whoever has two sessions waits for the tools of both.
    for (const generation of proxy.generations) generation.answer()
    await proxy.settle()
    await proxy.chat(quiet, ask('b'))
    await proxy.chat(proxy.openDoor(), ask('a'))
    expect(proxy.generations[4]?.url).toBe(homes[1])
  })

  it('spill over while the home is full, and return to it', async () => {
    const proxy = openProxy({ replicas: 2, settings: { replica: { ...SMALL, inFlight: 1 } } })
    const door = proxy.openDoor()
    await proxy.chat(door, ask('a'))
    await proxy.chat(door, ask('b'))
    const [home, other] = proxy.generations.map(({ url }) => url)
    expect(other).not.toBe(home)
    await proxy.chat(door, ask('c'))
    expect(proxy.generations).toHaveLength(2)
    for (const generation of proxy.generations) generation.answer()
    await proxy.settle()
    expect(proxy.generations[2]?.url).toBe(home)
  })

  it('take over a call whose replica breaks, and its session when the replica is down', async () => {
    const proxy = openProxy({ replicas: 2, settings: { replica: { ...SMALL, downAfter: 1 } } })
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, ask('a'))
    const home = proxy.generations[0]?.url
    proxy.generations[0]?.fail('reset')
    await proxy.world.advance(300)
    expect(proxy.generations[1]?.url).not.toBe(home)
    proxy.generations[1]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
    await proxy.chat(door, ask('b'))
    expect(proxy.generations[2]?.url).toBe(proxy.generations[1]?.url)
    const { calls } = await door.seal()
    expect(calls[0]).toMatchObject({ status: 'ok', diagnostics: [{ code: 'replica-unreachable' }] })
  })

  it('take over a call before the broken replica counts as down, and give its session back', async () => {
    const proxy = openProxy({ replicas: 2, settings: { replica: SMALL } })
    const door = proxy.openDoor()
    await proxy.chat(door, ask('a'))
    const home = proxy.generations[0]?.url
    proxy.generations[0]?.fail('reset')
    await proxy.world.advance(300)
    expect(proxy.generations[1]?.url).not.toBe(home)
    await proxy.chat(door, ask('b'))
    expect(proxy.generations[2]?.url).toBe(home)
  })

  it('keep the sessions they took over when the old home returns', async () => {
    const proxy = openProxy({ replicas: 2, settings: { replica: { ...SMALL, downAfter: 1 } } })
    const door = proxy.openDoor()
    await proxy.chat(door, ask('a'))
    proxy.generations[0]?.fail('reset')
    await proxy.world.advance(300)
    proxy.generations[1]?.answer()
    await proxy.settle()
    await proxy.chat(door, ask('b'))
    proxy.generations[2]?.answer()
    await proxy.world.advance(60_000)
    expect((await proxy.replicas()).map(({ state }) => state)).toEqual(['up', 'up'])
    await proxy.chat(door, ask('c'))
    expect(proxy.generations[3]?.url).toBe(proxy.generations[1]?.url)
  })

  it('forget a session when its door closes', async () => {
    const proxy = openProxy({ replicas: 2 })
    const doors = [proxy.openDoor(), proxy.openDoor()]
    for (const door of doors) {
      await proxy.chat(door, ask('x'))
      proxy.generations.at(-1)?.answer()
      await proxy.settle()
    }
    doors[1]?.close()
    await proxy.chat(proxy.openDoor(), ask('x'))
    expect(proxy.generations[2]?.url).toBe(proxy.generations[1]?.url)
  })

  it('are avoided while they fail their probes, and used once they pass', async () => {
    const dead = new Set([0])
    const proxy = openProxy({ replicas: 2, dead })
    await proxy.settle()
    const doors = [proxy.openDoor(), proxy.openDoor()]
    for (const door of doors) await proxy.chat(door, ask('x'))
    expect(proxy.generations.map(({ url }) => url)).toEqual(['http://engine-1', 'http://engine-1'])
    dead.clear()
    await proxy.world.advance(60_000)
    await proxy.chat(proxy.openDoor(), ask('x'))
    expect(proxy.generations[2]?.url).toBe('http://engine-0')
  })

  it('that cannot train serve evaluation only', async () => {
    const proxy = openProxy({ replicas: 2, untrainable: new Set([0, 1]) })
    await proxy.settle()
    const door = proxy.openDoor({ tier: 'train' })
    const train = await proxy.chat(door, ask('x'))
    expect([train.status(), train.text()]).toEqual([403, expect.stringContaining('ids-missing')])
    // The policy is not to blame for a server that gives no ids.
    expect((await door.seal()).upstreamFailures).toBe(1)
    const evaluation = await proxy.chat(proxy.openDoor({ tier: 'eval' }), ask('x'))
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(evaluation.status()).toBe(200)
  })
})

describe('one endpoint', () => {
  it('serves all sessions up to its cap; the rest wait, then are told to come back', async () => {
    const proxy = openProxy({ settings: { replica: { ...SMALL, inFlight: 2, line: 1 } } })
    const sinks = [await proxy.chat(proxy.openDoor()), await proxy.chat(proxy.openDoor()), await proxy.chat(proxy.openDoor())]
    const refused = await proxy.chat(proxy.openDoor())
    expect(proxy.generations).toHaveLength(2)
    expect([refused.status(), refused.headers()['retry-after']]).toEqual([429, '2'])
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(proxy.generations).toHaveLength(3)
    expect(sinks.map((sink) => sink.status())).toEqual([200, null, null])
  })

  it('that is down is waited for as long as an outage may last, then told as 503 with a time', async () => {
    const proxy = openProxy({ dead: new Set([0]), settings: { outageMs: 20_000 } })
    await proxy.settle()
    const sink = await proxy.chat(proxy.openDoor())
    await proxy.world.advance(19_000)
    expect(sink.status()).toBeNull()
    await proxy.world.advance(2_000)
    expect([sink.status(), sink.headers()['retry-after']]).toEqual([503, expect.stringMatching(/^[1-9]/)])
    expect(proxy.generations).toHaveLength(0)
  })

  it('that comes back within its outage answers as if it had not been away', async () => {
    const dead = new Set([0])
    const proxy = openProxy({ dead, settings: { outageMs: 60_000 } })
    await proxy.settle()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    await proxy.world.advance(20_000)
    dead.clear()
    await proxy.world.advance(30_000)
    expect(proxy.generations).toHaveLength(1)
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
    expect((await door.seal()).calls).toMatchObject([{ status: 'ok' }])
  })

  it('that took the call after one outage is waited for anew in the next', async () => {
    const dead = new Set<number>()
    const proxy = openProxy({ dead, settings: { replica: { ...SMALL, downAfter: 1 }, outageMs: 60_000 } })
    const sink = await proxy.chat(proxy.openDoor())
    proxy.generations[0]?.fail('refused')
    await proxy.world.advance(10_000)
    expect(proxy.generations).toHaveLength(2)
    // It generates for longer than an outage may last.
    await proxy.world.advance(100_000)
    dead.add(0)
    proxy.generations[1]?.fail('reset')
    await proxy.world.advance(10_000)
    expect(sink.status()).toBeNull()
    dead.clear()
    await proxy.world.advance(40_000)
    proxy.generations[2]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
  })

  it('that is down for an agent that leaves keeps nothing of its call', async () => {
    const proxy = openProxy({ dead: new Set([0]) })
    await proxy.settle()
    const door = proxy.openDoor()
    await proxy.chat(door)
    expect((await door.seal()).calls).toMatchObject([{ status: 'cancelled' }])
  })

  it('that breaks what it was sent is tried again in a bounded number of sends: it may be the call that it dies of', async () => {
    const proxy = openProxy({ settings: { replica: { ...SMALL, downAfter: 9 } } })
    const sink = await proxy.chat(proxy.openDoor())
    for (const index of [0, 1, 2]) {
      proxy.generations[index]?.fail('reset')
      await proxy.world.advance(2_000)
    }
    expect(proxy.generations).toHaveLength(3)
    expect(sink.status()).toBe(503)
  })

  it('that takes nothing at the moment is asked again, later each time, and the outage is one finding', async () => {
    const proxy = openProxy({ settings: { replica: { ...SMALL, downAfter: 99 }, outageMs: 60_000 } })
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    for (let index = 0; index < 6; index += 1) {
      proxy.generations[index]?.fail('refused')
      await proxy.world.advance(2_000)
    }
    proxy.generations[6]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
    expect((await door.seal()).calls).toMatchObject([{ status: 'ok', diagnostics: [{ code: 'replica-unreachable' }] }])
  })

  it('that loads its model is waited for like one that is down', async () => {
    const proxy = openProxy({ settings: { outageMs: 60_000 } })
    const sink = await proxy.chat(proxy.openDoor())
    for (let index = 0; index < 2; index += 1) {
      proxy.generations[index]?.respond(503, { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } })
      await proxy.world.advance(2_000)
    }
    proxy.generations[2]?.answer()
    await proxy.settle()
    expect(sink.status()).toBe(200)
  })

  it('gives its place back when the caller in line leaves for good', async () => {
    const proxy = openProxy({ settings: { replica: { ...SMALL, inFlight: 1 } } })
    await proxy.chat(proxy.openDoor())
    const waiting = await proxy.chat(proxy.openDoor())
    waiting.leave()
    await proxy.world.advance(20_000)
    expect(await proxy.replicas()).toMatchObject([{ inFlight: 1, waiting: 0 }])
    proxy.generations[0]?.answer()
    await proxy.settle()
    expect(proxy.generations).toHaveLength(1)
    expect(await proxy.replicas()).toMatchObject([{ inFlight: 0, waiting: 0 }])
  })

  it('lets nobody wait in its line for ever', async () => {
    const proxy = openProxy({ settings: { replica: { ...SMALL, inFlight: 1 }, acquireDeadlineMs: 50_000 } })
    await proxy.chat(proxy.openDoor())
    const waiting = await proxy.chat(proxy.openDoor())
    await proxy.world.advance(50_000)
    expect(waiting.status()).toBe(429)
    expect(await proxy.replicas()).toMatchObject([{ inFlight: 1, waiting: 0 }])
  })
})

describe('a session', () => {
  it('runs eight calls at once, holds further ones in line, and refuses beyond it', async () => {
    const proxy = openProxy({ settings: { linePerSession: 2 } })
    const door = proxy.openDoor()
    const sinks = []
    for (let index = 0; index < 11; index += 1) sinks.push(await proxy.chat(door, ask(`${index}`)))
    expect(proxy.generations).toHaveLength(8)
    expect(sinks[10]?.status()).toBe(429)
    expect(sinks[9]?.status()).toBeNull()
    // Another session is not held up by this one.
    await proxy.chat(proxy.openDoor(), ask('other'))
    expect(proxy.generations).toHaveLength(9)
    proxy.generations[3]?.answer()
    await proxy.settle()
    expect(proxy.generations[9]?.body).toMatchObject({ messages: [{ content: '8' }] })
    const { calls } = await door.seal()
    expect(calls).toHaveLength(10)
  })

  it('is told so when its held call has waited too long', async () => {
    const proxy = openProxy({ settings: { callsPerSession: 1, holdDeadlineMs: 30_000 } })
    const door = proxy.openDoor()
    await proxy.chat(door, ask('a'))
    const held = await proxy.chat(door, ask('b'))
    await proxy.world.advance(30_000)
    expect([held.status(), held.headers()['retry-after']]).toEqual([429, '2'])
    const sealed = await door.seal()
    expect(sealed.upstreamFailures).toBe(0)
  })

  it('has a bounded number of calls', async () => {
    const proxy = openProxy({ settings: { maxCallsPerSession: 1 } })
    const door = proxy.openDoor()
    await proxy.chat(door, ask('a'))
    expect((await proxy.chat(door, ask('b'))).text()).toContain('budget of 1 model call is used up')
    expect(proxy.facts.map(({ type }) => type)).toEqual(['call-opened', 'budget-spent'])
  })
})

const SMALL = { inFlight: 4, line: 8, downAfter: 3, probeBackoffMs: { first: 500, longest: 30_000 } }

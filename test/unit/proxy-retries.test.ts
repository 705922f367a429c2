// A turn asked again: how often its failures are told as passing, what makes it the same turn, and which answer it may be given.
import { describe, expect, it } from 'vitest'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const STREAM = { ...HELLO, stream: true }

describe('a turn that keeps failing', () => {
  it('is told as a passing failure twice, then as a refusal, until it is answered', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const statuses: (number | null)[] = []
    const ask = async (respond: (generation: (typeof proxy.generations)[number]) => void): Promise<void> => {
      const sink = await proxy.chat(door)
      const generation = proxy.generations.at(-1)
      if (generation !== undefined) respond(generation)
      await proxy.settle()
      statuses.push(sink.status())
      expect(sink.headers()['x-should-retry']).toBe(sink.status() === 400 ? 'false' : undefined)
    }
    for (let time = 0; time < 4; time += 1) await ask((generation) => generation.respond(500, {}))
    await ask((generation) => generation.answer())
    await ask((generation) => generation.respond(500, {}))
    expect(statuses).toEqual([500, 500, 400, 400, 200, 500])
    // What the engine did stands on the records.
    const { calls } = await door.seal()
    expect(calls.map(({ httpStatus }) => httpStatus)).toEqual([500, 500, 500, 500, 200, 500])
  })

  it('is told to come back later each time while every server is busy', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const told: unknown[] = []
    for (let time = 0; time < 5; time += 1) {
      const sink = await proxy.chat(door)
      proxy.generations.at(-1)?.respond(429, {}, { 'retry-after': '1' })
      await proxy.settle()
      told.push([sink.status(), sink.headers()['retry-after']])
    }
    expect(told).toEqual([
      [429, '1'],
      [429, '2'],
      [429, '4'],
      [429, '8'],
      [400, undefined],
    ])
  })

  it.each([
    [429, {}, '1'],
    [503, {}, '1'],
    [429, { 'retry-after': '7' }, '7'],
    [500, {}, undefined],
  ])('is told after %i of an engine that says %o when to come back: %s', async (status, headers, retryAfter) => {
    const proxy = openProxy()
    const sink = await proxy.chat(proxy.openDoor())
    proxy.generations.at(-1)?.respond(status, {}, headers)
    await proxy.settle()
    expect([sink.status(), sink.headers()['retry-after']]).toEqual([status, retryAfter])
  })

  it('has its status kept free for the last word, however long that takes', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const statuses: (number | null)[] = []
    for (let time = 0; time < 3; time += 1) {
      const sink = await proxy.chat(door, STREAM)
      await proxy.world.advance(30_000)
      proxy.generations.at(-1)?.respond(500, {})
      await proxy.settle()
      statuses.push(sink.status())
    }
    expect(statuses).toEqual([200, 200, 400])
  })

  it('keeps no client waiting for a head while a pause holds it', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const ask = () => proxy.chat(door, STREAM)
    for (let time = 0; time < 2; time += 1) {
      await ask()
      proxy.generations.at(-1)?.respond(500, {})
      await proxy.settle()
    }
    expect(await proxy.boundary.pause(1_000)).toBe('paused')
    const held = await ask()
    await proxy.world.advance(60_000)
    expect(held.status()).toBe(200)
    // The last word after the head is a cut; who asks again is told it by its status.
    proxy.boundary.resume()
    await proxy.world.advance(1_000)
    proxy.generations.at(-1)?.respond(500, {})
    await proxy.settle()
    expect(held.isDestroyed()).toBe(true)
    const last = await ask()
    await proxy.world.advance(30_000)
    proxy.generations.at(-1)?.respond(500, {})
    await proxy.settle()
    expect(last.status()).toBe(400)
  })

  it('is not one whose client left it', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    for (let time = 0; time < 3; time += 1) {
      const sink = await proxy.chat(door)
      sink.leave()
      await proxy.world.advance(20_000)
      expect(proxy.generations.at(-1)?.isCancelled()).toBe(true)
    }
    const sink = await proxy.chat(door)
    proxy.generations.at(-1)?.respond(500, {})
    await proxy.settle()
    expect(sink.status()).toBe(500)
  })

  it('does not spoil another one', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    for (let time = 0; time < 3; time += 1) {
      const sink = await proxy.chat(door, { ...HELLO, messages: [{ role: 'user', content: `question ${time}` }] })
      proxy.generations.at(-1)?.respond(500, {})
      await proxy.settle()
      expect(sink.status()).toBe(500)
    }
  })
})

describe('a turn that was left', () => {
  it.each([
    ['as a plain request', STREAM, HELLO],
    ['under another model’s name', HELLO, { ...HELLO, model: 'another' }],
    ['with room for more', { ...HELLO, max_tokens: 100 }, { ...HELLO, max_tokens: 200 }],
    ['with room for as much as was said', { ...HELLO, max_tokens: 100 }, { ...HELLO, max_tokens: 3 }],
    ['without a limit', { ...HELLO, max_tokens: 100 }, HELLO],
  ])('and is asked again %s gets its answer', async (_how, first, second) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, first)
    sink.leave()
    proxy.generations[0]?.answer()
    await proxy.settle()
    const again = await proxy.chat(door, second)
    expect(again.status()).toBe(200)
    expect(proxy.generations).toHaveLength(1)
    expect((await door.seal()).calls).toMatchObject([{ status: 'ok', delivery: 'yes', retryOf: null }])
  })

  it.each([
    ['with less room than was used', { ...HELLO, max_tokens: 100 }, { ...HELLO, max_tokens: 2 }, 'stop'],
    ['with more room than had cut it', { ...HELLO, max_tokens: 3 }, { ...HELLO, max_tokens: 200 }, 'length'],
  ])('and is asked again %s is generated anew, as a retry', async (_how, first, second, finish) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, first)
    sink.leave()
    proxy.generations[0]?.answer({ finish })
    await proxy.settle()
    await proxy.chat(door, second)
    expect(proxy.generations).toHaveLength(2)
    proxy.generations[1]?.answer()
    await proxy.settle()
    const { calls } = await door.seal()
    expect(calls[1]).toMatchObject({ retryOf: calls[0]?.id, digest: calls[0]?.digest })
  })
})

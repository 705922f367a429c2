// Clients that leave and come back: one generation per turn, whenever the connection breaks, and none for nobody.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { knownSessionId } from '../../src/contract/ids.ts'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const STREAM = { ...HELLO, stream: true }
const LINGER = 20_000

describe('a client that leaves', () => {
  it.each([HELLO, STREAM])('ST-02: keeps its generation for the linger, then no longer: %o', async (body) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, body)
    sink.leave()
    await proxy.world.advance(LINGER - 1)
    expect(proxy.generations[0]?.isCancelled()).toBe(false)
    await proxy.world.advance(1)
    expect(proxy.generations[0]?.isCancelled()).toBe(true)
    await proxy.settle()
    const sealed = await door.seal()
    expect(sealed.calls).toMatchObject([{ status: 'cancelled', delivery: 'no', responseMessage: null }])
    expect(sealed.tokens.calls[0]).toMatchObject({ promptLength: 0, sampledLength: 0 })
    expect(sealed.upstreamFailures).toBe(0)
    expect((await proxy.replicas())[0]).toMatchObject({ inFlight: 0, waiting: 0 })
  })

  // Before the head, after the head, and after the engine's answer: as a stream and plain, then back as a stream and plain.
  const matrix = [false, true].flatMap((first) =>
    [false, true].flatMap((second) => ['waiting', 'committed', 'answered'].map((moment) => ({ first, second, moment }))),
  )
  it.each(matrix)(
    'and asks again gets the same generation: stream $first, left $moment, back with stream $second',
    async ({ first, second, moment }) => {
      const proxy = openProxy()
      const door = proxy.openDoor()
      const sink = await proxy.chat(door, { ...HELLO, stream: first })
      if (moment === 'committed') await proxy.world.advance(6_000)
      sink.leave()
      if (moment === 'answered') proxy.generations[0]?.answer()
      await proxy.world.advance(5_000)
      const again = await proxy.chat(door, { ...HELLO, stream: second })
      expect(proxy.generations).toHaveLength(1)
      if (moment !== 'answered') proxy.generations[0]?.answer()
      await proxy.settle()
      expect(again.status()).toBe(200)
      expect(again.text()).toContain('Hello.')
      expect(again.text().endsWith('[DONE]\n\n')).toBe(second)
      await proxy.world.advance(LINGER * 2)
      const sealed = await door.seal()
      expect(sealed.calls).toMatchObject([{ status: 'ok', delivery: 'yes', retryOf: null }])
      expect(proxy.records.at(-1)).toEqual(sealed.calls[0])
      expect(proxy.generations).toHaveLength(1)
    },
  )

  it('and comes back too late gets a new generation, marked as a retry', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    sink.leave()
    await proxy.world.advance(LINGER)
    await proxy.chat(door)
    proxy.generations[1]?.answer()
    await proxy.settle()
    const { calls } = await door.seal()
    expect(calls).toMatchObject([{ status: 'cancelled' }, { status: 'ok' }])
    expect(calls[1]?.retryOf).toBe(calls[0]?.id)
    expect(calls[1]?.digest).toBe(calls[0]?.digest)
  })

  it('ST-06: whose stream was cut and who asks again without one retries, and is told so on the record', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const cut = await proxy.chat(door, STREAM)
    await proxy.world.advance(26_000)
    expect(cut.events()).toHaveLength(3)
    proxy.generations[0]?.respond(500, {})
    await proxy.settle()
    expect(cut.isDestroyed()).toBe(true)
    const again = await proxy.chat(door, HELLO)
    proxy.generations[1]?.answer()
    await proxy.settle()
    expect(again.status()).toBe(200)
    const { calls } = await door.seal()
    expect(calls).toMatchObject([{ status: 'failed', retryOf: null }, { status: 'ok' }])
    expect(calls[1]?.retryOf).toBe(calls[0]?.id)
  })

  it('and leaves again starts a new linger', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const first = await proxy.chat(door)
    first.leave()
    await proxy.world.advance(15_000)
    const second = await proxy.chat(door)
    second.leave()
    await proxy.world.advance(15_000)
    expect(proxy.generations[0]?.isCancelled()).toBe(false)
    await proxy.world.advance(5_000)
    expect(proxy.generations[0]?.isCancelled()).toBe(true)
  })

  it('never gets a failure from before it came back', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    sink.leave()
    proxy.generations[0]?.respond(500, {})
    await proxy.settle()
    await proxy.chat(door)
    expect(proxy.generations).toHaveLength(2)
  })

  it('before its body was read leaves no trace', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const headers = { authorization: `Bearer ${door.key}` }
    await proxy.send({ url: '/v1/chat/completions', headers, body: async () => ({ ok: false, error: 'gone' }) })
    expect(proxy.facts).toEqual([])
  })
})

describe('two open connections', () => {
  it('are two turns even when they ask the same', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sinks = [await proxy.chat(door), await proxy.chat(door)]
    expect(proxy.generations).toHaveLength(2)
    proxy.generations[0]?.answer({ message: { role: 'assistant', content: 'one' } })
    proxy.generations[1]?.answer({ message: { role: 'assistant', content: 'two' } })
    await proxy.settle()
    expect(sinks.map((sink) => JSON.stringify(sink.json()).match(/one|two/)?.[0])).toEqual(['one', 'two'])
    const { calls } = await door.seal()
    expect(calls[1]?.retryOf).toBe(calls[0]?.id)
  })

  it('of two sessions never share an answer', async () => {
    const proxy = openProxy()
    const left = await proxy.chat(proxy.openDoor())
    left.leave()
    await proxy.chat(proxy.openDoor())
    expect(proxy.generations).toHaveLength(2)
  })
})

describe('an answer that was delivered', () => {
  it('is not given twice: the same request is a new generation', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    await proxy.chat(door)
    proxy.generations[0]?.answer()
    await proxy.settle()
    await proxy.chat(door)
    expect(proxy.generations).toHaveLength(2)
  })
})

describe('sealing', () => {
  it('refuses new calls, cancels running ones at once, cuts their connections and waits for their records', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const plain = await proxy.chat(door)
    const stream = await proxy.chat(door, { ...STREAM, messages: [{ role: 'user', content: 'other' }] })
    const lingering = await proxy.chat(door, { ...HELLO, messages: [{ role: 'user', content: 'third' }] })
    lingering.leave()
    await proxy.world.advance(6_000)
    const sealing = door.seal()
    expect(proxy.generations.map((generation) => generation.isCancelled())).toEqual([true, true, true])
    const late = await proxy.chat(door)
    expect(late.status()).toBe(403)
    const sealed = await sealing
    expect(sealed.calls.map(({ status }) => status)).toEqual(['cancelled', 'cancelled', 'cancelled'])
    expect(sealed.tokens.calls).toHaveLength(3)
    expect([plain.isDestroyed(), stream.isDestroyed()]).toEqual([true, true])
    expect(proxy.generations).toHaveLength(3)
    expect(await door.seal()).toBe(sealed)
  })

  it('does not wait for a reader that has stopped', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door, STREAM)
    sink.block()
    proxy.generations[0]?.answer({ message: { role: 'assistant', content: 'x'.repeat(100_000) } })
    await proxy.settle()
    const { calls } = await door.seal()
    expect(calls).toMatchObject([{ status: 'ok', delivery: 'partial' }])
    expect(sink.isDestroyed()).toBe(true)
  })

  it('gives all memory back once released and closed, whoever asked for what', async () => {
    const proxy = openProxy()
    const answered = async () => {
      const door = proxy.openDoor()
      await proxy.chat(door)
      proxy.generations.at(-1)?.answer()
      await proxy.settle()
      return door
    }
    const [released, closed, unsealed] = [await answered(), await answered(), await answered()]
    await released.seal()
    released.releaseSealed()
    released.releaseSealed()
    released.close()
    await closed.seal()
    closed.close()
    unsealed.close()
    unsealed.close()
    const busy = await answered()
    await proxy.chat(busy, { ...HELLO, messages: [{ role: 'user', content: 'again' }] })
    busy.close()
    const hasty = await answered()
    await proxy.chat(hasty, { ...HELLO, messages: [{ role: 'user', content: 'again' }] })
    const sealing = hasty.seal()
    hasty.releaseSealed()
    await sealing
    hasty.close()
    await proxy.settle()
    expect(proxy.arena.stats()).toMatchObject({ leasedBlocks: 0 })
    expect((await proxy.chat(closed)).status()).toBe(401)
  })

  it('lets the session be opened again only after its door was closed', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const options = { session: knownSessionId(door.basePath.slice(3)), attempt: 2, tier: 'train' as const, pins: {}, notify: () => {} }
    expect(proxy.boundary.openDoor(options)).toMatchObject({ ok: false })
    door.close()
    const second = proxy.boundary.openDoor(options)
    expect(second.ok && second.door.key).not.toBe(door.key)
  })
})

describe('whatever the order of events', () => {
  const action = fc.oneof(
    fc.record({ type: fc.constant('ask' as const), digest: fc.integer({ min: 0, max: 2 }), stream: fc.boolean() }),
    fc.record({ type: fc.constant('leave' as const), at: fc.nat(20) }),
    fc.record({
      type: fc.constant('engine' as const),
      at: fc.nat(20),
      does: fc.constantFrom('answer', 'error', 'abort', 'reset', 'bad-ids'),
    }),
    fc.record({ type: fc.constant('time' as const), ms: fc.constantFrom(0, 300, 6_000, 25_000) }),
  )
  it('every call has one record, every connection one end, and nothing is left', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 30, size: 'max' }), fc.integer(), async (actions, seed) => {
        const proxy = openProxy({ seed, replicas: 2, settings: { callsPerSession: 3, linePerSession: 2 } })
        const door = proxy.openDoor()
        const sinks: Awaited<ReturnType<typeof proxy.chat>>[] = []
        for (const each of actions) {
          switch (each.type) {
            case 'ask':
              sinks.push(
                await proxy.chat(door, { model: 'm', stream: each.stream, messages: [{ role: 'user', content: `${each.digest}` }] }),
              )
              break
            case 'leave':
              sinks[each.at % Math.max(1, sinks.length)]?.leave()
              break
            case 'engine': {
              const generation = proxy.generations[each.at % Math.max(1, proxy.generations.length)]
              if (each.does === 'answer') generation?.answer()
              else if (each.does === 'error') generation?.respond(500, {})
              else if (each.does === 'abort') generation?.answer({ finish: 'abort' })
              else if (each.does === 'bad-ids') generation?.answer({ ids: undefined })
              else generation?.fail('reset')
              break
            }
            case 'time':
              await proxy.world.advance(each.ms)
          }
        }
        const sealing = door.seal()
        await proxy.world.advance(60_000)
        const sealed = await sealing
        expect(sealed.tokens.calls).toHaveLength(sealed.calls.length)
        const opened = proxy.facts.flatMap((fact) => (fact.type === 'call-opened' ? [fact.call] : []))
        const closed = proxy.facts.flatMap((fact) => (fact.type === 'call-closed' ? [fact.call] : []))
        expect([...closed].sort()).toEqual([...opened].sort())
        expect(sealed.calls.map(({ id }) => id)).toEqual(closed)
        expect(sealed.calls.map(({ sequence }) => sequence).sort((a, b) => a - b)).toEqual(opened.map((_, index) => index))
        for (const call of sealed.calls) expect(proxy.records.findLast(({ id }) => id === call.id)).toEqual(call)
        // A turn the engine answered was seen by at most one connection in full.
        const served = sinks.filter((sink) => sink.isEnded() && sink.status() === 200).length
        expect(served).toBe(sealed.calls.filter(({ status, delivery }) => status === 'ok' && delivery === 'yes').length)
        for (const sink of sinks) expect(sink.isEnded() || sink.isDestroyed() || sink.status() === null || sink.status() === 200).toBe(true)
        for (const replica of await proxy.replicas()) expect(replica).toMatchObject({ inFlight: 0, waiting: 0 })
        door.close()
        expect(proxy.arena.stats()).toMatchObject({ leasedBlocks: 0 })
        expect(proxy.faults).toEqual([])
        await proxy.close()
      }),
      { numRuns: 60 },
    )
  })
})

describe('what was left and is', () => {
  it.each([
    ['with another tool', { tools: [{ type: 'function', function: { name: 'look' } }] }],
    ['with other words', { messages: [{ role: 'user', content: 'hi!' }] }],
    ['at another temperature', { temperature: 0.5 }],
  ])('asked again %s is another turn', async (_how, other) => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const sink = await proxy.chat(door)
    sink.leave()
    proxy.generations[0]?.answer()
    await proxy.settle()
    await proxy.chat(door, { ...HELLO, ...other })
    proxy.generations[1]?.answer()
    await proxy.settle()
    expect(proxy.generations).toHaveLength(2)
    const { calls } = await door.seal()
    expect(calls.map(({ delivery, retryOf }) => [delivery, retryOf])).toEqual([
      ['no', null],
      ['yes', null],
    ])
  })
})

// The outbox in virtual time: a trainer that fails, stalls, redirects or forgets still gets each result, or a dead letter is left.
import { describe, expect, it } from 'vitest'
import type { Recorded } from '../../src/actors/ledger/protocol.ts'
import { openOutbox } from '../lib/outbox-fixture.ts'

describe('a delivery', () => {
  it('posts the rendered result once, records it and tells the rollout server', async () => {
    const { world, posts, records, told, deliver } = openOutbox()
    deliver('t')
    await world.run()
    expect(posts).toMatchObject([
      { url: 'http://127.0.0.1:9000/cb', tries: '1', body: '{"task":"t","status":"completed","sessions":["sk-polar-1"]}' },
    ])
    expect(posts[0]?.key).toMatch(/^t-[0-9a-f]{32}$/)
    expect(records).toEqual(['t delivered: answered 200 at attempt 1'])
    expect(told).toEqual(['t delivered'])
  })

  it.each(['refused', 408, 425, 429, 500, 503] as const)('is repeated after %s with the same key', async (answer) => {
    const { world, posts, told, deliver } = openOutbox({ answers: [answer, answer, 204] })
    deliver('t')
    await world.run()
    expect(posts.map((post) => post.tries)).toEqual(['1', '2', '3'])
    expect(new Set(posts.map((post) => post.key)).size).toBe(1)
    expect(told).toEqual(['t delivered'])
  })

  it.each([
    [400, 'answered 400 at attempt 1'],
    [404, 'answered 404 at attempt 1'],
    [413, 'answered 413 at attempt 1'],
    [422, 'answered 422 at attempt 1'],
    [302, 'answered 302 at attempt 1; redirects are not followed'],
  ])('becomes a dead letter at once after %i', async (answer, detail) => {
    const { world, posts, records, told, deliver } = openOutbox({ answers: [answer] })
    deliver('t')
    await world.run()
    expect(posts).toHaveLength(1)
    expect(records).toEqual([`t dead: ${detail}`])
    expect(told).toEqual(['t dead'])
  })

  it('becomes a dead letter after its last attempt', async () => {
    const { world, posts, records, told, deliver } = openOutbox({ answers: [500, 'refused', 500, 'refused'] })
    deliver('t')
    await world.run()
    expect(posts).toHaveLength(4)
    expect(records).toEqual(['t dead: connect ECONNREFUSED at attempt 4 of 4'])
    expect(told).toEqual(['t dead'])
  })

  it('is reported when it is dead, once, and without what its URL may hold of secrets', async () => {
    const answers: Recorded[] = [{ type: 'refused', reason: 'full', detail: '' }]
    const { world, records, reports, deliver } = openOutbox({
      answers: [404, 200],
      recorded: () => answers.shift() ?? { type: 'recorded' },
    })
    deliver('t', { url: 'http://me:secret@127.0.0.1:9000/cb?token=secret' })
    deliver('u')
    await world.run()
    expect(records.filter((record) => record.startsWith('t '))).toHaveLength(2)
    expect(reports).toEqual(['t to http://127.0.0.1:9000: answered 404 at attempt 1'])
  })

  it('waits longer after each attempt, anywhere between half and all of the doubled pause', async () => {
    const firstPauses = new Set<number | undefined>()
    for (let seed = 1; seed <= 20; seed += 1) {
      const { world, posts, deliver } = openOutbox({ answers: [500, 500, 500], seed })
      deliver('t')
      await world.run()
      const pauses = posts.slice(1).map((post, i) => post.atMs - (posts[i]?.atMs ?? 0) - 1)
      for (const [i, base] of [1_000, 2_000, 4_000].entries()) {
        expect(pauses[i]).toBeGreaterThanOrEqual(base / 2)
        expect(pauses[i]).toBeLessThanOrEqual(base)
      }
      firstPauses.add(pauses[0])
    }
    expect(firstPauses.size).toBeGreaterThan(10)
  })

  it.each([
    ['7', 7_000],
    ['100000', 300_000],
  ])('waits as long as Retry-After: %s says, up to the limit', async (retryAfter, pauseMs) => {
    const { world, posts, deliver } = openOutbox({ answers: [{ status: 429, retryAfter }] })
    deliver('t')
    await world.run()
    expect(posts.map((post) => post.atMs)).toEqual([0, 1 + pauseMs])
  })

  it('cuts an attempt at its deadline and tries again', async () => {
    const { world, posts, told, deliver } = openOutbox({ answers: ['stalls', 200] })
    deliver('t')
    await world.run()
    expect(posts[1]?.atMs).toBeGreaterThanOrEqual(30_000)
    expect(told).toEqual(['t delivered'])
  })

  it('gives up on a rendering that never ends, whether or not it heeds the signal', async () => {
    const { world, records, deliver } = openOutbox({ render: () => new Promise(() => undefined) })
    deliver('t')
    await world.run()
    expect(records).toEqual(['t dead: no answer within the deadline at attempt 4 of 4'])
  })

  it('tries again when the result cannot be rendered yet', async () => {
    let calls = 0
    const render = async () => {
      calls += 1
      if (calls === 1) throw new Error('the ledger did not answer')
      return Buffer.from('{}')
    }
    const { world, posts, told, deliver } = openOutbox({ render })
    deliver('t')
    await world.run()
    expect(posts.map((post) => post.tries)).toEqual(['2'])
    expect(told).toEqual(['t delivered'])
  })

  it('is not sent again when only its record fails', async () => {
    const answers: Recorded[] = [{ type: 'refused', reason: 'full', detail: '' }]
    const { world, posts, records, told, deliver } = openOutbox({ recorded: () => answers.shift() ?? { type: 'recorded' } })
    deliver('t')
    await world.run()
    expect(posts).toHaveLength(1)
    expect(records).toHaveLength(2)
    expect(told).toEqual(['t delivered'])
  })

  it('is told to the rollout server again until that takes it', async () => {
    const gone = [true, true]
    const { world, posts, told, deliver } = openOutbox({ isServerGone: () => gone.shift() ?? false })
    deliver('t')
    await world.run()
    expect(posts).toHaveLength(1)
    expect(told).toEqual(['t delivered'])
    expect(world.clock.nowMs()).toBeGreaterThanOrEqual(2_000)
  })

  it('asked for twice while under way happens once', async () => {
    const { world, posts, told, deliver } = openOutbox()
    deliver('t')
    deliver('t')
    await world.run()
    expect(posts).toHaveLength(1)
    expect(told).toEqual(['t delivered'])
  })

  it('never goes to a forbidden address', async () => {
    const { world, posts, records, deliver } = openOutbox()
    deliver('t', { url: 'http://169.254.169.254/cb' })
    await world.run()
    expect(posts).toEqual([])
    expect(records).toEqual([expect.stringContaining('t dead: callback_url must not point to')])
  })
})

describe('the idempotency key', () => {
  it('differs between tasks and between attempts, and not between renderings', async () => {
    const { world, posts, deliver } = openOutbox()
    deliver('a')
    await world.run()
    deliver('a', { status: 'failed' })
    await world.run()
    deliver('a', { attempts: [2] })
    await world.run()
    deliver('b')
    await world.run()
    const keys = posts.map((post) => post.key)
    expect(keys[1]).toBe(keys[0])
    expect(new Set(keys).size).toBe(3)
  })
})

describe('a target', () => {
  it('gets at most its share at a time, in order, and every result', async () => {
    const { world, posts, told, deliver, mostUnderWay } = openOutbox({ answers: [200, 'refused', 500, 200, 429] })
    const tasks = Array.from({ length: 7 }, (_, i) => `t${i}`)
    for (const task of tasks) deliver(task)
    await world.run()
    expect(mostUnderWay()).toBe(2)
    expect(posts.slice(0, 4).map((post) => JSON.parse(post.body).task)).toEqual(['t0', 't1', 't2', 't3'])
    expect([...told].sort()).toEqual(tasks.map((task) => `${task} delivered`))
  })

  it('does not hold up another one that stalls', async () => {
    const { world, posts, told, deliver } = openOutbox({ answers: ['stalls', 'stalls'] })
    deliver('a')
    deliver('b')
    deliver('c')
    deliver('d', { url: 'http://127.0.0.1:9001/cb' })
    await world.advance(10)
    expect(posts.map((post) => JSON.parse(post.body).task)).toEqual(['a', 'b', 'd'])
    expect(told).toEqual(['d delivered'])
    await world.run()
    expect([...told].sort()).toEqual(['a delivered', 'b delivered', 'c delivered', 'd delivered'])
  })
})

describe('what is undelivered', () => {
  it('is listed with its tries and its last trouble until it is delivered or dead, and never with a secret of its URL', async () => {
    const { world, deliver, undelivered, told } = openOutbox({ answers: [503, 200, 400, 'stalls'] })
    deliver('a', { url: 'http://me:secret@127.0.0.1:9000/cb?token=secret' })
    await world.advance(100)
    deliver('b')
    deliver('c')
    deliver('d')
    await world.advance(100)
    const listed = undelivered()
    await world.advance(1)
    expect(told).toEqual(['b delivered', 'c dead'])
    const origin = 'http://127.0.0.1:9000'
    expect(await listed).toEqual({
      ok: true,
      value: [
        { task: 'a', origin, tries: 1, trouble: 'answered 503' },
        { task: 'd', origin, tries: 1, trouble: null },
      ],
    })
    await world.run()
    const none = undelivered()
    await world.run()
    expect(await none).toEqual({ ok: true, value: [] })
  })
})

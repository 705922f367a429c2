// Deliveries that are driven again: to the same trainer or to another, whatever became of them, and never two of one task at once.
import { describe, expect, it } from 'vitest'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { openOutbox } from '../lib/outbox-fixture.ts'

const OLD = 'http://127.0.0.1:9000/cb'
const NEW = 'http://127.0.0.1:9001/other'
const NEW_ORIGIN = 'http://127.0.0.1:9001'
const driven = (...tasks: string[]) => ({ type: 'redriven', tasks, lost: [] })

describe('a delivery that is driven again', () => {
  it.each([
    ['delivered', 200],
    ['dead', 404],
  ])(
    'goes out with the key and the body it had when it was %s, and is pending meanwhile for ledger and rollout server',
    async (end, status) => {
      const { world, posts, records, told, deliver, redrive, answerTo } = openOutbox({ answers: [status] })
      deliver('t')
      await world.run()
      expect(await answerTo(redrive(['t'], NEW))).toEqual(driven('t'))
      await world.run()
      expect(posts.map(({ url }) => url)).toEqual([OLD, NEW])
      expect([posts[1]?.key, posts[1]?.body, posts[1]?.tries]).toEqual([posts[0]?.key, posts[0]?.body, '1'])
      expect(records.map((record) => record.split(':')[0])).toEqual([`t ${end}`, 't pending', 't delivered'])
      expect(told).toEqual([`t ${end}`, 't pending', 't delivered'])
    },
  )

  it('has all its tries again', async () => {
    const { world, posts, told, deliver, redrive } = openOutbox({ answers: [500, 500, 500, 500, 500, 500, 500, 200] })
    deliver('t')
    await world.run()
    void redrive(['t'])
    await world.run()
    expect(posts.map(({ tries }) => tries)).toEqual(['1', '2', '3', '4', '1', '2', '3', '4'])
    expect(told).toEqual(['t dead', 't pending', 't delivered'])
  })

  it('does not wait for the end of its rest, and a rest that was cut short ends no other', async () => {
    const { world, posts, deliver, redrive, answerTo } = openOutbox({ answers: [500, { status: 429, retryAfter: '100' }] })
    deliver('t')
    await world.advance(10)
    expect(await answerTo(redrive(null, NEW))).toEqual(driven('t'))
    await world.advance(10)
    expect(posts.map(({ url }) => url)).toEqual([OLD, NEW])
    await world.run()
    expect(posts.map(({ url }) => url)).toEqual([OLD, NEW, NEW])
    expect(posts[2]?.atMs).toBeGreaterThanOrEqual(100_000)
  })

  it('leaves the line of the receiver it waits for', async () => {
    const { world, posts, told, deliver, redrive } = openOutbox({ answers: ['stalls', 'stalls'] })
    for (const task of ['a', 'b', 'c']) deliver(task)
    await world.advance(10)
    void redrive(['c'], NEW)
    await world.advance(10)
    expect(posts.map(({ url }) => url)).toEqual([OLD, OLD, NEW])
    await world.run()
    expect([...told].sort()).toEqual(['a delivered', 'b delivered', 'c delivered'])
    expect(posts).toHaveLength(5)
  })

  it('is cut on its way to another receiver, and sent when that try has ended', async () => {
    const { world, posts, told, deliver, redrive, answerTo } = openOutbox({ answers: ['stalls'] })
    deliver('t')
    await world.advance(10)
    expect(await answerTo(redrive(['t'], NEW))).toEqual(driven('t'))
    await world.advance(10)
    expect(posts.map(({ url, tries }) => [url, tries])).toEqual([
      [OLD, '1'],
      [NEW, '1'],
    ])
    expect(told).toEqual(['t delivered'])
    await world.run()
  })

  it('is let finish on its way to the same receiver', async () => {
    const { world, posts, deliver, redrive } = openOutbox()
    deliver('t')
    void redrive(['t'])
    void redrive(['t'], OLD)
    await world.run()
    expect(posts).toHaveLength(1)
  })

  it('has its tries again also while the last one is on its way', async () => {
    const { world, posts, told, deliver, redrive, answerTo } = openOutbox({ answers: [500, 500, 500, 'stalls', 500] })
    deliver('t')
    await world.advance(10_000)
    expect(posts).toHaveLength(4)
    expect(await answerTo(redrive(['t']))).toEqual(driven('t'))
    await world.run()
    expect(posts.map(({ tries }) => tries)).toEqual(['1', '2', '3', '4', '2', '3'])
    expect(told).toEqual(['t delivered'])
  })

  it('is sent once and told of once, however often it was named', async () => {
    const { world, posts, deliver, redrive, answerTo } = openOutbox()
    deliver('t')
    await world.run()
    expect(await answerTo(redrive(['t', 't'], NEW))).toEqual(driven('t'))
    await world.run()
    expect(posts.map(({ url }) => url)).toEqual([OLD, NEW])
  })

  it('goes to the last receiver that was named', async () => {
    const { world, posts, told, deliver, redrive } = openOutbox({ answers: ['stalls'] })
    deliver('t')
    await world.advance(10)
    void redrive(['t'], 'http://127.0.0.1:9002/')
    void redrive(['t'], NEW)
    // To where it was to go.
    void redrive(['t'])
    await world.run()
    expect(posts.map(({ url }) => url)).toEqual([OLD, NEW])
    expect(told).toEqual(['t delivered'])
  })

  it('goes out once however often it is asked for while the ledger is told', async () => {
    const { world, posts, deliver, redrive } = openOutbox()
    deliver('t')
    await world.run()
    const asked = [redrive(['t'], NEW), redrive(['t'], NEW), redrive(['t'], NEW)]
    await world.run()
    expect(posts.map(({ url }) => url)).toEqual([OLD, NEW])
    for (const reply of asked) expect(await reply).toEqual({ ok: true, value: driven('t') })
  })

  it('can be one that had no receiver', async () => {
    const { world, posts, told, deliver, redrive, answerTo } = openOutbox()
    deliver('t', { url: null })
    await world.run()
    expect(posts).toEqual([])
    expect(await answerTo(redrive(['t']))).toMatchObject({ type: 'target', detail: 'the callback_url of t is not set: give one' })
    expect(await answerTo(redrive(['t'], NEW))).toEqual(driven('t'))
    await world.run()
    expect(posts.map(({ url }) => url)).toEqual([NEW])
    expect(told).toEqual(['t pending', 't delivered'])
  })

  it('is answered for when the ledger keeps it, not before', async () => {
    const refusals = [1, 2]
    const { world, posts, deliver, redrive } = openOutbox({
      recorded: ({ state }) =>
        state === 'pending' && refusals.shift() !== undefined ? { type: 'refused', reason: 'full', detail: '' } : { type: 'recorded' },
    })
    deliver('t')
    await world.run()
    let isAnswered = false
    void redrive(['t'], NEW).then(() => {
      isAnswered = true
    })
    await world.advance(1_500)
    expect([isAnswered, posts.length]).toEqual([false, 1])
    await world.run()
    expect([isAnswered, posts.length]).toEqual([true, 2])
  })

  it('is named as lost when the ledger has dropped its results', async () => {
    const { world, posts, told, deliver, redrive, list, answerTo } = openOutbox({
      recorded: ({ task, state }) =>
        task === 'gone' && state === 'pending' ? { type: 'refused', reason: 'conflict', detail: '' } : { type: 'recorded' },
    })
    deliver('gone')
    deliver('t')
    await world.run()
    expect(await answerTo(redrive(['t', 'gone'], NEW))).toEqual({ type: 'redriven', tasks: ['t'], lost: ['gone'] })
    await world.run()
    expect(posts).toHaveLength(3)
    expect(told).not.toContain('gone pending')
    expect(await list('dead')).toMatchObject([{ task: 'gone', detail: 'its results are no longer kept' }])
  })
})

describe('what is driven', () => {
  it('is nothing when one of the tasks is unknown, or the address is forbidden', async () => {
    const { world, posts, deliver, redrive, answerTo } = openOutbox({ answers: [404] })
    deliver('t')
    await world.run()
    expect(await answerTo(redrive(['t', 'other'], NEW))).toEqual({ type: 'unknown', detail: 'no ended task or session other' })
    expect(await answerTo(redrive(['t'], 'http://169.254.169.254/'))).toMatchObject({ type: 'target' })
    await world.run()
    expect(posts).toHaveLength(1)
  })

  it('is what is not delivered unless other states are asked for, in the order in which tasks ended', async () => {
    const { world, posts, deliver, redrive, answerTo } = openOutbox({ answers: [404, 200, 500], limits: { perTarget: 1 } })
    for (const task of ['dead', 'delivered', 'resting']) deliver(task)
    deliver('none', { url: null })
    await world.advance(50)
    expect(await answerTo(redrive(null, NEW))).toEqual(driven('dead', 'resting'))
    await world.run()
    // The one that the ledger had to be told of first comes later.
    expect(posts.slice(3).map(({ body }) => JSON.parse(body).task)).toEqual(['resting', 'dead'])
    expect(await answerTo(redrive(null, NEW, ['delivered']))).toEqual(driven('dead', 'delivered', 'resting'))
    expect(await answerTo(redrive(null, NEW, ['none']))).toEqual(driven('none'))
    await world.run()
    expect(posts.slice(5).map(({ body }) => JSON.parse(body).task)).toEqual(['dead', 'delivered', 'resting', 'none'])
    expect(await answerTo(redrive(null))).toEqual(driven())
  })
})

describe('a list of deliveries', () => {
  it('has the newest first, with how each stands, and never a secret of its URL', async () => {
    const { world, deliver, list } = openOutbox({ answers: [200, 404, 503, 'stalls'] })
    for (const task of ['a', 'b', 'c', 'd']) {
      deliver(task, { url: 'http://me:secret@127.0.0.1:9001/cb?token=secret' })
      await world.advance(10)
    }
    deliver('e', { url: null })
    await world.advance(10)
    const row = (task: string, state: string, detail: string | null, isEnded = false) => ({
      task,
      session: null,
      state,
      origin: NEW_ORIGIN,
      tries: 1,
      detail,
      endedAtMs: isEnded ? expect.any(Number) : null,
    })
    expect(await list()).toEqual([
      row('d', 'pending', null),
      row('c', 'pending', 'answered 503'),
      row('b', 'dead', 'answered 404 at attempt 1', true),
      row('a', 'delivered', 'answered 200 at attempt 1', true),
    ])
    expect(await list('pending', 1)).toEqual([row('d', 'pending', null)])
    expect(await list('none')).toEqual([{ task: 'e', session: null, state: 'none', origin: null, tries: 0, detail: null, endedAtMs: null }])
    await world.run()
  })

  it('forgets the oldest that its trainer has, dead letters last', async () => {
    const { world, deliver, list } = openOutbox({ answers: [404, 200, 200], limits: { maxKept: 2 } })
    for (const task of ['dead', 'a', 'b']) {
      deliver(task)
      await world.run()
    }
    expect((await list()).map(({ task }) => task)).toEqual(['b', 'dead'])
  })
})

describe('a session by itself', () => {
  it('is delivered as such', async () => {
    const shapes: string[] = []
    const { world, deliver, list } = openOutbox({
      async render({ shape, sessions }) {
        shapes.push(`${shape} ${sessions.join()}`)
        return Buffer.from('{}')
      },
    })
    deliver('t', { shape: 'session', sessions: [knownSessionId('sk-polar-2')], task: taskId('t') })
    await world.run()
    expect(shapes).toEqual(['session sk-polar-2'])
    expect(await list()).toMatchObject([{ session: 'sk-polar-2', state: 'delivered' }])
  })
})

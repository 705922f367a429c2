import { describe, expect, it } from 'vitest'
import { openPace } from '../../src/engine/scripted/pace.ts'
import { openBatch, type PauseMode, type Seat } from '../../src/engine/serve/batch.ts'
import { openWorld } from '../../src/kernel/world.ts'
import { countTimers } from '../lib/counted-timers.ts'

const seated = (seat: Seat | 'full' | null): Seat => {
  if (seat === null || seat === 'full') throw new Error(`no seat: ${seat}`)
  return seat
}

/** What a promise has come to by now, without waiting for it. */
function watch<T>(promise: Promise<T>): () => T | 'open' {
  let state: T | 'open' = 'open'
  void promise.then((value) => {
    state = value
  })
  return () => state
}

describe('the pace of a generation', () => {
  const open = () => {
    const world = openWorld({ seed: 1 })
    return { world, pace: openPace(world, { ttftMs: 100, msPerToken: 10 }) }
  }

  it('has its first token after ttft and every further one after its time', async () => {
    const { world, pace } = open()
    const third = watch(pace.reach(3))
    await world.advance(99)
    expect(pace.sampled()).toBe(0)
    await world.advance(1)
    expect(pace.sampled()).toBe(1)
    await world.advance(19)
    expect([pace.sampled(), third()]).toEqual([2, 'open'])
    await world.advance(1)
    expect([pace.sampled(), third()]).toEqual([3, 'reached'])
  })

  it('does not count the time it is frozen', async () => {
    const { world, pace } = open()
    const third = watch(pace.reach(3))
    await world.advance(105)
    pace.freeze()
    await world.advance(10_000)
    expect([pace.sampled(), third()]).toEqual([1, 'open'])
    pace.thaw()
    await world.advance(14)
    expect(third()).toBe('open')
    await world.advance(1)
    expect(third()).toBe('reached')
  })

  it('has no timer while it is frozen, nor once it has stopped', async () => {
    const scheduler = countTimers(openWorld({ seed: 1 }))
    const pace = openPace(scheduler, { ttftMs: 100, msPerToken: 10 })
    void pace.reach(3)
    const timers = [scheduler.timers()]
    for (const change of [pace.freeze, pace.thaw, pace.stop]) {
      change()
      timers.push(scheduler.timers())
    }
    expect(timers).toEqual([1, 0, 1, 0])
  })

  it('stops with what it has, and has no more later', async () => {
    const { world, pace } = open()
    const end = watch(pace.reach(50))
    await world.advance(125)
    pace.stop()
    await world.advance(1000)
    expect([end(), pace.sampled()]).toEqual(['stopped', 3])
    expect(await pace.reach(1)).toBe('stopped')
  })

  it('needs no timer when nothing takes time', async () => {
    const pace = openPace(openWorld({ seed: 1 }), { ttftMs: 0, msPerToken: 0 })
    expect(await pace.reach(1000)).toBe('reached')
  })
})

describe('the running batch', () => {
  const never = new AbortController().signal
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const pace = () => {
    const world = openWorld({ seed: 1 })
    return openPace(world, { ttftMs: 1000, msPerToken: 10 })
  }

  it('lets the next in line in when one leaves, in order of arrival', async () => {
    const batch = openBatch({ running: 1, waiting: 9 })
    const first = seated(await batch.enter(never))
    const second = watch(batch.enter(never))
    const third = watch(batch.enter(never))
    await settle()
    expect([second(), third(), batch.counts()]).toEqual(['open', 'open', { running: 1, waiting: 2 }])
    first.leave()
    await settle()
    expect(second()).not.toBe('open')
    expect(third()).toBe('open')
  })

  it('answers full instead of growing', async () => {
    const batch = openBatch({ running: 1, waiting: 1 })
    await batch.enter(never)
    void batch.enter(never)
    expect(await batch.enter(never)).toBe('full')
  })

  it('forgets one who left the line', async () => {
    const batch = openBatch({ running: 1, waiting: 9 })
    const first = seated(await batch.enter(never))
    const leaving = new AbortController()
    const left = batch.enter(leaving.signal)
    leaving.abort()
    expect(await left).toBeNull()
    first.leave()
    expect(batch.counts()).toEqual({ running: 0, waiting: 0 })
  })

  it.each<[PauseMode, 'stopped' | 'open']>([
    ['abort', 'stopped'],
    ['keep', 'open'],
    ['wait', 'open'],
  ])('paused with %s it admits nobody until it is resumed', async (mode, running) => {
    const batch = openBatch({ running: 9, waiting: 9 })
    const seat = seated(await batch.enter(never))
    const generation = pace()
    seat.attach(generation)
    const end = watch(generation.reach(1))
    void batch.pause(mode)
    const entering = watch(batch.enter(never))
    await settle()
    expect([batch.isPaused(), end(), entering()]).toEqual([true, running, 'open'])
    batch.resume()
    await settle()
    expect(batch.isPaused()).toBe(false)
    expect(entering()).not.toBe('open')
  })

  it('holds a wait until the last one has left', async () => {
    const batch = openBatch({ running: 9, waiting: 9 })
    const [one, two] = [seated(await batch.enter(never)), seated(await batch.enter(never))]
    const paused = watch(batch.pause('wait').then(() => 'paused'))
    one.leave()
    await settle()
    expect(paused()).toBe('open')
    two.leave()
    await settle()
    expect(paused()).toBe('paused')
  })

  it.each<[string, (batch: ReturnType<typeof openBatch>) => void]>([
    ['is resumed', (batch) => batch.resume()],
    ['gives way to another', (batch) => void batch.pause('keep')],
  ])('holds no wait for a pause that %s', async (_, end) => {
    const batch = openBatch({ running: 9, waiting: 9 })
    await batch.enter(never)
    const paused = watch(batch.pause('wait').then(() => 'settled'))
    end(batch)
    await settle()
    expect(paused()).toBe('settled')
  })

  it('lets what it has frozen end when it waits for it', async () => {
    const batch = openBatch({ running: 9, waiting: 9 })
    const world = openWorld({ seed: 1 })
    const generation = openPace(world, { ttftMs: 10, msPerToken: 1 })
    seated(await batch.enter(never)).attach(generation)
    await batch.pause('keep')
    void batch.pause('wait')
    await world.advance(1000)
    expect(generation.sampled()).toBeGreaterThan(0)
  })

  it('freezes also a generation that gets its pace after the pause began', async () => {
    const batch = openBatch({ running: 9, waiting: 9 })
    const seat = seated(await batch.enter(never))
    void batch.pause('keep')
    const world = openWorld({ seed: 1 })
    const generation = openPace(world, { ttftMs: 10, msPerToken: 1 })
    seat.attach(generation)
    await world.advance(1000)
    expect(generation.sampled()).toBe(0)
  })

  it('settles everybody when it closes', async () => {
    const batch = openBatch({ running: 1, waiting: 9 })
    const seat = seated(await batch.enter(never))
    const generation = pace()
    seat.attach(generation)
    const [end, waiting, paused] = [generation.reach(9), batch.enter(never), batch.pause('wait')]
    batch.close()
    expect(await Promise.all([end, waiting, paused])).toEqual(['stopped', null, undefined])
    expect(await batch.enter(never)).toBeNull()
  })
})

describe('emptying the batch for new weights', () => {
  const held = () => {
    const heard: string[] = []
    return { heard, freeze: () => heard.push('freeze'), thaw: () => heard.push('thaw'), stop: () => heard.push('stop') }
  }
  const enter = async (batch: ReturnType<typeof openBatch>) => {
    const seat = seated(await batch.enter(new AbortController().signal))
    const generation = held()
    seat.attach(generation)
    return { seat, heard: generation.heard }
  }
  const turns = () => new Promise((resolve) => setImmediate(resolve))

  it.each([
    ['wait', null, []],
    ['abort', null, ['stop']],
    ['wait', 'keep', ['freeze', 'stop']],
    ['wait', 'wait', []],
  ] as const)('tells what runs: %s, paused by %s', async (how, pause, expected) => {
    const batch = openBatch({ running: 2, waiting: 2 })
    const { seat, heard } = await enter(batch)
    if (pause !== null) void batch.pause(pause)
    const emptied = watch(batch.empty(how))
    await turns()
    expect([heard, emptied()]).toEqual([expected, 'open'])
    seat.leave()
    await turns()
    expect(emptied()).toBeTypeOf('function')
  })

  it('ends what a later pause would freeze', async () => {
    const batch = openBatch({ running: 1, waiting: 1 })
    const { heard } = await enter(batch)
    void batch.empty('wait')
    await batch.pause('keep')
    expect(heard).toEqual(['stop'])
  })

  it('keeps the line until it is opened again, and a pause beyond that', async () => {
    const batch = openBatch({ running: 1, waiting: 3 })
    const open = await batch.empty('wait')
    const signal = new AbortController().signal
    const waiting = watch(batch.enter(signal))
    expect([batch.counts(), batch.room()]).toEqual([{ running: 0, waiting: 1 }, 2])
    await batch.pause('wait')
    open()
    await turns()
    expect([waiting(), batch.isPaused()]).toEqual(['open', true])
    batch.resume()
    await turns()
    expect(waiting()).toMatchObject({ leave: expect.any(Function) })
  })
})

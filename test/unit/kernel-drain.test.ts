// A drain in numbered steps, and the real scheduler's timers.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { openDrain } from '../../src/kernel/drain.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import { openRestartBudget } from '../../src/kernel/restart-budget.ts'
import { openWorld } from '../../src/kernel/world.ts'

describe('a drain', () => {
  it('runs its steps in order and says how long each took', async () => {
    const world = openWorld({ seed: 1 })
    const order: string[] = []
    const step = (name: string, ms: number) => ({
      name,
      deadlineMs: 100,
      run: () =>
        new Promise<void>((resolve) => {
          order.push(`${name} begins`)
          world.after(ms, () => {
            order.push(`${name} ends`)
            resolve()
          })
        }),
    })
    const drain = openDrain(world, [step('submit', 5), step('gateways', 10)])
    expect(drain.phase).toBe('running')
    const report = drain.run()
    expect(drain.phase).toBe('draining')
    await world.run()
    expect(await report).toEqual({
      isDrained: true,
      steps: [
        { step: 1, name: 'submit', ok: true, ms: 5, error: null },
        { step: 2, name: 'gateways', ok: true, ms: 10, error: null },
      ],
    })
    expect(order).toEqual(['submit begins', 'submit ends', 'gateways begins', 'gateways ends'])
    expect(drain.phase).toBe('drained')
  })

  it.each([
    ['hangs', () => new Promise<void>(() => {}), 'not done after 100 ms'],
    ['rejects', () => Promise.reject(new Error('no')), 'no'],
    [
      'throws',
      () => {
        throw new Error('at once')
      },
      'at once',
    ],
  ])('names the step that %s, and still runs the others', async (_, run, error) => {
    const world = openWorld({ seed: 1 })
    const drain = openDrain(world, [
      { name: 'stuck', deadlineMs: 100, run },
      { name: 'last', deadlineMs: 100, run: async () => {} },
    ])
    const report = drain.run()
    await world.run()
    expect(await report).toMatchObject({
      isDrained: false,
      steps: [
        { step: 1, name: 'stuck', ok: false, error },
        { step: 2, name: 'last', ok: true },
      ],
    })
    expect(drain.phase).toBe('failed')
  })

  it('runs once however often it is asked', async () => {
    const world = openWorld({ seed: 1 })
    let runs = 0
    const drain = openDrain(world, [{ name: 'count', deadlineMs: 100, run: async () => void runs++ }])
    const [first, second] = [drain.run(), drain.run()]
    await world.run()
    expect(await first).toBe(await second)
    expect(await drain.run()).toBe(await first)
    expect(runs).toBe(1)
  })
})

describe('a restart budget', () => {
  it('is spent by restarts and refilled by time', () => {
    const budget = openRestartBudget({ max: 2, withinMs: 100 })
    expect([0, 10, 20, 99].map((atMs) => budget.spend(atMs))).toEqual([true, true, false, false])
    expect([100, 105, 110].map((atMs) => budget.spend(atMs))).toEqual([true, false, true])
  })
})

describe('the event loop as a scheduler', () => {
  afterEach(() => void vi.useRealTimers())

  it('defers a turn to a later turn of the loop', async () => {
    const order: string[] = []
    openEventLoop().defer(() => order.push('turn'))
    order.push('now')
    await Promise.resolve()
    order.push('microtask')
    await new Promise((resolve) => setImmediate(resolve))
    expect(order).toEqual(['now', 'microtask', 'turn'])
  })

  it('never fires early, also not after more milliseconds than Node can count', async () => {
    vi.useFakeTimers()
    const scheduler = openEventLoop()
    const fortyDaysMs = 40 * 24 * 3_600_000
    let firedAtMs = -1
    scheduler.after(fortyDaysMs, () => {
      firedAtMs = scheduler.clock.nowMs()
    })
    const dueMs = scheduler.clock.nowMs() + fortyDaysMs
    await vi.advanceTimersByTimeAsync(fortyDaysMs - 1)
    expect(firedAtMs).toBe(-1)
    await vi.advanceTimersByTimeAsync(2)
    expect(firedAtMs).toBeGreaterThanOrEqual(dueMs)
  })

  it('cancels a timer in whichever leg it is', async () => {
    vi.useFakeTimers()
    let fired = 0
    const timer = openEventLoop().after(2 ** 31 + 1000, () => fired++)
    await vi.advanceTimersByTimeAsync(2 ** 31)
    timer.cancel()
    await vi.advanceTimersByTimeAsync(10_000)
    expect([fired, vi.getTimerCount()]).toEqual([0, 0])
  })

  it.each([openEventLoop(), openWorld({ seed: 1 })])('refuses a time that is no number', (scheduler) => {
    expect(() => scheduler.after(Number.NaN, () => {})).toThrow(/milliseconds/)
  })
})

describe('the system as a source of chance', () => {
  it('gives numbers in [0, 1), hex of the asked length, and uuids', () => {
    const random = cryptoRandom()
    const draws = Array.from({ length: 1000 }, () => random.next())
    expect(draws.every((draw) => draw >= 0 && draw < 1)).toBe(true)
    expect(new Set(draws).size).toBe(1000)
    expect(random.hex(32)).toMatch(/^[0-9a-f]{64}$/)
    expect(random.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  })
})

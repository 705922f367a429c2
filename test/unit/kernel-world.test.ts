// Virtual time and seeded order.
import { describe, expect, it } from 'vitest'
import { openWorld, seededRandom } from '../../src/kernel/world.ts'

describe('a World', () => {
  async function traceOf(seed: number, choices?: number): Promise<string> {
    const world = openWorld({ seed, ...(choices === undefined ? {} : { choices }) })
    const trace: string[] = []
    for (let n = 0; n < 20; n++) {
      world.defer(() => {
        trace.push(`t${n}`)
        void Promise.resolve().then(() => trace.push(`p${n}`))
        world.after(n % 3, () => trace.push(`a${n}@${world.clock.nowMs()}:${world.random.hex(2)}`))
      })
    }
    await world.run()
    return trace.join(' ')
  }

  it('gives the same trace for the same seed, and others for other seeds', async () => {
    expect(await traceOf(7)).toBe(await traceOf(7))
    expect(await traceOf(7)).not.toBe(await traceOf(8))
  })

  it('runs in order once its random choices are spent', async () => {
    const turns = (await traceOf(3, 0)).split(' ').filter((entry) => entry.startsWith('t'))
    expect(turns).toEqual(Array.from({ length: 20 }, (_, n) => `t${n}`))
  })

  it('lets promise chains settle before the next turn', async () => {
    const trace = (await traceOf(11)).split(' ')
    for (let n = 0; n < 20; n++) expect(trace[trace.indexOf(`t${n}`) + 1]).toBe(`p${n}`)
  })

  it('jumps the clock to the next timer only when no turn is left', async () => {
    const world = openWorld({ seed: 1 })
    const trace: string[] = []
    world.after(3_600_000, () => trace.push('hour'))
    world.after(1000, () => {
      trace.push('second')
      world.defer(() => trace.push(`turn at ${world.clock.nowMs()}`))
    })
    world.after(1000, () => trace.push('cancelled')).cancel()
    const wallMs = world.clock.wallMs()
    await world.run()
    expect(trace).toEqual(['second', 'turn at 1000', 'hour'])
    expect(world.clock.nowMs()).toBe(3_600_000)
    expect(world.clock.wallMs() - wallMs).toBe(3_600_000)
  })

  it('stops as soon as the condition holds, and says so', async () => {
    const world = openWorld({ seed: 1 })
    let ticks = 0
    const tick = () => {
      ticks++
      world.after(10, tick)
    }
    tick()
    expect(await world.run(() => ticks === 5)).toBe(true)
    expect(ticks).toBe(5)
    const still = openWorld({ seed: 1 })
    expect(await still.run(() => false)).toBe(false)
  })

  it('advances by exactly the time asked for', async () => {
    const world = openWorld({ seed: 1 })
    const fired: number[] = []
    for (const ms of [5, 10, 15]) world.after(ms, () => fired.push(ms))
    await world.advance(10)
    expect([fired, world.clock.nowMs()]).toEqual([[5, 10], 10])
    await world.advance(4)
    expect([fired, world.clock.nowMs()]).toEqual([[5, 10], 14])
  })

  it('names its seed when it never comes to rest', async () => {
    const world = openWorld({ seed: 4711, maxTurns: 100 })
    const spin = () => world.defer(spin)
    spin()
    await expect(world.run()).rejects.toThrow(/seed 4711/)
  })

  it('may fire a timer early in an impatient world, never in a patient one', async () => {
    async function timerFirst(seed: number, impatience: number): Promise<boolean> {
      const world = openWorld({ seed, impatience })
      const order: string[] = []
      world.after(1, () => order.push('timer'))
      for (let n = 0; n < 5; n++) world.defer(() => order.push('turn'))
      await world.run()
      return order.indexOf('timer') < 5
    }
    const seeds = Array.from({ length: 20 }, (_, seed) => seed)
    expect((await Promise.all(seeds.map((seed) => timerFirst(seed, 0)))).some(Boolean)).toBe(false)
    expect((await Promise.all(seeds.map((seed) => timerFirst(seed, 0.5)))).some(Boolean)).toBe(true)
  })
})

describe('seeded random', () => {
  it('is a function of its seed, spread over [0, 1)', () => {
    const draws = Array.from({ length: 10_000 }, seededRandom(5).next)
    expect(Array.from({ length: 10_000 }, seededRandom(5).next)).toEqual(draws)
    expect(Math.min(...draws)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...draws)).toBeLessThan(1)
    const mean = draws.reduce((sum, draw) => sum + draw, 0) / draws.length
    expect(Math.abs(mean - 0.5)).toBeLessThan(0.02)
  })

  it('makes hex of the asked length and well-formed uuids', () => {
    const random = seededRandom(9)
    expect(random.hex(5)).toMatch(/^[0-9a-f]{10}$/)
    const uuids = Array.from({ length: 200 }, () => random.uuid())
    for (const uuid of uuids) expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(new Set(uuids).size).toBe(200)
  })
})

// The gate of a pause: who is held, who waits for the drain, and what ends a pause.
import { describe, expect, it } from 'vitest'
import { openWorld } from '../../src/kernel/world.ts'
import type { PauseOutcome } from '../../src/proxy/boundary.ts'
import { openPauseGate } from '../../src/proxy/pool/pause-gate.ts'
import { countTimers } from '../lib/counted-timers.ts'

function openGate({ startsPaused = false, inFlight = 0 } = {}) {
  const world = openWorld({ seed: 1 })
  const scheduler = countTimers(world)
  const changes: boolean[] = []
  const gate = openPauseGate(scheduler, startsPaused, (isPaused) => changes.push(isPaused))
  for (let call = 0; call < inFlight; call += 1) gate.enter()
  /** `waiting`, or how it ended; at the moment of `settle`. */
  const watch = (pause: Promise<PauseOutcome>): (() => string) => {
    let outcome = 'waiting'
    void pause.then((ended) => {
      outcome = ended
    })
    return () => outcome
  }
  const passed = (signal = new AbortController().signal): (() => boolean) => {
    let hasPassed = false
    void gate.pass(signal).then(() => {
      hasPassed = true
    })
    return () => hasPassed
  }
  return { world, gate, changes, timers: scheduler.timers, watch, passed, settle: () => world.advance(0) }
}

describe('a pause', () => {
  it('is granted at once when nothing is in flight, and leaves no timer', async () => {
    const { gate, watch, changes, timers, settle } = openGate()
    const pause = watch(gate.pause(1_000))
    await settle()
    expect([pause(), gate.isPaused(), changes, timers()]).toEqual(['paused', true, [true], 0])
  })

  it('holds at once, and is granted when the last call in flight has ended', async () => {
    const { gate, watch, passed, settle, timers } = openGate({ inFlight: 2 })
    const pause = watch(gate.pause(1_000))
    const held = passed()
    gate.leave()
    await settle()
    expect([pause(), held(), gate.isPaused(), gate.inFlight()]).toEqual(['waiting', false, true, 1])
    gate.leave()
    await settle()
    expect([pause(), held(), gate.isPaused(), timers()]).toEqual(['paused', false, true, 0])
    gate.resume()
    await settle()
    expect([held(), gate.isPaused()]).toEqual([true, false])
  })

  it('that times out lets go of everything that it held', async () => {
    const { world, gate, watch, passed, settle, changes } = openGate({ inFlight: 1 })
    const pause = watch(gate.pause(1_000))
    const held = passed()
    await world.advance(999)
    expect([pause(), held()]).toEqual(['waiting', false])
    await world.advance(1)
    await settle()
    expect([pause(), held(), gate.isPaused(), changes]).toEqual(['timed-out', true, false, [true, false]])
    gate.leave()
    expect(gate.isPaused()).toBe(false)
  })

  it.each([
    ['the first', 500, 1_000],
    ['the second', 1_000, 500],
  ])('that overlaps another lasts until both have timed out, %s sooner', async (_, first, second) => {
    const { world, gate, watch } = openGate({ inFlight: 1 })
    const pauses = [watch(gate.pause(first)), watch(gate.pause(second))]
    await world.advance(500)
    expect([pauses.map((pause) => pause()).sort(), gate.isPaused()]).toEqual([['timed-out', 'waiting'], true])
    await world.advance(500)
    expect([pauses.map((pause) => pause()), gate.isPaused()]).toEqual([['timed-out', 'timed-out'], false])
  })

  it('that times out does not end one that was granted: there is nothing to wait for any more', async () => {
    const { world, gate, watch, settle } = openGate({ inFlight: 1 })
    const pauses = [watch(gate.pause(100)), watch(gate.pause(1_000))]
    await world.advance(100)
    gate.leave()
    await settle()
    const third = watch(gate.pause(0))
    await world.advance(10_000)
    expect([...pauses.map((pause) => pause()), third(), gate.isPaused()]).toEqual(['timed-out', 'paused', 'paused', true])
  })

  it('ends with a resume, all of them with one, and those that still wait are told so', async () => {
    const { gate, watch, passed, settle, timers } = openGate({ inFlight: 1 })
    const pauses = [watch(gate.pause(1_000)), watch(gate.pause(2_000))]
    const held = [passed(), passed()]
    gate.resume()
    gate.resume()
    await settle()
    expect([pauses.map((pause) => pause()), held.map((each) => each()), gate.isPaused(), timers()]).toEqual([
      ['resumed', 'resumed'],
      [true, true],
      false,
      0,
    ])
  })

  it('lets go of a call that nobody wants any more', async () => {
    const { gate, passed, settle } = openGate()
    await gate.pause(1_000)
    const abort = new AbortController()
    const [leaving, staying] = [passed(abort.signal), passed()]
    abort.abort()
    await settle()
    expect([leaving(), staying()]).toEqual([true, false])
    const late = passed(abort.signal)
    await settle()
    expect(late()).toBe(true)
  })

  it('may be there from the start, and each is counted once', async () => {
    const { gate, passed, settle, changes } = openGate({ startsPaused: true })
    const held = passed()
    await settle()
    expect([held(), gate.isPaused(), gate.pauses()]).toEqual([false, true, 1])
    await gate.pause(1_000)
    expect(gate.pauses()).toBe(1)
    gate.resume()
    await gate.pause(1_000)
    expect([gate.pauses(), changes]).toEqual([2, [false, true]])
  })
})

describe('the clock of a gate', () => {
  it('stands still in a pause, also in one that it began in and in one that timed out', async () => {
    const { world, gate } = openGate({ startsPaused: true, inFlight: 1 })
    const before = gate.unpausedMs()
    const passedAfter = async (ms: number): Promise<number> => {
      await world.advance(ms)
      return gate.unpausedMs() - before
    }
    expect(await passedAfter(100)).toBe(0)
    gate.resume()
    expect(await passedAfter(10)).toBe(10)
    void gate.pause(1_000)
    expect(await passedAfter(999)).toBe(10)
    // Timed out: what is in flight goes on, and so does the time.
    expect(await passedAfter(6)).toBe(15)
    void gate.pause(5_000)
    gate.leave()
    expect([await passedAfter(600_000), gate.isPaused()]).toEqual([15, true])
    gate.resume()
    gate.resume()
    expect(await passedAfter(7)).toBe(22)
  })
})

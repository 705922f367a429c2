// Work under a deadline: what cuts it, and that nothing of it is left.
import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { openWorld } from '../../src/kernel/world.ts'
import { within } from '../../src/proxy/deadline.ts'
import { countTimers } from '../lib/counted-timers.ts'

function open() {
  const world = openWorld({ seed: 1 })
  const scheduler = countTimers(world)
  const outer = new AbortController()
  const left = (): unknown => [scheduler.timers(), getEventListeners(outer.signal, 'abort').length]
  /** Work that ends when it is cut, and says when that was. */
  const run = (deadlineMs = 100) =>
    within(scheduler, deadlineMs, outer.signal, (signal) => {
      const { promise, resolve } = Promise.withResolvers<number>()
      if (signal.aborted) resolve(world.clock.nowMs())
      signal.addEventListener('abort', () => resolve(world.clock.nowMs()))
      return promise
    })
  return { world, scheduler, outer, left, run }
}

it('is cut at its deadline, and not before', async () => {
  const { world, run, left } = open()
  const startedMs = world.clock.nowMs()
  const cut = run(100)
  expect(left()).toEqual([1, 1])
  await world.advance(1_000)
  expect(await cut).toBe(startedMs + 100)
  expect(left()).toEqual([0, 0])
})

it.each([0, 50])('is cut by whoever may cut it, %i ms after it began', async (afterMs) => {
  const { world, outer, run, left } = open()
  const startedMs = world.clock.nowMs()
  const cut = run(100)
  await world.advance(afterMs)
  outer.abort()
  expect(await cut).toBe(startedMs + afterMs)
  expect(left()).toEqual([0, 0])
})

it('is cut at once when it was cut before it began', async () => {
  const { world, outer, run, left } = open()
  outer.abort()
  expect(await run()).toBe(world.clock.nowMs())
  expect(left()).toEqual([0, 0])
})

it.each<[string, () => Promise<string>]>([
  ['answers', async () => 'done'],
  ['throws', () => Promise.reject(new Error('done'))],
])('leaves nothing when the work %s by itself', async (_how, work) => {
  const { scheduler, outer, left } = open()
  expect(await within(scheduler, 100, outer.signal, work).catch((error: unknown) => (error as Error).message)).toBe('done')
  expect([left(), outer.signal.aborted]).toEqual([[0, 0], false])
})

// Who waits for the feed's next entry: woken by what brings one and by nothing else, and never left waiting.
import { beforeEach, describe, expect, it } from 'vitest'
import type { NodeEvent } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId, knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type FeedWaiters, openFeedWaiters } from '../../src/http/feed-waiters.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import { countTimers } from '../lib/counted-timers.ts'
import { summary } from '../model/rollout-server-world.ts'

const LONG_MS = 60_000

const sessionEnded: NodeEvent = {
  ...{ type: 'session.state_changed', session: knownSessionId('s'), task: taskId('t'), gateway: gatewayId('g') },
  ...{ status: 'COMPLETED', attempt: 1, summary: summary('completed'), atMs: 0 },
}
const sessionRuns: NodeEvent = { ...sessionEnded, status: 'RUNNING', summary: null }
const taskEnded: NodeEvent = { type: 'task.completed', task: taskId('t'), status: 'completed', atMs: 0 }
const taskBegan: NodeEvent = { ...taskEnded, type: 'task.created', status: 'running' }

let world: World
let scheduler: ReturnType<typeof countTimers>
let waiters: FeedWaiters
beforeEach(() => {
  world = openWorld({ seed: 1 })
  scheduler = countTimers(world)
  waiters = openFeedWaiters(scheduler, 2)
})

function enter(...types: Parameters<FeedWaiters['enter']>[0]) {
  const waiter = waiters.enter(types)
  if (waiter === null) throw new Error('there was no room')
  return waiter
}

/** What it was told, or null while it waits. */
function watch(news: Promise<boolean>): () => boolean | null {
  let told: boolean | null = null
  void news.then((value) => {
    told = value
  })
  return () => told
}

describe('who waits', () => {
  it.each([
    ['for sessions', 'session', 'a session that ended', sessionEnded, true],
    ['for sessions', 'session', 'the end of a task, whose sessions may not all have been told', taskEnded, true],
    ['for sessions', 'session', 'a session that runs', sessionRuns, null],
    ['for sessions', 'session', 'a new task', taskBegan, null],
    ['for tasks', 'task', 'a session that ended', sessionEnded, null],
    ['for tasks', 'task', 'the end of a task', taskEnded, true],
  ] as const)('%s (%s) hears of %s: %o', async (_, type, __, event, expected) => {
    const told = watch(enter(type).news(LONG_MS))
    waiters.hear(event)
    await world.advance(LONG_MS - 1)
    expect(told()).toBe(expected)
  })

  it('is told at once of what came between its looks, and once', async () => {
    const waiter = enter('session')
    waiters.hear(sessionEnded)
    expect(await waiter.news(LONG_MS)).toBe(true)
    const told = watch(waiter.news(LONG_MS))
    await world.advance(LONG_MS - 1)
    expect(told()).toBeNull()
    await world.advance(1)
    expect([told(), scheduler.timers()]).toEqual([false, 0])
  })

  it('gives its place back when it leaves', () => {
    const first = enter('session')
    enter('session')
    expect(waiters.enter(['session'])).toBeNull()
    first.leave()
    first.leave()
    enter('session')
    expect(waiters.enter(['session'])).toBeNull()
  })

  it('is sent away when the node closes, also when it looks again after that', async () => {
    const waiter = enter('session')
    const told = watch(waiter.news(LONG_MS))
    await world.advance(0)
    expect(told()).toBeNull()
    waiters.close()
    await world.advance(0)
    expect([told(), scheduler.timers()]).toEqual([false, 0])
    const again = watch(waiter.news(LONG_MS))
    await world.advance(0)
    expect([again(), scheduler.timers()]).toEqual([false, 0])
    expect(waiters.enter(['session'])).toBeNull()
  })
})

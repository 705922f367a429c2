// The event feed: a bounded past, resumable readers, a heartbeat, and no patience for readers who do not read.
import { describe, expect, it } from 'vitest'
import type { NodeEvent } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId, knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type EventReader, openEventFeed } from '../../src/http/events.ts'
import { openWorld } from '../../src/kernel/world.ts'
import { summary } from '../model/rollout-server-world.ts'

const event = (id: string): NodeEvent => ({ type: 'task.created', task: taskId(id), status: 'running', atMs: 1_500 })

class Reader implements EventReader {
  text = ''
  writableLength = 0
  isDestroyed = false
  readonly listeners: (() => void)[] = []
  write(chunk: string): boolean {
    this.text += chunk
    return true
  }
  destroy(): this {
    this.isDestroyed = true
    for (const listener of this.listeners) listener()
    return this
  }
  on(_: 'close', listener: () => void): this {
    this.listeners.push(listener)
    return this
  }
  /** Task ids of the events received, and markers of lost ones. */
  get seen(): readonly string[] {
    return [...this.text.matchAll(/event: (\S+)\ndata: (.*)\n/g)].map(([, type, data]) =>
      type === 'events.lost' ? 'lost' : JSON.parse(data!).task_id,
    )
  }
}

function openFeed(overrides: Partial<Parameters<typeof openEventFeed>[0]> = {}) {
  const world = openWorld({ seed: 1 })
  const feed = openEventFeed({
    scheduler: world,
    boot: 'b1',
    capacity: 3,
    maxReaders: 2,
    maxUnsentBytes: 1_000,
    beatMs: 15_000,
    ...overrides,
  })
  return { world, feed }
}

describe('the event feed', () => {
  it('writes server-sent events with ids', () => {
    const { feed } = openFeed()
    const reader = new Reader()
    feed.follow(reader, null)
    feed.publish(event('a'))
    feed.publish({
      type: 'session.state_changed',
      session: knownSessionId('s'),
      task: taskId('a'),
      gateway: gatewayId('g0'),
      status: 'COMPLETED',
      attempt: 2,
      summary: summary('completed'),
      atMs: 2_000,
    })
    expect(reader.text).toBe(
      ': polar-node\n\n' +
        'id: b1-1\nevent: task.created\ndata: {"task_id":"a","status":"running","at":1.5}\n\n' +
        'id: b1-2\nevent: session.state_changed\n' +
        'data: {"session_id":"s","task_id":"a","status":"COMPLETED","node_id":"g0","attempt":2,"outcome":"completed","reward":1,"error":null,"at":2}\n\n',
    )
  })

  it.each([
    ['b1-2', ['c', 'd']],
    ['b1-4', []],
    ['b1-1', ['b', 'c', 'd']],
    // Event 1 has left the ring of three.
    ['b1-0', ['lost', 'b', 'c', 'd']],
    ['b0-3', ['lost', 'b', 'c', 'd']],
    ['nonsense', ['lost', 'b', 'c', 'd']],
    ['b1-9999999999999999999', ['lost', 'b', 'c', 'd']],
    // A reader who never had an id wants what is new.
    [null, []],
  ])('after %j sends %j, then what is new', (lastId, missed) => {
    const { feed } = openFeed()
    for (const id of ['a', 'b', 'c', 'd']) feed.publish(event(id))
    const reader = new Reader()
    feed.follow(reader, lastId)
    expect(reader.seen).toEqual(missed)
    feed.publish(event('e'))
    expect(reader.seen).toEqual([...missed, 'e'])
  })

  it.each([
    ['b1-0', ['lost', 'c']],
    ['b1-2', ['c']],
    [null, []],
  ])('to who wants some of it, sends those after %j, and those that are new', (lastId, missed) => {
    const { feed } = openFeed()
    for (const id of ['a', 'b', 'c', 'd']) feed.publish(event(id))
    const reader = new Reader()
    feed.follow(reader, lastId, (each) => each.type === 'task.created' && 'ce'.includes(each.task))
    feed.publish(event('d'))
    feed.publish(event('e'))
    expect(reader.seen).toEqual([...missed, 'e'])
  })

  it('beats every 15 s while somebody listens, and keeps no timer when nobody does', async () => {
    const { world, feed } = openFeed()
    const reader = new Reader()
    feed.follow(reader, null)
    await world.advance(14_999)
    expect(reader.text).not.toContain(': beat')
    await world.advance(30_001)
    expect(reader.text.match(/: beat\n\n/g)).toHaveLength(3)
    reader.destroy()
    await world.run()
    expect(reader.text.match(/: beat\n\n/g)).toHaveLength(3)
  })

  it('drops a reader who does not read, and only that one', () => {
    const { feed } = openFeed()
    const slow = new Reader()
    const fast = new Reader()
    feed.follow(slow, null)
    feed.follow(fast, null)
    slow.writableLength = 1_001
    feed.publish(event('a'))
    expect([slow.isDestroyed, fast.isDestroyed]).toEqual([true, false])
    expect([slow.seen, fast.seen]).toEqual([[], ['a']])
    expect(feed.hasRoom()).toBe(true)
  })

  it('admits readers up to its limit', () => {
    const { feed } = openFeed({ maxReaders: 1 })
    const first = new Reader()
    feed.follow(first, null)
    expect(feed.hasRoom()).toBe(false)
    const second = new Reader()
    feed.follow(second, null)
    expect(second.isDestroyed).toBe(true)
    first.destroy()
    expect(feed.hasRoom()).toBe(true)
  })

  it('lets go of everything when closed', async () => {
    const { world, feed } = openFeed()
    const reader = new Reader()
    feed.follow(reader, null)
    feed.close()
    feed.close()
    feed.publish(event('a'))
    expect([reader.isDestroyed, reader.seen, feed.hasRoom()]).toEqual([true, [], false])
    await world.run()
    expect(world.clock.nowMs()).toBe(0)
  })
})

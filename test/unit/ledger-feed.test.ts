// The feed of the in-memory ledger: every final result once, in order, and a reader who missed some is told so.
import { describe, expect, it } from 'vitest'
import type { FeedCursor, FeedEntry, FeedPage, LedgerCommand } from '../../src/actors/ledger/protocol.ts'
import { emptyLedger, step } from '../../src/actors/ledger/state.ts'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Ask } from '../../src/kernel/ask.ts'
import { request, summary } from '../model/rollout-server-world.ts'

const BOTH = ['session', 'task'] as const

class Ledger {
  state
  #asks = 0
  constructor(limits: { readonly maxKeptTasks?: number; readonly maxBytes?: number } = {}, identity = 'l1') {
    this.state = emptyLedger({ maxKeptTasks: 100, maxBytes: 1_000_000, maxCallLogs: 100, ...limits }, identity)
  }
  tell(command: LedgerCommand): unknown {
    const [state, effects] = step(this.state, command)
    this.state = state
    return effects[0]?.value
  }
  #ask<R>(): Ask<R> {
    this.#asks += 1
    return { thread: threadId('test'), incarnation: 1, ask: this.#asks }
  }
  task(id: string, sessions: readonly string[], key = id) {
    const task = request(id, { num_samples: sessions.length, callback_url: 'http://127.0.0.1:9/' })
    const recorded = this.tell({ type: 'record-task', key: taskId(key), task, sessions: sessions.map(knownSessionId), ask: this.#ask() })
    expect(recorded).toEqual({ type: 'recorded' })
  }
  result(task: string, session: string, attempt = 1, bytes = 10) {
    const recorded = this.tell({
      type: 'record-result',
      task: taskId(task),
      session: knownSessionId(session),
      attempt,
      summary: summary(attempt === 1 ? 'upstream_error' : 'completed'),
      payload: new ArrayBuffer(bytes),
      completions: null,
      ask: this.#ask(),
    })
    expect(recorded).toEqual({ type: 'recorded' })
  }
  ended(session: string, attempt = 1) {
    this.tell({ type: 'session-ended', session: knownSessionId(session), attempt })
  }
  endTask(id: string) {
    expect(this.tell({ type: 'record-task-ended', task: taskId(id), status: 'completed', ask: this.#ask() })).toEqual({ type: 'recorded' })
  }
  deliver(id: string, state: 'pending' | 'delivered' = 'delivered') {
    this.tell({ type: 'record-delivery', task: taskId(id), state, detail: '', ask: this.#ask() })
  }
  /** A task of one session, to its end. */
  done(id: string) {
    this.task(id, [`${id}-s`])
    this.result(id, `${id}-s`)
    this.ended(`${id}-s`)
    this.endTask(id)
    this.deliver(id)
  }
  read(after: FeedCursor | 'oldest' | 'latest' = 'oldest', limit = 1_000, types: readonly FeedEntry['type'][] = BOTH): FeedPage {
    // The value of a read is its page.
    return this.tell({ type: 'read-feed', after, limit, types, ask: this.#ask() }) as FeedPage
  }
  names(after: FeedCursor | 'oldest' = 'oldest'): readonly string[] {
    return this.read(after).entries.map((entry) => (entry.type === 'session' ? `${entry.session}.${entry.attempt}` : entry.task))
  }
}

describe('the feed', () => {
  it('has each result when its session has ended, and each task after its sessions', () => {
    const ledger = new Ledger()
    ledger.task('t', ['a', 'b'])
    ledger.result('t', 'b')
    expect(ledger.names()).toEqual([])
    ledger.ended('b')
    expect(ledger.names()).toEqual(['b.1'])
    ledger.result('t', 'a')
    ledger.ended('a')
    ledger.endTask('t')
    expect(ledger.read()).toEqual({
      entries: [
        { type: 'session', sequence: 1, session: 'b', task: 't', attempt: 1, summary: summary('upstream_error'), bytes: 10 },
        { type: 'session', sequence: 2, session: 'a', task: 't', attempt: 1, summary: summary('upstream_error'), bytes: 10 },
        { type: 'task', sequence: 3, task: 't', status: 'completed', delivery: 'pending' },
      ],
      next: { ledger: 'l1', sequence: 3 },
      missed: false,
      startsOver: false,
    })
  })

  it('never has the result of an attempt after which there was another', () => {
    const ledger = new Ledger()
    ledger.task('t', ['a'])
    ledger.result('t', 'a', 1)
    expect(ledger.names()).toEqual([])
    ledger.result('t', 'a', 2)
    // News of the first attempt that come late.
    ledger.ended('a', 1)
    expect(ledger.names()).toEqual([])
    ledger.ended('a', 2)
    expect(ledger.names()).toEqual(['a.2'])
  })

  it('has a result again, and only newly, that is replaced although its session had ended', () => {
    const ledger = new Ledger()
    ledger.task('t', ['a', 'b'])
    for (const session of ['a', 'b']) {
      ledger.result('t', session)
      ledger.ended(session)
    }
    const { next } = ledger.read()
    ledger.result('t', 'a', 2)
    ledger.ended('a', 2)
    expect([ledger.names(), ledger.names(next)]).toEqual([['b.1', 'a.2'], ['a.2']])
    expect(ledger.read(next).missed).toBe(false)
  })

  it('has with the end of a task what it was not told of before, and nothing twice', () => {
    const ledger = new Ledger()
    ledger.task('t', ['a', 'b', 'c'])
    for (const session of ['a', 'b']) ledger.result('t', session)
    ledger.ended('b')
    ledger.endTask('t')
    ledger.ended('a')
    ledger.ended('b')
    ledger.ended('c')
    ledger.ended('unknown')
    expect(ledger.names()).toEqual(['b.1', 'a.1', 't'])
  })

  it('names the task that a session by itself belongs to, and no end of its own', () => {
    const ledger = new Ledger()
    ledger.task('t', ['a'], 'session:a')
    ledger.result('session:a', 'a')
    ledger.ended('a')
    ledger.endTask('session:a')
    expect(ledger.read().entries).toMatchObject([{ type: 'session', session: 'a', task: 't' }])
  })
})

describe('a reader', () => {
  it('goes on where a page ended, through any number of pages, and past what it did not ask for', () => {
    const ledger = new Ledger({ maxKeptTasks: 1_000 })
    for (let i = 0; i < 700; i += 1) ledger.done(`t${i}`)
    const seen: string[] = []
    let after: FeedCursor | 'oldest' = 'oldest'
    for (;;) {
      const page: FeedPage = ledger.read(after, 9, ['task'])
      expect(page.entries.every(({ type }) => type === 'task')).toBe(true)
      seen.push(...page.entries.map(({ task }) => task))
      after = page.next
      if (page.entries.length < 9) break
    }
    expect(seen).toEqual(Array.from({ length: 700 }, (_, i) => `t${i}`))
    expect(after).toEqual({ ledger: 'l1', sequence: 1_400 })
    expect(ledger.read(after).entries).toEqual([])
  })

  it('that wants only what comes gets nothing that was', () => {
    const ledger = new Ledger()
    ledger.done('a')
    const { entries, next, missed } = ledger.read('latest')
    expect([entries, missed]).toEqual([[], false])
    ledger.done('b')
    expect(ledger.names(next)).toEqual(['b-s.1', 'b'])
  })

  it('is told that it missed some exactly when what it has not read was dropped', () => {
    const ledger = new Ledger({ maxKeptTasks: 2 })
    ledger.done('a')
    const afterA = ledger.read().next
    ledger.done('b')
    const amidB = { ...afterA, sequence: afterA.sequence + 1 }
    const afterB = ledger.read().next
    ledger.done('c')
    ledger.done('d')
    expect(ledger.names()).toEqual(['c-s.1', 'c', 'd-s.1', 'd'])
    const missed = ['oldest' as const, afterA, amidB, afterB].map((after) => ledger.read(after).missed)
    expect(missed).toEqual([true, true, true, false])
    expect(ledger.names(afterA)).toEqual(['c-s.1', 'c', 'd-s.1', 'd'])
  })

  it('is told so also of what was dropped between rows that are kept', () => {
    const ledger = new Ledger({ maxKeptTasks: 1 })
    ledger.done('old')
    ledger.deliver('old', 'pending')
    ledger.done('a')
    const begin = { ledger: 'l1', sequence: 0 }
    expect([ledger.names(begin), ledger.read(begin).missed]).toEqual([['old-s.1', 'old', 'a-s.1', 'a'], false])
    ledger.done('b')
    expect([ledger.names(begin), ledger.read(begin).missed]).toEqual([['old-s.1', 'old', 'b-s.1', 'b'], true])
  })

  it.each([
    ['of another ledger', { ledger: 'l2', sequence: 1 }],
    ['of a place that is not there yet', { ledger: 'l1', sequence: 100 }],
  ])('with a cursor %s starts over, and is told so', (_, after) => {
    const ledger = new Ledger()
    ledger.done('a')
    expect(ledger.read(after)).toMatchObject({ startsOver: true, missed: true, next: { ledger: 'l1', sequence: 2 } })
    expect(ledger.names(after)).toEqual(['a-s.1', 'a'])
  })
})

describe('what is driven again', () => {
  it('is kept until it has come to its end again, and shown as pending', () => {
    const ledger = new Ledger({ maxKeptTasks: 1 })
    ledger.done('a')
    ledger.deliver('a', 'pending')
    ledger.done('b')
    ledger.done('c')
    expect(ledger.names()).toEqual(['a-s.1', 'a', 'c-s.1', 'c'])
    expect(ledger.read().entries[1]).toMatchObject({ task: 'a', delivery: 'pending' })
    ledger.deliver('a')
    expect(ledger.names()).toEqual(['a-s.1', 'a'])
  })
})

it('keeps no row of what is dropped', () => {
  const ledger = new Ledger({ maxKeptTasks: 3 })
  for (let i = 0; i < 2_000; i += 1) ledger.done(`t${i}`)
  expect(ledger.state.feed.pieces.flat()).toHaveLength(6)
  expect(ledger.state.feed.pieces.length).toBeLessThanOrEqual(2)
})

// Replicas that come, go and die in any order under random calls: every call is settled, no place is lost, nothing is left.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import type { Lease } from '../../src/proxy/pool/pool.ts'
import { openReplicas, type Replicas } from '../lib/replica-fixture.ts'

const LIMITS = { inFlight: 2, line: 2, downAfter: 2, probeBackoffMs: { first: 500, longest: 4_000 } }
const URLS = ['http://a', 'http://b', 'http://c', 'http://w1', 'http://w2']
const ROUTER = 'http://router'

type Outcome = Parameters<Lease['release']>[0]

const url = fc.constantFrom(...URLS)
const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ type: fc.constant('add' as const), url: fc.nat(2), ranks: fc.constantFrom(undefined, undefined, 2) }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('remove' as const), url: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.constantFrom({ type: 'add-router' as const }, { type: 'remove-router' as const }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('list' as const), workers: fc.subarray(['http://w1', 'http://w2', 'http://a']) }) },
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant('host' as const), url, is: fc.constantFrom('up', 'up', 'dead', 'hanging', 'eval') }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      type: fc.constant('call' as const),
      session: fc.nat(5),
      tier: fc.constantFrom('train' as const, 'eval' as const),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('release' as const),
      at: fc.nat(50),
      outcome: fc.constantFrom<Outcome>('ok', 'ok', 'failed', 'unreachable', 'cancelled'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('abort' as const), at: fc.nat(50) }) },
  { weight: 6, arbitrary: fc.constant({ type: 'settle' as const }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('wait' as const), ms: fc.constantFrom(600, 5_000, 70_000) }) },
)
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

/** A book-keeper beside the pool: which calls wait, and who holds which place. */
function openBook(replicas: Replicas) {
  const waiting = new Map<number, AbortController>()
  const held = new Map<number, Lease>()
  const refused: string[] = []
  /** By id, when an entry of that name was last added or removed. */
  const changed = new Map<string, { readonly at: number; readonly isThere: boolean }>()
  let calls = 0
  let now = 0

  return {
    waiting,
    held,
    refused,
    note(id: string, isThere: boolean): void {
      changed.set(id, { at: now, isThere })
    },
    tick(): void {
      now += 1
    },
    call(session: number, tier: 'train' | 'eval'): void {
      const id = calls++
      const startedAt = now
      const abort = new AbortController()
      waiting.set(id, abort)
      void replicas.pool.acquire(sessionId(`${session}`), tier, new Set(), abort.signal).then((acquired) => {
        expect(waiting.delete(id)).toBe(true)
        if (!acquired.ok) {
          refused.push(acquired.failure.code)
          return
        }
        const { lease } = acquired
        held.set(id, lease)
        const entry = lease.replica.id.split(/[@/]/, 1)[0] ?? ''
        // Who asked after a replica was removed, and before it came back, never gets a place there.
        const { at, isThere } = changed.get(entry) ?? { at: 0, isThere: false }
        expect(isThere || startedAt <= at).toBe(true)
      })
    },
    release(at: number, outcome: Outcome): void {
      const [id, lease] = [...held][at % Math.max(1, held.size)] ?? []
      if (id === undefined || lease === undefined) return
      held.delete(id)
      lease.release(outcome, null)
      // A second time is nobody's.
      lease.release('ok', null)
    },
    abort(at: number): void {
      ;[...waiting.values()][at % Math.max(1, waiting.size)]?.abort()
    },
  }
}

type Book = ReturnType<typeof openBook>

async function run(replicas: Replicas, book: Book, each: Action): Promise<void> {
  book.tick()
  switch (each.type) {
    case 'add': {
      const id = `r${each.url}`
      if (replicas.add(id, URLS[each.url] ?? '', each.ranks === undefined ? {} : { ranks: each.ranks }).ok) book.note(id, true)
      return
    }
    case 'remove':
      if (replicas.remove(`r${each.url}`).ok) book.note(`r${each.url}`, false)
      return
    case 'add-router':
      if (replicas.add('router', ROUTER, { router: true }).ok) book.note('router', true)
      return
    case 'remove-router':
      if (replicas.remove('router').ok) book.note('router', false)
      return
    case 'list':
      replicas.host(ROUTER).lists = { '/list_workers': { urls: each.workers } }
      return
    case 'host': {
      const host = replicas.host(each.url)
      host.isUp = each.is !== 'dead'
      host.hangs = each.is === 'hanging'
      host.trains = each.is !== 'eval'
      return
    }
    case 'call':
      return book.call(each.session, each.tier)
    case 'release':
      return book.release(each.at, each.outcome)
    case 'abort':
      return book.abort(each.at)
    case 'settle':
      await replicas.settle()
      return check(replicas, book)
    case 'wait':
      await replicas.world.advance(each.ms)
      return check(replicas, book)
  }
}

/** What holds whenever nothing is under way. */
async function check(replicas: Replicas, book: Book): Promise<void> {
  const views = await replicas.views()
  const inFlight = Map.groupBy(book.held.values(), ({ replica }) => replica)
  for (const [replica, leases] of inFlight) expect(leases.length).toBeLessThanOrEqual(replica.limits.inFlight)
  expect(views.reduce((sum, view) => sum + view.inFlight, 0)).toBe(book.held.size)
  expect(views.reduce((sum, view) => sum + view.waiting, 0)).toBe(book.waiting.size)
  for (const view of views) {
    expect(view.inFlight).toBeLessThanOrEqual(view.maxInFlight)
    expect(view.waiting).toBeLessThanOrEqual(LIMITS.line)
    // Nobody waits for what will never be free, and a removed replica is only there for its calls.
    if (view.state === 'removing') expect([view.waiting, view.inFlight > 0]).toEqual([0, true])
  }
  const ids = views.filter(({ state }) => state !== 'removing').map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  const serves = views.some(({ role, state }) => role === 'engine' && state === 'up')
  expect(replicas.serving.at(-1) ?? false).toBe(serves)
}

describe('replicas that come, go and die', () => {
  it('settle every call, keep every place, stay within every cap, and leave nothing', async () => {
    let granted = 0
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.array(action, { maxLength: 80, size: 'max' }), async (seed, actions) => {
        const replicas = openReplicas({ seed, limits: LIMITS })
        const book = openBook(replicas)
        for (const each of actions) await run(replicas, book, each)

        // From here on everybody is well, and who has a place gives it back.
        for (const host of [...URLS, ROUTER]) Object.assign(replicas.host(host), { isUp: true, hangs: false, trains: true })
        await replicas.world.advance(70_000)
        for (let round = 0; round < 200 && book.waiting.size + book.held.size > 0; round += 1) {
          granted += book.held.size
          while (book.held.size > 0) book.release(0, 'ok')
          await replicas.settle()
        }
        expect([book.waiting.size, book.held.size]).toEqual([0, 0])
        await check(replicas, book)

        for (const id of ['r0', 'r1', 'r2', 'router']) replicas.set.remove(replicaId(id))
        await replicas.settle()
        expect(await replicas.views()).toEqual([])
        expect(replicas.serving.at(-1) ?? false).toBe(false)
        // It alternates: nobody hears the same twice.
        expect(replicas.serving).toEqual(replicas.serving.map((_, index) => index % 2 === 0))
        await replicas.world.advance(120_000)
        expect(replicas.kernel.stats()).toMatchObject({ actors: 0, pendingAsks: 0, pendingTimers: 0 })
        expect([...URLS, ROUTER].map((host) => [host, replicas.host(host).connections])).toEqual([...URLS, ROUTER].map((host) => [host, 0]))
        expect(replicas.timers()).toBe(0)
        await replicas.close()
      }),
    )
    expect(granted).toBeGreaterThan(100)
  }, 60_000)
})

// Pauses that overlap under random calls and replicas: nothing runs while calls are held, nobody holds them for nothing, nobody is lost.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sessionId } from '../../src/contract/ids.ts'
import type { PauseOutcome } from '../../src/proxy/boundary.ts'
import type { Lease } from '../../src/proxy/pool/pool.ts'
import { openReplicas, type Replicas } from '../lib/replica-fixture.ts'

const LIMITS = { inFlight: 2, line: 4, downAfter: 2, probeBackoffMs: { first: 500, longest: 4_000 } }
const URLS = ['http://a', 'http://b', 'http://c']

type Outcome = Parameters<Lease['release']>[0]

const action = fc.oneof(
  { weight: 5, arbitrary: fc.record({ type: fc.constant('pause' as const), timeoutMs: fc.constantFrom(0, 100, 1_000, 60_000) }) },
  { weight: 3, arbitrary: fc.constant({ type: 'resume' as const }) },
  { weight: 8, arbitrary: fc.record({ type: fc.constant('call' as const), session: fc.nat(5) }) },
  {
    weight: 7,
    arbitrary: fc.record({
      type: fc.constant('release' as const),
      at: fc.nat(50),
      outcome: fc.constantFrom<Outcome>('ok', 'ok', 'failed', 'unreachable', 'cancelled'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('abort' as const), at: fc.nat(50) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('add' as const), url: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('remove' as const), url: fc.nat(2) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('host' as const),
      url: fc.constantFrom(...URLS),
      is: fc.constantFrom('up', 'dead', 'hanging'),
    }),
  },
  { weight: 6, arbitrary: fc.constant({ type: 'settle' as const }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('wait' as const), ms: fc.constantFrom(50, 600, 30_000) }) },
)
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

/** A book-keeper beside the pool: who wants calls held, who waits, and who holds a place. */
function openBook(replicas: Replicas) {
  const { pool } = replicas
  const waiting = new Map<number, AbortController>()
  const held = new Map<number, Lease>()
  const pending = new Set<symbol>()
  /** What must not have happened. */
  const faults: string[] = []
  let isGranted = false
  let calls = 0

  function ended(pause: symbol, outcome: PauseOutcome): void {
    const wasPending = pending.delete(pause)
    if (wasPending === (outcome === 'resumed')) faults.push(`a pause is told ${outcome}, and ${wasPending ? 'nobody' : 'somebody'} resumed`)
    if (outcome !== 'paused' || !wasPending) return
    if (held.size > 0) faults.push(`${held.size} calls are in flight in a pause`)
    isGranted = true
  }

  return {
    waiting,
    held,
    faults,
    isWanted: () => isGranted || pending.size > 0,
    pause(timeoutMs: number): void {
      const pause = Symbol('pause')
      pending.add(pause)
      void pool.pause(timeoutMs).then((outcome) => ended(pause, outcome))
      expect(pool.isPaused()).toBe(true)
    },
    resume(): void {
      pending.clear()
      isGranted = false
      pool.resume()
      expect(pool.isPaused()).toBe(false)
    },
    call(session: number): void {
      const id = calls++
      const abort = new AbortController()
      waiting.set(id, abort)
      const begunIn = pool.isPaused() ? pool.pauses() : null
      void pool.acquire(sessionId(`${session}`), 'eval', new Set(), abort.signal).then((acquired) => {
        if (!waiting.delete(id)) faults.push('a call is settled twice')
        if (acquired.ok) held.set(id, acquired.lease)
        if (acquired.ok && pool.isPaused()) faults.push('a call got its place in a pause')
        const isHeld = pool.isPaused() && pool.pauses() === begunIn
        if (!acquired.ok && isHeld && !abort.signal.aborted) faults.push(`a call is refused in a pause: ${acquired.failure.code}`)
      })
    },
    release(at: number, outcome: Outcome): void {
      const [id, lease] = [...held][at % Math.max(1, held.size)] ?? []
      if (id === undefined || lease === undefined) return
      held.delete(id)
      lease.release(outcome, null)
    },
    abort(at: number): void {
      ;[...waiting.values()][at % Math.max(1, waiting.size)]?.abort()
    },
  }
}

type Book = ReturnType<typeof openBook>

async function run(replicas: Replicas, book: Book, each: Action): Promise<void> {
  switch (each.type) {
    case 'pause':
      // Of one that is granted at once nobody hears before the next turn, in which a resume may come first.
      book.pause(each.timeoutMs)
      return replicas.settle()
    case 'resume':
      return book.resume()
    case 'call':
      return book.call(each.session)
    case 'release':
      return book.release(each.at, each.outcome)
    case 'abort':
      return book.abort(each.at)
    case 'add':
      replicas.add(`r${each.url}`, URLS[each.url] ?? '')
      return
    case 'remove':
      replicas.remove(`r${each.url}`)
      return
    case 'host': {
      const host = replicas.host(each.url)
      host.isUp = each.is !== 'dead'
      host.hangs = each.is === 'hanging'
      return
    }
    case 'settle':
      return replicas.settle()
    case 'wait':
      return replicas.world.advance(each.ms)
  }
}

const generations = (replicas: Replicas): number =>
  URLS.reduce((sum, url) => sum + replicas.host(url).asked.filter(({ path }) => path === '/v1/chat/completions').length, 0)

describe('whatever is paused and resumed', () => {
  it('while calls are held none gets a place and no engine generates; they are held exactly as long as somebody wants it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(1_000), fc.array(action, { maxLength: 60, size: 'max' }), async (seed, actions) => {
        const replicas = openReplicas({ seed, limits: LIMITS })
        const book = openBook(replicas)
        for (const each of actions) {
          const before = {
            isPaused: replicas.pool.isPaused(),
            pauses: replicas.pool.pauses(),
            asked: generations(replicas),
            held: new Set(book.held.keys()),
          }
          await run(replicas, book, each)
          expect(book.faults).toEqual([])
          if (each.type === 'settle' || each.type === 'wait') expect(replicas.pool.isPaused()).toBe(book.isWanted())
          if (!before.isPaused || !replicas.pool.isPaused() || replicas.pool.pauses() !== before.pauses) continue
          expect(generations(replicas)).toBe(before.asked)
          expect([...book.held.keys()].filter((id) => !before.held.has(id))).toEqual([])
        }

        // Somebody serves, nobody pauses: all who still wait get their place, or had a reason told while nobody served.
        book.resume()
        for (const url of URLS) Object.assign(replicas.host(url), { isUp: true, hangs: false })
        replicas.add('r0', 'http://a')
        await replicas.world.advance(70_000)
        while (book.held.size > 0) {
          book.release(0, 'ok')
          await replicas.settle()
        }
        expect([book.faults, book.waiting.size, replicas.pool.counts()]).toEqual([[], 0, { inFlight: 0, waiting: 0 }])
        await replicas.close()
        expect(replicas.timers()).toBe(0)
      }),
      { numRuns: 300 },
    )
  }, 60_000)
})

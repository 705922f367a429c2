// A real thread reads leased tokens while their owner goes on appending and recycling: each read is exact or says that it is stale.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterAll, expect, it } from 'vitest'
import { openArena } from '../../src/tokens/arena.ts'
import { LEASED, PHASE, READS, RECYCLED, RELEASING, type ReadOrder, type ReadReport } from './tokens-reader-worker.ts'

// Blocks large enough that a recycling often falls into the middle of a copy.
const BLOCK_TOKENS = 2 ** 17
const ROUNDS = 40
const WAIT_MS = 10_000

const worker = new Worker(new URL('./tokens-reader-worker.ts', import.meta.url))
afterAll(() => worker.terminate())

it('reads exactly while leased, and never another session’s tokens afterwards', async () => {
  const arena = openArena({ blockTokens: BLOCK_TOKENS, slabTokens: BLOCK_TOKENS * 4, maxSlabs: 1, pressureAt: 1 })
  const control = new Int32Array(new SharedArrayBuffer(8))
  const total = { exact: 0, stale: 0, wrong: 0, staleWhileLeased: 0, exactAfterRecycling: 0 }

  function fillSession(marker: number, tokens: number) {
    const session = arena.openSession()
    const ids = new Int32Array(tokens).fill(marker)
    const logprobs = new Float32Array(tokens).fill(-marker)
    expect(session.append({ promptIds: ids, sampledIds: ids, logprobs }).ok).toBe(true)
    return session
  }

  /** Blocks this thread until the reader has finished `count` more reads. */
  function awaitReads(count: number): void {
    const goal = Atomics.load(control, READS) + count
    for (let seen = Atomics.load(control, READS); seen < goal; seen = Atomics.load(control, READS)) {
      expect(Atomics.wait(control, READS, seen, WAIT_MS)).not.toBe('timed-out')
    }
  }

  for (let round = 1; round <= ROUNDS; round++) {
    Atomics.store(control, PHASE, LEASED)
    const session = fillSession(round, BLOCK_TOKENS / 4)
    const reference = session.lease()
    worker.postMessage({ reference, marker: round, control } satisfies ReadOrder)
    awaitReads(1)

    // Others come and go, and the session itself goes on, behind what was leased.
    const strangers = [-1, -2, -3].map((marker) => {
      const stranger = fillSession(marker, 1_000)
      stranger.close()
      return session.append({ promptIds: [marker], sampledIds: [], logprobs: null }).ok
    })
    expect(strangers).toEqual([true, true, true])
    awaitReads(1)

    Atomics.store(control, PHASE, RELEASING)
    session.release(reference)
    session.close()
    fillSession(-round, BLOCK_TOKENS).close()
    Atomics.store(control, PHASE, RECYCLED)

    const [report]: ReadReport[] = await once(worker, 'message')
    for (const key of Object.keys(total) as (keyof ReadReport)[]) total[key] += report![key]
  }

  expect(total).toMatchObject({ wrong: 0, staleWhileLeased: 0, exactAfterRecycling: 0 })
  expect(total.exact).toBeGreaterThanOrEqual(2 * ROUNDS)
  expect(total.stale).toBeGreaterThanOrEqual(ROUNDS)
  expect(arena.stats().leasedBlocks).toBe(0)
})

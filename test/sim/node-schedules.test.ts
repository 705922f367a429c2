// Whole nodes through hundreds of seeded days in virtual time: whatever fails, the promises hold.
// More days: POLAR_SIM_SCHEDULES=5000. One day again: POLAR_SIM_SEED=17.
import { describe, expect, it } from 'vitest'
import { findViolations } from './lib/invariants.ts'
import { drawSchedule } from './lib/schedule.ts'
import { closeAt, type Day, liveThrough } from './lib/simulation.ts'

const BLOCKS = 8
/** Enough to come by everything that `reached` asks for. */
const ENOUGH = 200
const schedules = Number(process.env.POLAR_SIM_SCHEDULES ?? ENOUGH)
const only = process.env.POLAR_SIM_SEED
const perBlock = Math.ceil(schedules / BLOCKS)
const blocks =
  only === undefined
    ? Array.from({ length: BLOCKS }, (_, block) => ({ from: block * perBlock, to: (block + 1) * perBlock - 1 }))
    : [{ from: Number(only), to: Number(only) }]

/** What has happened on some day: a search that never gets anywhere would find nothing. */
const reached = new Set<string>()

function note({ views, captures, results, records, snapshots, arrivals, pauses }: Day): void {
  for (const { result, attempt } of results.values()) {
    reached.add(`outcome ${String(result.trajectory.metadata.outcome)}`)
    if (attempt > 1) reached.add('a second attempt')
    for (const trace of result.trajectory.traces)
      if (trace.loss_mask.indexOf(0, trace.loss_mask.indexOf(1)) > 0) reached.add('merged turns')
  }
  for (const { summary } of captures.values()) reached.add(`elsewhere ${summary?.outcome}`)
  for (const view of views.values()) {
    reached.add(`task ${view.status}`)
    reached.add(`delivery ${view.delivery}`)
    if (view.earlyStop !== null) reached.add('an early stop')
  }
  const finished = new Map(records.map((record) => [record.id, record]))
  for (const { status, delivery, retryOf, captureError, streamed } of finished.values()) {
    reached.add(`call ${status}`)
    if (retryOf !== null) reached.add('a turn asked again')
    if (captureError !== null) reached.add(`capture ${captureError.code}`)
    if (streamed && delivery === 'yes') reached.add('a stream')
    if (status === 'ok' && delivery === 'no') reached.add('an answer nobody took')
  }
  if (snapshots.some(({ metrics }) => metrics.arena.pressure)) reached.add('arena pressure')
  if (snapshots.some(({ metrics }) => metrics.postrunQueueDepth > 0)) reached.add('a POSTRUN backlog')
  for (const ending of pauses) reached.add(`a pause that is ${ending}`)
  if (new Set(arrivals.map(({ key }) => key)).size < arrivals.length) reached.add('a result delivered twice')
}

describe('a whole node in virtual time', () => {
  it.each(blocks)(
    'keeps its promises on every day from seed $from to seed $to',
    async ({ from, to }) => {
      for (let seed = from; seed <= to; seed += 1) {
        const day = await liveThrough(drawSchedule(seed)).catch((error: unknown) => {
          throw new Error(`POLAR_SIM_SEED=${seed}`, { cause: error })
        })
        const violations = findViolations(day)
        expect(violations, `POLAR_SIM_SEED=${seed}\n${violations.join('\n')}`).toEqual([])
        note(day)
      }
    },
    120_000,
  )

  it.runIf(only === undefined && schedules >= ENOUGH)(
    'was led by those days into everything that can become of a session, a call and a delivery',
    () => {
      const expected = [
        ...['completed', 'agent_error', 'agent_timeout', 'harness_error', 'init_error', 'runtime_error', 'upstream_error'],
        ...['evaluator_error', 'evaluator_timeout', 'cancelled', 'interrupted', 'budget_exhausted'],
      ].map((outcome) => `outcome ${outcome}`)
      expect([...reached].sort()).toEqual(
        expect.arrayContaining([
          ...expected,
          ...['completed', 'agent_timeout', 'harness_error', 'interrupted', 'cancelled'].map((outcome) => `elsewhere ${outcome}`),
          ...['task completed', 'task cancelled', 'task failed', 'delivery none', 'delivery delivered', 'delivery dead'],
          ...[
            'call ok',
            'call failed',
            'call aborted',
            'call cancelled',
            'capture ids-missing',
            'capture lengths-differ',
            'capture arena-full',
          ],
          ...['a second attempt', 'merged turns', 'an early stop', 'a turn asked again', 'a stream', 'an answer nobody took'],
          ...['paused', 'timed-out', 'resumed'].map((ending) => `a pause that is ${ending}`),
          ...['arena pressure', 'a POSTRUN backlog', 'a result delivered twice'],
        ]),
      )
    },
  )

  it.runIf(only === undefined)(
    'leaves nothing when it is closed at any moment of any day',
    async () => {
      for (let seed = 0; seed < perBlock; seed += 1) {
        const ruins = await closeAt(drawSchedule(seed), (seed * 7_919) % 60_000)
        expect(ruins, `seed ${seed}`).toEqual({ sandboxes: 0, processes: 0, timers: 0, actors: 0, faults: [] })
      }
    },
    120_000,
  )

  it.each([3, 9, 38])('lives day %i the same way twice: every delivery, every result', async (seed) => {
    const [first, second] = [await liveThrough(drawSchedule(seed)), await liveThrough(drawSchedule(seed))]
    expect(second.trace).toEqual(first.trace)
    expect([...second.results]).toEqual([...first.results])
    expect(second.arrivals).toEqual(first.arrivals)
  })

  it('lives another day from another seed', async () => {
    const [first, second] = [await liveThrough(drawSchedule(3)), await liveThrough({ ...drawSchedule(3), seed: 4 })]
    expect(second.trace).not.toEqual(first.trace)
  })
})

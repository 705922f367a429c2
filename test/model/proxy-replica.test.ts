// One replica under random traffic: the cap and the line hold, nobody is lost, and every lease is accounted for.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { ProbeResult } from '../../src/proxy/engines/probe.ts'
import type { Acquired } from '../../src/proxy/pool/protocol.ts'
import { openReplica, type ReplicaEffect, type ReplicaMessage, type ReplicaState, statusOf, step } from '../../src/proxy/pool/state.ts'

const LIMITS = { inFlight: 3, line: 2, downAfter: 2, probeBackoffMs: { first: 500, longest: 4_000 } }
const ask = (id: number) => ({ thread: threadId('t'), incarnation: 1, ask: id })
const session = sessionId('s')
const serving = (tier: 'train' | 'eval'): ProbeResult => ({
  type: 'serving',
  model: 'm',
  tier,
  maxModelLen: null,
  weightVersion: null,
  logprobMode: 'unknown',
  streams: false,
  detail: null,
})

/** Runs messages and keeps what was answered to whom. */
function openDriver() {
  let [state] = openReplica(replicaId('r'), 'http://r', LIMITS)
  const answers = new Map<number, Acquired>()
  const effects: ReplicaEffect[] = []
  let tickets = 0
  return {
    state: (): ReplicaState => state,
    answers,
    effects,
    send(message: ReplicaMessage): void {
      const [next, made] = step(state, message)
      state = next
      for (const effect of made) {
        effects.push(effect)
        if (effect.type !== 'answer') continue
        expect(answers.has(effect.ask.ask)).toBe(false)
        answers.set(effect.ask.ask, effect.acquired)
      }
    },
    acquire(tier: 'train' | 'eval' = 'train'): number {
      tickets += 1
      this.send({ type: 'acquire', session, ticket: tickets, tier, ask: ask(tickets) })
      return tickets
    },
    lease(ticket: number): number {
      const answer = answers.get(ticket)
      if (answer?.type !== 'granted') throw new Error(`ticket ${ticket} has no lease`)
      return answer.lease
    },
  }
}

const action = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('acquire' as const), tier: fc.constantFrom('train' as const, 'eval' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('release' as const),
      at: fc.nat(50),
      outcome: fc.constantFrom('ok' as const, 'failed' as const, 'unreachable' as const, 'cancelled' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('withdraw' as const), at: fc.nat(50) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('probed' as const),
      result: fc.constantFrom<ProbeResult>(serving('train'), serving('eval'), { type: 'unusable', detail: 'down' }),
    }),
  },
  { weight: 2, arbitrary: fc.constantFrom({ type: 'pause' as const }, { type: 'resume' as const }, { type: 'probe-due' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('relieve' as const),
      count: fc.nat(3),
      tier: fc.constantFrom('train' as const, 'eval' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('remove' as const), sure: fc.nat(9) }) },
)

describe('whatever happens', () => {
  it('in flight ≤ cap, waiting ≤ line, every ticket is answered once or waits, leases are conserved', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 100, size: 'max' }), (actions) => {
        const driver = openDriver()
        const asked = new Set<number>()
        /** Lease by ticket, as a dumb book-keeper has it. */
        const held = new Map<number, number>()
        for (const each of actions) {
          const before = new Set(driver.answers.keys())
          switch (each.type) {
            case 'acquire':
              asked.add(driver.acquire(each.tier))
              break
            case 'release': {
              const [ticket, lease] = [...held][each.at % Math.max(1, held.size)] ?? [0, 999]
              driver.send({ type: 'release', lease, outcome: each.outcome, weightVersion: null })
              // A second release of the same lease is nobody's.
              driver.send({ type: 'release', lease, outcome: 'ok', weightVersion: null })
              held.delete(ticket)
              break
            }
            case 'withdraw': {
              const ticket = each.at % (asked.size + 1)
              driver.send({ type: 'withdraw', ticket })
              held.delete(ticket)
              break
            }
            case 'probed':
              driver.send({ type: 'probed', result: { ok: true, value: each.result } })
              break
            case 'remove':
              // Seldom: after it nothing much can happen.
              if (each.sure === 0) driver.send({ type: 'remove' })
              break
            default:
              driver.send(each)
          }
          for (const [ticket, acquired] of driver.answers) {
            if (!before.has(ticket) && acquired.type === 'granted') held.set(ticket, acquired.lease)
          }
          const state = driver.state()
          expect(state.leases.size).toBeLessThanOrEqual(LIMITS.inFlight)
          expect(state.waiting.length).toBeLessThanOrEqual(LIMITS.line)
          expect(new Map([...state.leases].map(([lease, ticket]) => [ticket, lease]))).toEqual(held)
          const waiting = state.waiting.map(({ ticket }) => ticket)
          expect([...asked].filter((ticket) => !driver.answers.has(ticket))).toEqual(waiting)
          // Nobody waits for a place that is free.
          const view = statusOf(state)
          if (view.state === 'up' && waiting.length > 0) expect(view.inFlight).toBe(LIMITS.inFlight)
          if (view.state === 'down' || view.state === 'removing') expect(waiting).toEqual([])
        }
      }),
    )
  })
})

describe('a replica', () => {
  it('holds callers until its first probe, then serves them in order', () => {
    const driver = openDriver()
    const [first, second] = [driver.acquire(), driver.acquire()]
    expect(driver.answers.size).toBe(0)
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    expect([driver.lease(first), driver.lease(second)]).toEqual([1, 2])
  })

  it('answers full beyond its line, and grants the head of the line what is released', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    const tickets = Array.from({ length: 6 }, () => driver.acquire())
    expect(driver.answers.get(6)).toMatchObject({ type: 'refused', reason: 'full', retryAfterMs: 2_000 })
    expect(statusOf(driver.state())).toMatchObject({ inFlight: 3, waiting: 2 })
    driver.send({ type: 'release', lease: driver.lease(tickets[1] ?? 0), outcome: 'ok', weightVersion: 'w9' })
    expect(driver.answers.get(4)?.type).toBe('granted')
    expect(driver.answers.has(5)).toBe(false)
    expect(statusOf(driver.state()).weightVersion).toBe('w9')
  })

  it('goes down only after consecutive misses, sends its line away, and comes back by a probe', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    const miss = (ticket: number) =>
      driver.send({ type: 'release', lease: driver.lease(ticket), outcome: 'unreachable', weightVersion: null })
    miss(driver.acquire())
    driver.send({ type: 'release', lease: driver.lease(driver.acquire()), outcome: 'failed', weightVersion: null })
    miss(driver.acquire())
    expect(statusOf(driver.state()).state).toBe('up')
    const [dying] = [driver.acquire(), driver.acquire(), driver.acquire()]
    const line = driver.acquire()
    miss(dying ?? 0)
    expect(statusOf(driver.state()).state).toBe('down')
    // The place that became free was not given out by a replica that is down.
    expect(driver.answers.get(line)).toMatchObject({ type: 'refused', reason: 'down', retryAfterMs: 500 })
    expect(driver.answers.get(driver.acquire())).toMatchObject({ reason: 'down' })
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    expect(driver.answers.get(driver.acquire())?.type).toBe('granted')
  })

  it('that begins in a pause is first probed after it', () => {
    const [opened, first] = openReplica(replicaId('r'), 'http://r', LIMITS, true)
    expect([first, statusOf(opened).state]).toEqual([[{ type: 'probe-after', delayMs: 500 }], 'paused'])
    const [paused, again] = step(opened, { type: 'probe-due' })
    expect(again).toEqual([{ type: 'probe-after', delayMs: 500 }])
    const [resumed] = step(paused, { type: 'resume' })
    expect([step(resumed, { type: 'probe-due' })[1], statusOf(resumed).state]).toEqual([[{ type: 'probe' }], 'unprobed'])
  })

  it('says what is wrong with it, and which weights it was last seen with', () => {
    const driver = openDriver()
    expect(statusOf(driver.state())).toMatchObject({ state: 'unprobed', detail: null, weightVersion: null })
    driver.send({ type: 'probed', result: { ok: true, value: { type: 'unusable', detail: 'loading' } } })
    expect(statusOf(driver.state())).toMatchObject({ state: 'down', detail: 'loading', tier: 'unknown' })
    driver.send({
      type: 'probed',
      result: { ok: true, value: { ...serving('eval'), detail: 'no ids', weightVersion: 'w1' } as ProbeResult },
    })
    expect(statusOf(driver.state())).toMatchObject({ state: 'up', detail: 'no ids', tier: 'eval', weightVersion: 'w1' })
    // An engine that does not say may be the same.
    for (let round = 0; round < LIMITS.downAfter; round += 1)
      driver.send({ type: 'release', lease: driver.lease(driver.acquire('eval')), outcome: 'unreachable', weightVersion: null })
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    expect(statusOf(driver.state())).toMatchObject({ state: 'up', detail: null, weightVersion: 'w1' })
  })

  it('counts a lease that is given back twice once', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    const lease = driver.lease(driver.acquire())
    for (let round = 0; round < 3; round += 1) driver.send({ type: 'release', lease, outcome: 'unreachable', weightVersion: null })
    expect(statusOf(driver.state()).state).toBe('up')
  })

  it('is probed again ever more rarely, up to a limit', () => {
    const driver = openDriver()
    for (let round = 0; round < 6; round += 1) driver.send({ type: 'probed', result: { ok: false, error: new Error('x') } })
    const delays = driver.effects.flatMap((effect) => (effect.type === 'probe-after' ? [effect.delayMs] : []))
    expect(delays).toEqual([500, 1_000, 2_000, 4_000, 4_000, 4_000])
  })

  it('paused holds callers, does not count misses and is not probed; resumed it grants', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    const early = [driver.acquire(), driver.acquire(), driver.acquire()]
    driver.send({ type: 'pause' })
    const held = driver.acquire()
    for (const ticket of early) driver.send({ type: 'release', lease: driver.lease(ticket), outcome: 'unreachable', weightVersion: null })
    expect([driver.answers.has(held), statusOf(driver.state()).state]).toEqual([false, 'paused'])
    const before = driver.effects.length
    driver.send({ type: 'probe-due' })
    expect(driver.effects.slice(before)).toEqual([])
    driver.send({ type: 'resume' })
    expect(driver.answers.get(held)?.type).toBe('granted')
  })

  it('down and paused asks again later instead of waking a sleeping engine', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: false, error: new Error('x') } })
    driver.send({ type: 'pause' })
    driver.send({ type: 'probe-due' })
    expect(driver.effects.at(-1)).toEqual({ type: 'probe-after', delayMs: 500 })
    driver.send({ type: 'resume' })
    driver.send({ type: 'probe-due' })
    expect(driver.effects.at(-1)).toEqual({ type: 'probe' })
  })

  it('of tier eval refuses training sessions with the reason, also those in line', () => {
    const driver = openDriver()
    const [train, evaluation] = [driver.acquire('train'), driver.acquire('eval')]
    driver.send({ type: 'probed', result: { ok: true, value: { ...serving('eval'), detail: 'ids-missing: no ids' } as ProbeResult } })
    expect(driver.answers.get(train)).toMatchObject({ reason: 'not-trainable', detail: expect.stringContaining('ids-missing: no ids') })
    expect(driver.answers.get(evaluation)?.type).toBe('granted')
  })

  it('removed sends its line away, keeps what is in flight, grants nothing, and is left alone', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    const held = [driver.acquire(), driver.acquire(), driver.acquire()]
    const line = driver.acquire()
    driver.send({ type: 'remove' })
    expect(driver.answers.get(line)).toMatchObject({ type: 'refused', reason: 'removed' })
    expect(driver.answers.get(driver.acquire())).toMatchObject({ type: 'refused', reason: 'removed' })
    expect(statusOf(driver.state())).toMatchObject({ state: 'removing', inFlight: 3, waiting: 0 })
    const before = driver.effects.length
    for (const ticket of held) driver.send({ type: 'release', lease: driver.lease(ticket), outcome: 'unreachable', weightVersion: null })
    driver.send({ type: 'probe-due' })
    driver.send({ type: 'probed', result: { ok: true, value: { type: 'unusable', detail: 'gone' } } })
    driver.send({ type: 'resume' })
    expect(driver.effects.slice(before)).toEqual([])
    expect(statusOf(driver.state())).toMatchObject({ state: 'removing', inFlight: 0 })
  })

  it('relieved lets go the first in line that the other may serve, and no more than it takes', () => {
    const driver = openDriver()
    driver.send({ type: 'probed', result: { ok: true, value: serving('train') } })
    for (let index = 0; index < 3; index += 1) driver.acquire()
    const [train, evaluation] = [driver.acquire('train'), driver.acquire('eval')]
    driver.send({ type: 'relieve', count: 2, tier: 'eval' })
    expect([driver.answers.has(train), driver.answers.get(evaluation)]).toEqual([false, expect.objectContaining({ reason: 'moved' })])
    const last = driver.acquire('eval')
    driver.send({ type: 'relieve', count: 1, tier: 'train' })
    expect([driver.answers.get(train), driver.answers.has(last)]).toEqual([expect.objectContaining({ reason: 'moved' }), false])
  })
})

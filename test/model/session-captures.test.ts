// A capture under everything that may end it: its owner's word, its budget, idleness, a cancel, and all of them at once.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionEffect } from '../../src/actors/session/phases.ts'
import type { Deadline, SessionMessage } from '../../src/actors/session/protocol.ts'
import type { Outcome } from '../../src/contract/outcome.ts'
import type { SealedCalls } from '../../src/proxy/boundary.ts'
import { sessionPolicy, sessionSpec, taskRequest } from '../lib/specs.ts'
import { type Machine, opened, overflowed, sealed, sessionMachine, spent } from './session-machine.ts'

const ask = { thread: 't' as never, incarnation: 0, ask: 1 }
const answered: SessionMessage = { ...overflowed, status: 'ok', contextExhausted: false }
const finished = (reward: number | null = null): SessionMessage => ({ type: 'finish-capture', reward, ask })
const passed = (of: Deadline): SessionMessage => ({ type: 'deadline-passed', of })
const cancelled: SessionMessage = { type: 'cancel', reason: 'deleted' }

function capture(): Machine {
  const session = sessionMachine(sessionSpec('s', { kind: 'capture', request: taskRequest({ evaluator: null, runtime: null }) }))
  session.send({ type: 'begin-capture' })
  return session
}

/** The deadlines that run now, by what was armed and disarmed so far. */
function running(effects: readonly SessionEffect[]): readonly Deadline[] {
  const armed = new Set<Deadline>()
  for (const effect of effects) {
    if (effect.type === 'disarm') armed.delete(effect.deadline)
    if (effect.type !== 'arm') continue
    // A timer that is armed twice would leave one that nobody can stop.
    expect(armed).not.toContain(effect.deadline)
    armed.add(effect.deadline)
  }
  return [...armed].toSorted()
}

const answers = (session: Machine) => session.effects.flatMap((effect) => (effect.type === 'answer-finish' ? [effect.isTaken] : []))
const lastFinish = (session: Machine) => session.effects.findLast((effect) => effect.type === 'finish')

describe('a capture', () => {
  it('opens its door at once, says that it runs, and asks for no sandbox', () => {
    const session = capture()
    expect(session.effects).toEqual([
      { type: 'open-door' },
      { type: 'announce', status: 'RUNNING', calls: 0, model: null },
      { type: 'arm', deadline: 'agent', afterMs: sessionPolicy.budgets.agentMs },
      { type: 'arm', deadline: 'idle', afterMs: sessionPolicy.budgets.captureIdleMs },
    ])
    session.send(opened)
    session.send(answered)
    session.send(finished())
    session.settle()
    for (const never of ['start-sandbox', 'prepare', 'launch', 'kill-agent', 'evaluate', 'stop-sandboxes'] as const)
      expect([never, session.count(never)]).toEqual([never, 0])
    expect([session.state.phase, session.count('report')]).toEqual(['closed', 1])
  })

  it.each<[string, Outcome, readonly SessionMessage[]]>([
    ['finished after a call', 'completed', [opened, answered, finished()]],
    ['finished without one', 'harness_error', [finished()]],
    ['finished when its last call was too long', 'context_exhausted', [opened, overflowed, finished()]],
    ['finished when its budget was used up', 'budget_exhausted', [opened, answered, spent, finished(1)]],
    ['idle when its budget was used up', 'budget_exhausted', [opened, answered, spent, passed('idle')]],
    ['out of time', 'agent_timeout', [opened, passed('agent')]],
    ['out of time without a call', 'harness_error', [passed('agent')]],
    ['idle', 'agent_timeout', [opened, answered, passed('idle')]],
    ['idle from the start', 'harness_error', [passed('idle')]],
    ['deleted', 'cancelled', [opened, answered, cancelled]],
    ['refused a door', 'init_error', [{ type: 'door-refused', error: 'the boundary is closed' }]],
    ['finished, then deleted', 'cancelled', [opened, answered, finished(), cancelled]],
    ['out of time, then finished', 'agent_timeout', [opened, passed('agent'), finished()]],
    ['finished, then out of time', 'completed', [opened, answered, finished(), passed('agent'), passed('idle')]],
  ])('that is %s ends as %s', (_, outcome, messages) => {
    const session = capture()
    for (const message of messages) session.send(message)
    session.settle()
    expect([session.outcome(), session.state.phase]).toEqual([outcome, 'closed'])
  })

  it('is idle only while no call is in flight, in whatever order the facts of its calls arrive', () => {
    const calls = fc.array(fc.boolean(), { maxLength: 12 })
    fc.assert(
      fc.property(calls, (order) => {
        const session = capture()
        let inFlight = 0
        for (const isOpening of order) {
          session.send(isOpening ? opened : answered)
          inFlight += isOpening ? 1 : -1
          expect(running(session.effects)).toEqual(inFlight === 0 ? ['agent', 'idle'] : ['agent'])
        }
      }),
    )
  })

  it.each([
    ['given', finished(0.5), { type: 'graded', outcomeReward: 0.5, traceRewards: null, metadata: {} }],
    ['of zero', finished(0), { type: 'graded', outcomeReward: 0, traceRewards: null, metadata: {} }],
    ['left out', finished(null), null],
  ])('carries a reward that is %s to its result', (_, finish, evaluation) => {
    const session = capture()
    session.send(opened)
    session.send(answered)
    session.send(finish)
    session.settle()
    expect(lastFinish(session)).toMatchObject({ outcome: 'completed', evaluation, calls: 1, model: overflowed.model })
  })

  it('drops the reward of a capture that was deleted before it was built', () => {
    const session = capture()
    for (const message of [opened, answered, finished(1), cancelled]) session.send(message)
    session.settle()
    expect(lastFinish(session)).toMatchObject({ outcome: 'cancelled', evaluation: null, cancelled: 'deleted' })
  })

  it('says who ended it: the first finish, and no other', () => {
    const session = capture()
    session.send(opened)
    session.send(finished())
    session.send(finished(1))
    expect(answers(session)).toEqual([true, false])
    const late = capture()
    late.send(passed('agent'))
    late.send(finished())
    expect(answers(late)).toEqual([false])
  })

  it('gives its key while it captures, and never after', () => {
    const session = capture()
    const read: SessionMessage = { type: 'read-access', ask }
    session.send(read)
    session.send(opened)
    session.send(finished())
    session.send(read)
    const given = session.effects.flatMap((effect) => (effect.type === 'answer-access' ? [effect.isOpen] : []))
    expect(given).toEqual([true, false])
  })

  it('is not blamed for an engine that failed its last call', () => {
    const session = capture()
    session.send(opened)
    session.send(finished(1))
    session.open.length = 0
    const failed = { status: 'failed', httpStatus: 502, error: null } as SealedCalls['calls'][number]
    session.send({ type: 'sealed', result: { ok: true, value: { ...sealed(1), calls: [failed] } } })
    session.settle()
    expect(session.outcome()).toBe('upstream_error')
  })
})

it('an agent of this node is never given away, nor finished from outside', () => {
  const session = sessionMachine(sessionSpec('s'))
  session.send({ type: 'begin-init' })
  session.settle()
  session.send({ type: 'read-access', ask })
  session.send(finished(1))
  expect(session.state.phase).toBe('running')
  expect(answers(session)).toEqual([false])
  expect(session.effects).toContainEqual({ type: 'answer-access', ask, isOpen: false })
})

it('a capture ends with exactly one result, reported once, under any order of events', () => {
  const disturbance = fc.constantFrom<SessionMessage>(
    finished(),
    finished(1),
    cancelled,
    passed('agent'),
    passed('idle'),
    passed('init'),
    passed('first-call'),
    opened,
    answered,
    overflowed,
    { type: 'begin-capture' },
    { type: 'door-refused', error: 'full' },
    { type: 'read-access', ask },
    { type: 'begin-post-run' },
    { type: 'begin-init' },
    { type: 'begin-run' },
    { type: 'report-again' },
    { type: 'record-again' },
    { type: 'sealed', result: { ok: false, error: new Error('seal') } },
    { type: 'built', result: { ok: false, error: 'deadline' } },
    { type: 'finished', result: { ok: false, error: 'deadline' } },
    { type: 'recorded', result: { ok: false, error: 'deadline' } },
    { type: 'sandboxes-stopped', result: { ok: true, value: undefined } },
  )
  const script = fc.array(fc.oneof({ arbitrary: fc.constant(null), weight: 1 }, { arbitrary: disturbance, weight: 1 }), {
    maxLength: 40,
    size: 'max',
  })
  fc.assert(
    fc.property(script, (moves) => {
      const session = capture()
      let finishes = 0
      for (const move of moves) {
        const message = move ?? session.open.shift()
        if (message === undefined) continue
        if (message.type === 'finish-capture' && session.state.phase !== 'closed') finishes += 1
        session.send(message)
      }
      session.send(finished())
      session.settle()
      // What a duplicate answer consumed is asked again by its deadline.
      if (session.state.phase === 'recording') {
        session.send({ type: 'recorded', result: { ok: true, value: { type: 'recorded' } } })
        session.settle()
      }
      expect(session.state.phase).toBe('closed')
      for (const once of ['open-door', 'seal', 'report', 'close'] as const) expect([once, session.count(once)]).toEqual([once, 1])
      expect(session.effects.filter((effect) => effect.type === 'tell-gateway')).toEqual([
        { type: 'tell-gateway', fact: 'session-left-run' },
      ])
      expect(session.count('start-sandbox') + session.count('stop-sandboxes') + session.count('evaluate')).toBe(0)
      expect(running(session.effects)).toEqual([])
      // Every finish that it lived to hear is answered, and one at most ended it.
      expect(answers(session).length).toBeGreaterThanOrEqual(finishes)
      expect(answers(session).filter(Boolean).length).toBeLessThanOrEqual(1)
    }),
    { numRuns: 1_000 },
  )
})

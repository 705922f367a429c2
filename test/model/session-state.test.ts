import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AgentEnded } from '../../src/actors/sandbox/protocol.ts'
import type { SessionEffect, SessionState } from '../../src/actors/session/phases.ts'
import type { SessionMessage } from '../../src/actors/session/protocol.ts'
import type { Outcome } from '../../src/contract/outcome.ts'
import type { SealedCalls } from '../../src/proxy/boundary.ts'
import { sessionSpec, taskRequest } from '../lib/specs.ts'
import { type Machine, opened, overflowed, sandbox, sealed, sessionMachine, spent } from './session-machine.ts'

const exited = (code: number): AgentEnded => ({ exit: { type: 'exited', code }, stdoutTail: '', stderrTail: '' })
const machine = (): Machine => sessionMachine(sessionSpec('s', { request: taskRequest() }))

function runningMachine(): Machine {
  const session = machine()
  session.send({ type: 'begin-init' })
  session.settle()
  expect(session.state.phase).toBe('running')
  return session
}

const ended = (end: AgentEnded): SessionMessage => ({ type: 'process-ended', sandbox: sandbox.sandbox, ended: end })

describe('the outcome of a session', () => {
  const cases: readonly (readonly [string, Outcome, (session: Machine) => void])[] = [
    [
      'exit code 0 after a call',
      'completed',
      (session) => {
        session.send(opened)
        session.send(ended(exited(0)))
      },
    ],
    [
      'non-zero exit after a call',
      'agent_error',
      (session) => {
        session.send(opened)
        session.send(ended(exited(3)))
      },
    ],
    ['exit without a call', 'harness_error', (session) => session.send(ended(exited(0)))],
    ['no call in time', 'harness_error', (session) => session.send({ type: 'deadline-passed', of: 'first-call' })],
    [
      'agent budget spent',
      'agent_timeout',
      (session) => {
        session.send(opened)
        session.send({ type: 'deadline-passed', of: 'agent' })
      },
    ],
    [
      'context exhausted',
      'context_exhausted',
      (session) => {
        session.send(opened)
        session.send(overflowed)
        session.send(ended(exited(1)))
      },
    ],
    [
      'context exhausted, compacted and finished',
      'completed',
      (session) => {
        session.send(opened)
        session.send(overflowed)
        session.send({ ...overflowed, status: 'ok', contextExhausted: false })
        session.send(ended(exited(0)))
      },
    ],
    ...(
      [
        ['budget used up, exit code 0', ended(exited(0))],
        ['budget used up, non-zero exit', ended(exited(1))],
        ['budget used up, and no end before that of its time', { type: 'deadline-passed', of: 'agent' }],
        ['budget used up, process lost', ended({ exit: { type: 'lost' }, stdoutTail: '', stderrTail: '' })],
      ] as const
    ).map(
      ([name, end]) =>
        [
          name,
          'budget_exhausted',
          (session: Machine) => {
            session.send(opened)
            session.send(spent)
            session.send(end)
          },
        ] as const,
    ),
    [
      'budget used up before the first call',
      'budget_exhausted',
      (session) => {
        session.send(spent)
        session.send(ended(exited(0)))
      },
    ],
    [
      'budget used up, for want of room',
      'budget_exhausted',
      (session) => {
        session.send(opened)
        session.send(overflowed)
        session.send(spent)
        session.send(ended(exited(1)))
      },
    ],
    [
      'budget used up, then cancelled',
      'cancelled',
      (session) => {
        session.send(opened)
        session.send(spent)
        session.send({ type: 'cancel', reason: 'cancelled by the trainer' })
      },
    ],
    [
      'process lost',
      'runtime_error',
      (session) => {
        session.send(opened)
        session.send(ended({ exit: { type: 'lost' }, stdoutTail: '', stderrTail: '' }))
      },
    ],
    ['cancel while running', 'cancelled', (session) => session.send({ type: 'cancel', reason: 'cancelled by the trainer' })],
  ]
  it.each(cases)('%s → %s', (_, outcome, act) => {
    const session = runningMachine()
    act(session)
    session.settle()
    expect(session.outcome()).toBe(outcome)
    expect(session.state.phase).toBe('closed')
  })

  it.each<[string, string, string]>([
    ['its last line', 'warming up\nsh: nosuch-agent: not found\n\n', ': sh: nosuch-agent: not found'],
    ['without what a terminal takes for orders', '\u001b[31mno\u001b[0m\u0007 key\u202e\r\n \u001b[0m\n', ': no key'],
    ['at most 200 characters of it', 'x'.repeat(70_000), `: ${'x'.repeat(200)}…`],
    ['nothing, if there is nothing', ' \n\n', ''],
  ])('says of an agent that never called the model what stderr ended with: %s', (_, stderrTail, reason) => {
    const session = runningMachine()
    session.send(ended({ exit: { type: 'exited', code: 127 }, stdoutTail: 'not this', stderrTail }))
    session.settle()
    const errors = session.effects.flatMap((effect) => (effect.type === 'finish' ? [effect.error] : []))
    expect(errors).toEqual([`the agent ended (exit code 127) without a single model call${reason}`])
  })

  it('says which budget is used up, stops waiting for a first call, and grades what was left behind', () => {
    const session = runningMachine()
    session.send(spent)
    session.send({ ...spent, sentence: 'another one' } as SessionMessage)
    session.send(ended(exited(0)))
    session.settle()
    const errors = session.effects.flatMap((effect) => (effect.type === 'finish' ? [effect.error] : []))
    expect(errors).toEqual(["the session's budget of 1 model call is used up"])
    expect(session.effects).toContainEqual({ type: 'disarm', deadline: 'first-call' })
    expect(session.count('evaluate')).toBe(1)
  })

  it('is the engine’s fault when its failure has eaten the budget', () => {
    const session = runningMachine()
    session.send(opened)
    session.send(spent)
    session.send(ended(exited(0)))
    session.open.length = 0
    session.send({ type: 'agent-killed', result: { ok: true, value: { ok: true, value: undefined } } })
    session.open.length = 0
    const failed = { status: 'failed', httpStatus: 503, error: null } as SealedCalls['calls'][number]
    session.send({ type: 'sealed', result: { ok: true, value: { ...sealed(1), calls: [failed] } } })
    session.settle()
    expect(session.outcome()).toBe('upstream_error')
  })

  it('is not graded when the table says no, and graded on what a timed-out agent left', () => {
    const cancelled = runningMachine()
    cancelled.send({ type: 'cancel', reason: 'cancelled by the trainer' })
    cancelled.settle()
    const timedOut = runningMachine()
    timedOut.send(opened)
    timedOut.send({ type: 'deadline-passed', of: 'agent' })
    timedOut.settle()
    expect([cancelled.count('evaluate'), timedOut.count('evaluate')]).toEqual([0, 1])
  })

  it.each<[string, SessionMessage]>([
    ['cancelled', { type: 'cancel', reason: 'cancelled by the trainer' }],
    ['left without an answer', { type: 'evaluated', result: { ok: false, error: 'deadline' } }],
  ])('withdraws an evaluation when it is %s', (_, end) => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    while (session.state.phase !== 'evaluating') session.send(session.open.shift() as SessionMessage)
    session.open.length = 0
    session.send(end)
    expect(session.count('withdraw-evaluation')).toBe(1)
    session.settle()
    expect(session.state.phase).toBe('closed')
  })

  it('kills the agent’s tree before anything is sealed or graded, also after a clean exit', () => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    session.settle()
    const order = session.effects
      .map((effect) => effect.type)
      .filter((type) => ['kill-agent', 'seal', 'build', 'evaluate', 'finish', 'record', 'report'].includes(type))
    expect(order).toEqual(['kill-agent', 'seal', 'build', 'evaluate', 'finish', 'record', 'report'])
  })

  it('starts the agent’s budgets with RUNNING, so that waiting in READY never eats them', () => {
    const session = machine()
    const armed = () => session.effects.flatMap((effect) => (effect.type === 'arm' ? [effect.deadline] : []))
    session.send({ type: 'begin-init' })
    while (session.state.phase !== 'ready') session.send(session.open.shift() as SessionMessage)
    expect(armed()).toEqual(['init'])
    session.settle()
    expect(armed()).toEqual(['init', 'agent', 'first-call'])
  })

  it.each<{ at: SessionState['phase']; faultAt: SessionState['phase']; fault: SessionMessage }>([
    { at: 'sealing', faultAt: 'sealing', fault: { type: 'sealed', result: { ok: false, error: new Error('no lease') } } },
    { at: 'post-run-queued', faultAt: 'building', fault: { type: 'built', result: { ok: false, error: 'deadline' } } },
    {
      at: 'building',
      faultAt: 'building',
      fault: { type: 'built', result: { ok: true, value: { type: 'build-failed', error: 'broken', completions: null } } },
    },
    { at: 'building', faultAt: 'finishing', fault: { type: 'finished', result: { ok: false, error: 'deadline' } } },
  ])('stays cancelled when something breaks after the cancel: $at, $faultAt', ({ at, faultAt, fault }) => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    while (session.state.phase !== at) session.send(session.open.shift() as SessionMessage)
    session.send({ type: 'cancel', reason: 'cancelled by the trainer' })
    while (session.state.phase !== faultAt) session.send(session.open.shift() as SessionMessage)
    session.open.length = 0
    session.send(fault)
    session.settle()
    expect([session.outcome(), session.state.phase]).toEqual(['cancelled', 'closed'])
  })

  it('does not grade an agent that could not be stopped', () => {
    const session = runningMachine()
    session.send(opened)
    session.send({ type: 'deadline-passed', of: 'agent' })
    session.open.length = 0
    session.send({ type: 'agent-killed', result: { ok: false, error: 'deadline' } })
    session.settle()
    expect([session.outcome(), session.count('evaluate'), session.count('report')]).toEqual(['runtime_error', 0, 1])
  })

  it.each([
    ['failed', 502, 'upstream_error'],
    ['failed', 429, 'upstream_error'],
    ['aborted', 503, 'upstream_error'],
    ['failed', 400, 'agent_error'],
    ['failed', 422, 'agent_error'],
    ['failed', 403, 'upstream_error'],
    ['ok', 200, 'agent_error'],
  ] as const)('after an engine’s failure and a last call that %s with %i it is %s', (status, httpStatus, outcome) => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(1)))
    session.open.length = 0
    session.send({ type: 'agent-killed', result: { ok: true, value: { ok: true, value: undefined } } })
    session.open.length = 0
    const failed = { status, httpStatus, error: null } as SealedCalls['calls'][number]
    session.send({ type: 'sealed', result: { ok: true, value: { ...sealed(1), calls: [failed] } } })
    session.settle()
    expect(session.outcome()).toBe(outcome)
  })

  it('reports a build error when the builder fails, and still delivers a result', () => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    while (session.state.phase !== 'building') session.send(session.open.shift() as SessionMessage)
    session.open.length = 0
    session.send({ type: 'built', result: { ok: true, value: { type: 'build-failed', error: 'broken', completions: null } } })
    session.settle()
    expect([session.outcome(), session.count('report'), session.count('release-sealed')]).toEqual(['build_error', 1, 1])
  })

  it.each([
    ['evaluator fails', { ok: true, value: { type: 'failed', error: 'x', log: '' } }, 'evaluator_error'],
    ['evaluator says nothing in time', { ok: true, value: { type: 'timed-out', timeoutMs: 5 } }, 'evaluator_timeout'],
    ['evaluator actor is gone', { ok: false, error: 'stopped' }, 'evaluator_error'],
  ] as const)('%s → %s is never a reward', (_, result, outcome) => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    while (session.state.phase !== 'evaluating') session.send(session.open.shift() as SessionMessage)
    session.open.length = 0
    session.send({ type: 'evaluated', result })
    session.settle()
    expect(session.outcome()).toBe(outcome)
  })

  it.each([
    ['too-large', 'build_error', 2],
    ['conflict', 'completed', 1],
  ] as const)('does not offer a result for ever that is refused as %s: it ends as %s', (reason, outcome, records) => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    while (session.state.phase !== 'recording') session.send(session.open.shift() as SessionMessage)
    session.open.splice(
      session.open.findIndex(({ type }) => type === 'recorded'),
      1,
    )
    session.send({ type: 'recorded', result: { ok: true, value: { type: 'refused', reason, detail: 'no' } } })
    session.settle()
    expect([session.state.phase, session.outcome(), session.count('record')]).toEqual(['closed', outcome, records])
  })

  it('holds a result until the ledger has taken it', () => {
    const session = runningMachine()
    session.send(opened)
    session.send(ended(exited(0)))
    while (session.state.phase !== 'recording') session.send(session.open.shift() as SessionMessage)
    session.open.length = 0
    session.send({ type: 'recorded', result: { ok: true, value: { type: 'refused', reason: 'full', detail: '' } } })
    session.send({ type: 'sandboxes-stopped', result: { ok: true, value: undefined } })
    expect(session.count('report')).toBe(0)
    session.settle()
    expect(session.count('report')).toBe(1)
  })
})

describe('a session under any order of events', () => {
  const disturbance = fc.constantFrom<SessionMessage>(
    { type: 'cancel', reason: 'cancelled by the trainer' },
    { type: 'deadline-passed', of: 'init' },
    { type: 'deadline-passed', of: 'agent' },
    { type: 'deadline-passed', of: 'first-call' },
    ended(exited(0)),
    ended(exited(1)),
    ended({ exit: { type: 'signalled', signal: 'SIGKILL' }, stdoutTail: '', stderrTail: '' }),
    opened,
    spent,
    { ...overflowed, status: 'ok', promptTokens: 1, sampledTokens: 1, contextExhausted: false },
    { type: 'begin-run' },
    { type: 'begin-post-run' },
    { type: 'begin-init' },
    { type: 'report-again' },
    { type: 'record-again' },
    { type: 'sealed', result: { ok: false, error: new Error('seal') } },
    { type: 'built', result: { ok: false, error: 'deadline' } },
    { type: 'evaluated', result: { ok: false, error: 'stopped' } },
    { type: 'finished', result: { ok: false, error: 'deadline' } },
    { type: 'recorded', result: { ok: false, error: 'deadline' } },
    { type: 'prepared', result: { ok: true, value: { ok: false, blame: 'harness', isFinal: true, detail: 'x' } } },
    { type: 'sandbox-started', result: { ok: false, error: 'stopped' } },
    { type: 'agent-killed', result: { ok: false, error: 'deadline' } },
  )
  // Either the next honest answer, or something that comes out of turn.
  const script = fc.array(fc.oneof({ arbitrary: fc.constant(null), weight: 3 }, { arbitrary: disturbance, weight: 1 }), {
    maxLength: 60,
    size: 'max',
  })

  it('ends with exactly one result, reported once, after its tree is dead and its sandboxes are told to stop', () => {
    fc.assert(
      fc.property(script, (moves) => {
        const session = machine()
        session.send({ type: 'begin-init' })
        for (const move of moves) {
          const message = move ?? session.open.shift()
          if (message !== undefined) session.send(message)
        }
        session.settle()
        // A session that only runs is ended by its agent's exit.
        if (session.state.phase === 'launching' || session.state.phase === 'running') {
          session.send(ended(exited(0)))
          session.settle()
        }
        // What a duplicate answer consumed is asked again by its deadline.
        if (session.state.phase === 'recording') {
          session.send({ type: 'recorded', result: { ok: true, value: { type: 'recorded' } } })
          session.settle()
        }
        expect(session.state.phase).toBe('closed')
        for (const once of ['report', 'close', 'stop-sandboxes', 'seal'] as const) expect([once, session.count(once)]).toEqual([once, 1])
        expect(session.effects.filter((effect) => effect.type === 'tell-gateway' && effect.fact === 'session-left-run').length).toBe(1)
        expect(session.count('build')).toBeLessThanOrEqual(1)
        expect(session.count('evaluate')).toBeLessThanOrEqual(1)
        const at = (type: SessionEffect['type']): number => session.effects.findIndex((effect) => effect.type === type)
        if (session.count('launch') > 0) expect(at('kill-agent')).toBeLessThan(at('seal'))
        expect(at('record')).toBeLessThan(at('report'))
        const armed = session.effects.filter((effect) => effect.type === 'arm').map((effect) => effect.deadline)
        for (const deadline of armed) {
          expect(session.effects.some((effect) => effect.type === 'disarm' && effect.deadline === deadline)).toBe(true)
        }
      }),
      { numRuns: 1_000 },
    )
  })
})

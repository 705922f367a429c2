// What the rollout server promises a trainer, one promise at a time.
import { describe, expect, it } from 'vitest'
import type { SessionView } from '../../src/actors/rollout-server/protocol.ts'
import { lookUp } from '../../src/actors/table.ts'
import { gatewayId, sessionId, taskId } from '../../src/contract/ids.ts'
import { OUTCOMES, type Outcome } from '../../src/contract/outcome.ts'
import { request, ServerWorld, summary } from '../model/rollout-server-world.ts'

const CALLBACK = { callback_url: 'http://127.0.0.1:9/cb' }

function sessionsOf(world: ServerWorld, id: string): readonly SessionView[] {
  return world.view(id)?.sessions ?? []
}

/** A server with one gateway that holds every session of task `t`. */
function running(overrides: Record<string, unknown> = {}, limits = {}) {
  const world = new ServerWorld(limits)
  const gateway = world.startGateway('g0', 100)
  world.accept(request('t', overrides))
  return { world, gateway, sessions: sessionsOf(world, 't').map((session) => session.session) }
}

describe('submit', () => {
  it('acknowledges a task only after the ledger recorded it, and dispatches nothing before', () => {
    const world = new ServerWorld()
    world.startGateway('g0', 5)
    const answer = world.submit(request('t'))
    expect(answer).toThrow('not answered')
    expect(world.opened).toEqual([])
    world.answerRecord()
    expect(answer()).toEqual({ type: 'submitted', task: 't' })
    expect(world.opened).toHaveLength(1)
  })

  it.each([
    ['while it is recorded', (_: ServerWorld) => undefined, { type: 'submitted', task: 't' }],
    ['while it runs', (world: ServerWorld) => world.answerRecord(), { type: 'known', task: 't', status: 'running' }],
    [
      'after it ended',
      (world: ServerWorld) => {
        world.answerRecord()
        world.cancel('t')
        world.settleAll()
      },
      { type: 'known', task: 't', status: 'cancelled' },
    ],
  ])('takes the same body %s for the same task, and another body for a conflict', (_, until, known) => {
    const world = new ServerWorld()
    world.submit(request('t', { metadata: { a: 1, b: { c: 2, d: 3 } } }))
    until(world)
    const same = world.submit(request('t', { metadata: { b: { d: 3, c: 2 }, a: 1 } }))
    const other = world.submit(request('t', { metadata: { a: 1, b: { c: 2, d: 4 } } }))
    world.settleAll()
    expect(same()).toEqual(known)
    expect(other()).toMatchObject({ type: 'conflict' })
    expect(world.state.order).toEqual(['t'])
  })

  it.each([
    [
      { ok: true, value: { type: 'refused', reason: 'full', detail: 'no room' } },
      { type: 'not-recorded', detail: 'no room' },
    ],
    [
      { ok: true, value: { type: 'refused', reason: 'conflict', detail: 'other body' } },
      { type: 'conflict', detail: 'other body' },
    ],
    [
      { ok: false, error: 'stopped' },
      { type: 'not-recorded', detail: 'the ledger did not answer: stopped' },
    ],
  ] as const)('forgets a task the ledger did not take: %j', (answer, reply) => {
    const world = new ServerWorld({ maxAdmittedSessions: 1 })
    const submitted = world.submit(request('t'))
    world.answerRecord(answer)
    expect(submitted()).toEqual(reply)
    expect(world.view('t')).toBeNull()
    expect(world.accept(request('t'))).toEqual({ type: 'submitted', task: 't' })
  })

  it('closes the record of a task whose acknowledgement it could not wait for', () => {
    const world = new ServerWorld()
    world.submit(request('t'))
    world.answerRecord({ ok: false, error: 'deadline' })
    expect(world.ends).toEqual([{ type: 'record-end', task: 't', status: 'cancelled' }])
  })

  it('admits sessions up to the limit, and again when some have ended', () => {
    const world = new ServerWorld({ maxAdmittedSessions: 3 })
    const gateway = world.startGateway('g0', 3)
    world.accept(request('a', { num_samples: 2 }))
    const early = world.submit(request('b', { num_samples: 2 }))
    expect(early()).toMatchObject({ type: 'overloaded' })
    world.finish(gateway, world.opened[0]!.spec.session, summary('completed'))
    expect(world.accept(request('b', { num_samples: 2 }))).toMatchObject({ type: 'submitted' })
  })
})

describe('cancel', () => {
  it('ends pending sessions with a recorded cancelled result and asks the gateway to end the others', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    world.accept(request('t', { num_samples: 3, metadata: { group_id: 7 }, ...CALLBACK }))
    expect(world.cancel('t')).toMatchObject({ status: 'cancelling', completedSessions: 0 })
    const [first] = world.opened
    expect(world.cancels).toEqual([{ gateway, session: first!.spec.session, reason: 'cancelled by the trainer' }])
    expect(world.settles.map(({ facts }) => [facts.outcome, facts.error, facts.taskMetadata])).toEqual([
      ['cancelled', 'session cancelled', { group_id: 7 }],
      ['cancelled', 'session cancelled', { group_id: 7 }],
    ])
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'cancelling', completedSessions: 2 })
    world.finish(gateway, first!.spec.session, summary('cancelled'))
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'cancelled', completedSessions: 3 })
    expect(world.delivers).toMatchObject([{ task: 't', status: 'cancelled', attempts: [1, 1, 1] }])
  })

  it('changes nothing when it comes twice or too late', () => {
    const { world, gateway, sessions } = running()
    world.cancel('t')
    world.cancel('t')
    expect(world.cancels).toHaveLength(1)
    world.finish(gateway, sessions[0]!, summary('completed'))
    world.settleAll()
    expect(world.cancel('t')).toMatchObject({ status: 'cancelled' })
    expect(world.events.filter((event) => event.type === 'task.completed')).toHaveLength(1)
  })

  it('takes effect as soon as a task that was still being recorded is', () => {
    const world = new ServerWorld()
    world.startGateway('g0', 5)
    const submitted = world.submit(request('t'))
    expect(world.cancel('t')).toMatchObject({ status: 'cancelling' })
    world.settleAll()
    expect(submitted()).toEqual({ type: 'submitted', task: 't' })
    expect(world.opened).toEqual([])
    expect(world.view('t')).toMatchObject({ status: 'cancelled' })
  })

  it('never starts a stopped session again, whatever it reports', () => {
    const { world, gateway, sessions } = running({ num_samples: 2 })
    world.cancel('t')
    world.finish(gateway, sessions[0]!, summary('runtime_error'))
    world.loseGateway(gateway)
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'cancelled', completedSessions: 2 })
    expect(sessionsOf(world, 't').map(({ attempt, summary: ended }) => [attempt, ended?.outcome])).toEqual([
      [1, 'runtime_error'],
      [1, 'cancelled'],
    ])
  })

  it('repeats itself to a gateway that was full', () => {
    const { world, sessions } = running()
    world.offer = () => 'full'
    world.cancel('t')
    expect(world.cancels).toEqual([])
    world.offer = () => 'accepted'
    world.advance(1_000)
    expect(world.cancels).toMatchObject([{ session: sessions[0] }])
  })

  it('knows nothing of an unknown id without register_if_missing, and with it turns a late submit away for 300 s', () => {
    const world = new ServerWorld()
    expect(world.cancel('t')).toBeNull()
    expect(world.cancel('t', true)).toMatchObject({ task: 't', status: 'cancelled', totalSessions: 0 })
    world.nowMs = 299_999
    expect(world.submit(request('t'))()).toMatchObject({ type: 'conflict' })
    world.nowMs = 300_000
    expect(world.accept(request('t'))).toMatchObject({ type: 'submitted' })
  })
})

describe('attempts', () => {
  it.each(Object.keys(OUTCOMES) as Outcome[])('follow the outcome table: %s', (outcome) => {
    const { world, gateway, sessions } = running({}, { maxAttempts: 2 })
    world.finish(gateway, sessions[0]!, summary(outcome))
    expect(world.opened).toHaveLength(OUTCOMES[outcome].retried ? 2 : 1)
    if (!OUTCOMES[outcome].retried) return
    world.finish(gateway, sessions[0]!, summary(outcome))
    world.settleAll()
    expect(world.opened.map(({ spec }) => spec.attempt)).toEqual([1, 2])
    expect(sessionsOf(world, 't')[0]).toMatchObject({ attempt: 2, summary: { outcome } })
  })

  it('are not made after a failure that they would repeat', () => {
    const { world, gateway, sessions } = running({}, { maxAttempts: 2 })
    world.finish(gateway, sessions[0]!, summary('init_error', { retryable: false }))
    expect(world.opened).toHaveLength(1)
    expect(sessionsOf(world, 't')[0]).toMatchObject({ attempt: 1, summary: { outcome: 'init_error' } })
  })

  it('are made again for the sessions of a lost gateway, and end interrupted when used up', () => {
    const { world, gateway, sessions } = running({ num_samples: 2 }, { maxAttempts: 2 })
    world.finish(gateway, sessions[0]!, summary('completed'))
    world.loseGateway(gateway)
    expect(sessionsOf(world, 't').map(({ attempt, status }) => [attempt, status])).toEqual([
      [1, 'COMPLETED'],
      [2, 'REGISTERED'],
    ])
    const second = world.startGateway('g1', 1)
    world.loseGateway(second)
    world.settleAll()
    expect(sessionsOf(world, 't')[1]).toMatchObject({ attempt: 2, gateway: 'g1', summary: { outcome: 'interrupted' } })
    expect(world.view('t')).toMatchObject({ status: 'completed', completedSessions: 2, erroredSessions: 1 })
  })

  it('keep the result that the ledger already holds when a gateway died between recording and telling', () => {
    const { world, gateway, sessions } = running({}, { maxAttempts: 1 })
    world.results.set(sessions[0]!, { attempt: 1, summary: summary('completed') })
    world.loseGateway(gateway)
    world.settleAll()
    expect(sessionsOf(world, 't')[0]).toMatchObject({ summary: { outcome: 'completed', reward: 1 } })
  })

  it('do not count what never reached a gateway that had stopped', () => {
    const world = new ServerWorld()
    world.startGateway('g0', 3)
    world.offer = () => 'stopped'
    world.accept(request('t', { num_samples: 3 }))
    world.offer = () => 'accepted'
    world.advance(1)
    world.startGateway('g1', 3)
    expect(world.opened.map(({ spec }) => spec.attempt)).toEqual([1, 1, 1])
  })

  it('take no result from one that was given up, told late by a gateway that was thought lost', () => {
    const { world, gateway, sessions } = running({}, { maxAttempts: 2 })
    const session = sessions[0]!
    world.loseGateway(gateway)
    const second = world.startGateway('g1', 1)
    expect(world.opened.map(({ spec }) => spec.attempt)).toEqual([1, 2])
    world.send({ type: 'session-finished', session, attempt: 1, summary: summary('completed') })
    expect(sessionsOf(world, 't')[0]).toMatchObject({ attempt: 2, gateway: 'g1', status: 'REGISTERED', summary: null })
    world.finish(second, session, summary('agent_timeout'))
    expect(sessionsOf(world, 't')[0]).toMatchObject({ attempt: 2, summary: { outcome: 'agent_timeout' } })
  })

  it('are remembered with where and why they failed, and no more of an error than its beginning', () => {
    const { world, gateway, sessions } = running({}, { maxAttempts: 3 })
    const [session] = sessions
    expect(world.session(session!)?.earlier).toEqual([])
    world.finish(gateway, session!, summary('runtime_error', { error: 'x'.repeat(5_000) }))
    world.loseGateway(gateway)
    const last = world.startGateway('g1', 1)
    expect(world.session(session!)).toMatchObject({
      attempt: 3,
      earlier: [
        { attempt: 1, gateway: 'g0', outcome: 'runtime_error', error: 'x'.repeat(1_000) },
        { attempt: 2, gateway: 'g0', outcome: 'interrupted', error: 'the gateway g0 was lost while it held the session' },
      ],
    })
    world.finish(last, session!, summary('completed'))
    world.settleAll()
    expect(world.session(session!)?.earlier.map(({ attempt }) => attempt)).toEqual([1, 2])
  })

  it('are not remembered of a dispatch that was refused', () => {
    const { world, sessions } = running({}, { maxAttempts: 2 })
    const { gateway, spec } = world.opened[0]!
    world.send({ type: 'dispatch-refused', session: spec.session, attempt: 1, gateway, offer: 'full' })
    expect(world.session(sessions[0]!)).toMatchObject({ attempt: 1, earlier: [] })
  })

  it('take a second start of a gateway for the loss of the first', () => {
    const { world } = running({}, { maxAttempts: 2 })
    world.startGateway('g0', 1)
    expect(world.opened.map(({ spec }) => spec.attempt)).toEqual([1, 2])
  })
})

describe('dispatch', () => {
  it('holds back from a full gateway until it announces room again or a second has passed', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 5)
    world.offer = () => 'full'
    world.accept(request('t'))
    expect(sessionsOf(world, 't')).toMatchObject([{ status: 'REGISTERED', gateway: null, attempt: 1 }])
    world.offer = () => 'accepted'
    world.accept(request('u'))
    expect(world.opened).toEqual([])
    world.demand(gateway, 1)
    expect(world.opened.map(({ spec }) => spec.task)).toEqual(['t', 'u'])
  })

  it('tries a full gateway again after a second', () => {
    const world = new ServerWorld()
    world.startGateway('g0', 1)
    world.offer = () => 'full'
    world.accept(request('t'))
    world.offer = () => 'accepted'
    world.advance(999)
    expect(world.opened).toEqual([])
    world.advance(1)
    expect(world.opened).toHaveLength(1)
  })

  it('spreads forty sessions over four equal gateways as ten each', () => {
    const world = new ServerWorld()
    for (const name of ['a', 'b', 'c', 'd']) world.startGateway(name, 20)
    world.accept(request('t', { num_samples: 40 }))
    expect([...world.held.values()].map((sessions) => sessions.size)).toEqual([10, 10, 10, 10])
  })

  it('uses another gateway while one is full', () => {
    const world = new ServerWorld()
    world.startGateway('a', 5)
    world.startGateway('b', 5)
    world.offer = (gateway) => (gateway === 'a' ? 'full' : 'accepted')
    world.accept(request('t', { num_samples: 3 }))
    expect(world.opened.map(({ gateway }) => gateway)).toEqual(['b', 'b', 'b'])
  })

  it('tells the gateway which attempt and sample it is, and how long the session waited', () => {
    const world = new ServerWorld()
    world.accept(request('t', { num_samples: 2, dispatch_priority: 9 }))
    world.nowMs = 750
    world.startGateway('g0', 2)
    expect(world.opened.map(({ spec }) => spec)).toMatchObject([
      { sampleIndex: 0, attempt: 1, maxAttempts: 2, priority: 9, registeredMsAgo: 750 },
      { sampleIndex: 1, attempt: 1, maxAttempts: 2, priority: 9, registeredMsAgo: 750 },
    ])
  })
})

describe('early stop', () => {
  it('stops the rest at the threshold and says what that did to the group', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 3)
    world.accept(request('t', { num_samples: 4, early_stop_min_usable_sessions: 1, metadata: { group_id: 1 } }))
    const [first, second, third] = world.opened.map(({ spec }) => spec.session)
    world.nowMs = 100
    world.finish(gateway, first!, summary('completed', { usable: false }))
    expect(world.cancels).toEqual([])
    world.nowMs = 300
    world.finish(gateway, second!, summary('completed'))
    expect(world.cancels).toEqual([{ gateway, session: third, reason: 'stopped early: enough usable sessions' }])
    expect(world.settles[0]?.facts.taskMetadata).toEqual({ group_id: 1, early_stop_cancelled: true, fully_masked: true })
    expect(world.view('t')).toMatchObject({
      status: 'running',
      earlyStop: { threshold: 1, usable: 1, finished: 2, meanFinishedMs: 200, stoppedRunning: 1, meanStoppedMs: 300, stoppedWaiting: 1 },
    })
    world.finish(gateway, third!, summary('cancelled'))
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'completed', totalSessions: 4, completedSessions: 4 })
    expect(sessionsOf(world, 't').map((session) => session.session)).toEqual(expect.arrayContaining([first, second, third]))
  })
})

describe('the end of a task', () => {
  it.each([
    [['completed', 'runtime_error'], 'completed'],
    [['agent_timeout', 'cancelled'], 'completed'],
    [['build_error', 'evaluator_error'], 'failed'],
  ] as const)('of sessions that ended %j is %s', (outcomes, status) => {
    const { world, gateway, sessions } = running({ num_samples: 2 }, { maxAttempts: 1 })
    for (const [i, outcome] of outcomes.entries()) world.finish(gateway, sessions[i]!, summary(outcome))
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status })
  })

  it('is told only after the ledger has it, and is delivered then', () => {
    const { world, gateway, sessions } = running(CALLBACK)
    world.finish(gateway, sessions[0]!, summary('completed'))
    world.answerEnd(false)
    expect(world.view('t')).toMatchObject({ status: 'running', delivery: 'pending' })
    expect(world.delivers).toEqual([])
    world.advance(1_000)
    world.answerEnd()
    expect(world.view('t')).toMatchObject({ status: 'completed' })
    expect(world.delivers).toEqual([
      { type: 'deliver', task: 't', url: CALLBACK.callback_url, shape: 'task', status: 'completed', sessions, attempts: [1] },
    ])
  })

  it('is handed to the outbox again when that was full', () => {
    const { world, gateway, sessions } = running(CALLBACK)
    world.finish(gateway, sessions[0]!, summary('completed'))
    world.settleAll()
    world.send({ type: 'deliver-refused', task: taskId('t') })
    world.advance(1_000)
    expect(world.delivers).toHaveLength(2)
  })

  it('gives the means over what ended, and no reward where none was given', () => {
    const { world, gateway, sessions } = running({ num_samples: 3 })
    expect(world.view('t')).toMatchObject({ meanReward: null, meanTraces: null, meanCalls: null })
    world.finish(gateway, sessions[0]!, summary('completed', { reward: 1, traces: 1, calls: 4 }))
    world.finish(gateway, sessions[1]!, summary('completed', { reward: 0, traces: 2, calls: 2 }))
    world.finish(gateway, sessions[2]!, summary('agent_timeout', { reward: null, traces: 3, calls: 0 }))
    expect(world.view('t')).toMatchObject({ meanReward: 0.5, meanTraces: 2, meanCalls: 2, completedSessions: 3, erroredSessions: 0 })
  })
})

describe('retention', () => {
  function ended(world: ServerWorld, id: string, state: 'delivered' | 'dead' | 'pending' | 'none') {
    world.accept(request(id, state === 'none' ? {} : CALLBACK))
    world.cancel(id)
    world.settleAll()
    if (state === 'delivered' || state === 'dead') world.send({ type: 'task-delivered', task: taskId(id), state })
  }

  it('drops the oldest task whose result was taken, then the oldest dead letter, and never an undelivered one', () => {
    const world = new ServerWorld({ maxKeptTasks: 3 })
    ended(world, 'dead', 'dead')
    ended(world, 'taken', 'delivered')
    ended(world, 'p', 'pending')
    ended(world, 'pulled', 'none')
    expect(world.state.order).toEqual(['dead', 'p', 'pulled'])
    ended(world, 'q', 'pending')
    expect(world.state.order).toEqual(['dead', 'p', 'q'])
    ended(world, 'r', 'pending')
    expect(world.state.order).toEqual(['p', 'q', 'r'])
    ended(world, 's', 'pending')
    expect(world.state.order).toEqual(['p', 'q', 'r', 's'])
    world.send({ type: 'task-delivered', task: taskId('q'), state: 'delivered' })
    expect(world.state.order).toEqual(['p', 'r', 's'])
    expect(world.view('q')).toBeNull()
  })

  it('admits nothing while twice the kept tasks wait for their delivery', () => {
    const world = new ServerWorld({ maxKeptTasks: 1 })
    ended(world, 'p', 'pending')
    ended(world, 'q', 'pending')
    expect(world.submit(request('r'))()).toMatchObject({ type: 'overloaded' })
    world.send({ type: 'task-delivered', task: taskId('p'), state: 'delivered' })
    expect(world.accept(request('r'))).toMatchObject({ type: 'submitted' })
  })
})

describe('a task of 4,096 sessions', () => {
  it('pays for an event of one session what a small task pays: all but one chunk is shared with the state before', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 4_096)
    world.accept(request('t', { num_samples: 4_096 }))
    const chunks = () => lookUp(world.state.tasks, taskId('t'))?.sessions.chunks ?? []
    const [session] = world.opened.map(({ spec }) => spec.session)
    const copied = (event: () => void): number => {
      const before = new Set(chunks())
      event()
      return chunks().filter((chunk) => !before.has(chunk)).length
    }
    expect(chunks().length).toBeGreaterThan(100)
    expect(copied(() => world.send({ type: 'session-changed', session: session!, attempt: 1, status: 'RUNNING' }))).toBe(1)
    expect(copied(() => world.finish(gateway, session!, summary('runtime_error')))).toBe(1)
    expect(copied(() => world.demand(gateway, 1))).toBe(1)
    expect(copied(() => world.finish(gateway, session!, summary('completed')))).toBe(1)
  })
})

describe('views', () => {
  it('list newest first, filtered, without sessions', () => {
    const world = new ServerWorld()
    for (const id of ['a', 'b', 'c']) {
      world.nowMs += 1_000
      world.accept(request(id, id === 'b' ? { agent: { harness: 'codex' } } : {}))
    }
    world.nowMs += 1_000
    world.cancel('a')
    world.settleAll()
    const list = (query: { status?: 'running' | 'cancelled'; harness?: string; sinceMs?: number; limit?: number }) => {
      const { ask, answer } = world.ask<readonly { task: string; sessions: readonly unknown[] }[]>()
      world.send({ type: 'list-tasks', status: null, harness: null, sinceMs: null, limit: 10, ...query, ask })
      return answer().map((task) => task.task)
    }
    expect(list({})).toEqual(['c', 'b', 'a'])
    expect(list({ limit: 2 })).toEqual(['c', 'b'])
    expect(list({ status: 'cancelled' })).toEqual(['a'])
    expect(list({ harness: 'codex' })).toEqual(['b'])
    expect(list({ sinceMs: 1_000_000 + 3_000 })).toEqual(['c', 'a'])
  })

  it('follow a session, ignore what an older attempt says, and leave its end to the result', () => {
    const { world, gateway, sessions } = running({}, { maxAttempts: 2 })
    const [session] = sessions
    world.send({ type: 'session-changed', session: session!, attempt: 1, status: 'RUNNING' })
    expect(sessionsOf(world, 't')).toMatchObject([{ status: 'RUNNING' }])
    world.send({ type: 'session-changed', session: session!, attempt: 1, status: 'COMPLETED' })
    expect(sessionsOf(world, 't')).toMatchObject([{ status: 'RUNNING', summary: null }])
    world.finish(gateway, session!, summary('runtime_error'))
    world.send({ type: 'session-changed', session: session!, attempt: 1, status: 'EVALUATING' })
    expect(sessionsOf(world, 't')).toMatchObject([{ attempt: 2, status: 'REGISTERED' }])
  })

  it('answer null for what is unknown', () => {
    const world = new ServerWorld()
    const { ask, answer } = world.ask<SessionView | null>()
    world.send({ type: 'read-session', session: sessionId('nope'), ask })
    expect(answer()).toBeNull()
    world.send({ type: 'gateway-lost', gateway: gatewayId('nope') })
    world.send({ type: 'demand', gateway: gatewayId('nope'), slots: 3 })
    expect(world.state.gateways.size).toBe(0)
  })
})

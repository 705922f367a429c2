// Sessions by themselves: what a client that opens one is promised, and that no trainer's task is touched by it.
import { describe, expect, it } from 'vitest'
import type { SessionView } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId, knownSessionId, taskId } from '../../src/contract/ids.ts'
import { request, ServerWorld, summary } from '../model/rollout-server-world.ts'

const RESULTS = 'http://127.0.0.1:9/results'
const SESSION = knownSessionId('mine')

describe('a session by itself', () => {
  it('is acknowledged when it is durable, runs, and is delivered as a session', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    const answer = world.submitSession({ session: SESSION, request: request('named', { num_samples: 4 }), resultUrl: RESULTS })
    expect(answer).toThrow('not answered')
    expect(world.opened).toEqual([])
    world.answerRecord()
    expect(answer()).toMatchObject({
      type: 'opened',
      view: { kind: 'agent', session: SESSION, task: 'named', status: 'REGISTERED', attempt: 1 },
    })
    expect(world.opened).toMatchObject([
      { gateway, spec: { kind: 'agent', session: SESSION, task: 'named', attempt: 1, sampleIndex: 0, maxAttempts: 2 } },
    ])
    world.finish(gateway, SESSION, summary('completed'))
    world.settleAll()
    expect(world.session(SESSION)).toMatchObject({ status: 'COMPLETED', gateway, summary: { reward: 1 } })
    expect(world.delivers).toMatchObject([{ url: RESULTS, shape: 'session', sessions: [SESSION], attempts: [1] }])
  })

  it('is drawn an id of the form of Polar when it brings none', () => {
    expect(new ServerWorld().openSession().session).toMatch(/^sk-polar-[0-9a-f]{8}-/)
  })

  it('is under one key in the ledger and the outbox, which no task can have, while everybody reads what it names', () => {
    const world = new ServerWorld({ maxAttempts: 1 })
    world.accept(request('named', { num_samples: 2 }))
    const first = world.openSession({ session: SESSION, resultUrl: RESULTS })
    const second = world.openSession({ session: knownSessionId('other') })
    expect([first.task, second.task]).toEqual(['named', 'named'])
    const gateway = world.startGateway('g0', 10)
    const keys = new Set(world.opened.map(({ spec }) => spec.key))
    expect(keys).toEqual(new Set(['named', 'session:mine', 'session:other']))
    expect(new Set(world.opened.map(({ spec }) => [spec.task, spec.request.task_id].join()))).toEqual(new Set(['named,named']))
    world.loseGateway(gateway)
    expect(world.settles.map(({ task, facts }) => [task, facts.task])).toContainEqual(['session:mine', 'named'])
    world.settleAll()
    expect(world.delivers.map(({ task }) => task)).toEqual(['session:mine'])
    const events = world.events.filter((event) => event.type === 'session.state_changed' && event.session === SESSION)
    expect(new Set(events.map(({ task }) => task))).toEqual(new Set(['named']))
    expect(world.view('named')).toMatchObject({ totalSessions: 2, completedSessions: 2 })
  })

  it('is no task to anybody outside: in no list, status, event or view of tasks, and not to be cancelled as one', () => {
    const world = new ServerWorld()
    world.openSession({ session: SESSION })
    const { ask, answer } = world.ask<readonly unknown[]>()
    world.send({ type: 'list-tasks', status: null, harness: null, sinceMs: null, limit: 10, ask })
    expect(answer()).toEqual([])
    const status = world.ask<{ readonly tasks: readonly unknown[]; readonly pendingSessions: number }>()
    world.send({ type: 'read-status', ask: status.ask })
    expect(status.answer()).toMatchObject({ tasks: [], pendingSessions: 1 })
    for (const id of ['named', 'session:mine']) {
      expect(world.view(id)).toBeNull()
      expect(world.cancel(id)).toBeNull()
    }
    expect(world.session(SESSION)).toMatchObject({ status: 'REGISTERED' })
    world.cancelSession(SESSION)
    world.settleAll()
    expect(world.events.map(({ type }) => type)).toEqual(['session.state_changed'])
    expect(world.accept(request('named'))).toEqual({ type: 'submitted', task: 'named' })
  })

  it.each([
    ['while it is recorded', (_: ServerWorld) => undefined, 'REGISTERED'],
    ['while it waits', (world: ServerWorld) => world.answerRecord(), 'REGISTERED'],
    [
      'after it ended',
      (world: ServerWorld) => {
        world.answerRecord()
        world.cancelSession(SESSION)
        world.settleAll()
      },
      'ERROR',
    ],
  ])('is the same session %s for the same body, and a conflict for another', (_, until, status) => {
    const world = new ServerWorld()
    world.startGateway('g0')
    const body = { session: SESSION, request: request('named', { metadata: { a: 1, b: 2 } }), resultUrl: RESULTS }
    world.submitSession(body)
    until(world)
    const same = world.submitSession({ ...body, request: request('named', { metadata: { b: 2, a: 1 } }) })
    const others = [
      world.submitSession({ ...body, request: request('named', { metadata: { a: 2 } }) }),
      world.submitSession({ ...body, request: request('another', { metadata: { a: 1, b: 2 } }) }),
      world.submitSession({ ...body, resultUrl: null }),
      world.submitSession({ ...body, kind: 'capture' }),
      world.submitSession({ ...body, gateway: gatewayId('g0') }),
    ]
    world.settleAll()
    expect(same()).toMatchObject({ type: 'opened', view: { session: SESSION, status } })
    expect(others.map((answer) => answer().type)).toEqual(others.map(() => 'conflict'))
    expect(world.state.order).toEqual(['session:mine'])
  })

  it('may not take the id of a session of a task', () => {
    const world = new ServerWorld()
    world.accept(request('t'))
    const [session] = world.view('t')?.sessions ?? []
    expect(world.submitSession({ session: session!.session, request: request('t') })()).toMatchObject({ type: 'conflict' })
  })

  it.each([
    [{ ok: true, value: { type: 'refused', reason: 'full', detail: 'no room' } }, 'not-recorded'],
    [{ ok: true, value: { type: 'refused', reason: 'conflict', detail: 'taken' } }, 'conflict'],
    [{ ok: false, error: 'stopped' }, 'not-recorded'],
  ] as const)('is forgotten, with its place, when the ledger did not take it: %j', (record, type) => {
    const world = new ServerWorld({ maxAdmittedSessions: 1 })
    const gateway = world.startGateway('g0', 0, { maxCaptures: 1 })
    const answer = world.submitSession({ kind: 'capture', gateway, session: SESSION })
    expect(world.submitSession()()).toMatchObject({ type: 'overloaded' })
    world.answerRecord(record)
    expect(answer()).toMatchObject({ type })
    expect(world.session(SESSION)).toBeNull()
    expect(world.openSession({ kind: 'capture', gateway, session: SESSION })).toMatchObject({ session: SESSION })
  })

  it('is counted and dropped like a task', () => {
    const world = new ServerWorld({ maxKeptTasks: 1, maxAdmittedSessions: 1 })
    for (const name of ['a', 'b']) {
      world.openSession({ session: knownSessionId(name) })
      world.cancelSession(knownSessionId(name))
      world.settleAll()
    }
    expect(world.state.order).toEqual(['session:b'])
    expect(world.session(knownSessionId('a'))).toBeNull()
  })

  it('is turned away by a node that stops, and ends there when it waits', () => {
    const world = new ServerWorld()
    world.openSession({ session: SESSION })
    world.send({ type: 'stop-admission', ask: world.ask<void>().ask })
    world.settleAll()
    expect(world.session(SESSION)).toMatchObject({ summary: { outcome: 'cancelled' } })
    expect(world.submitSession()()).toEqual({ type: 'not-recorded', detail: 'the node is stopping' })
  })
})

describe('a session by itself that names its gateway', () => {
  it('waits for room there and goes nowhere else, while others pass it', () => {
    const world = new ServerWorld()
    const full = world.startGateway('full')
    const free = world.startGateway('free', 2)
    expect(world.openSession({ session: SESSION, gateway: full })).toMatchObject({ gateway: full })
    world.accept(request('t', { num_samples: 2 }))
    expect(world.opened.map(({ gateway }) => gateway)).toEqual([free, free])
    world.demand(full, 1)
    expect(world.opened.at(-1)).toMatchObject({ gateway: full, spec: { session: SESSION } })
  })

  it('takes its turn there by priority and age with those that may go anywhere', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0')
    const open = (name: string, pinned: boolean, priority: number) =>
      world.openSession({
        session: knownSessionId(name),
        gateway: pinned ? gateway : null,
        request: request('named', { dispatch_priority: priority }),
      })
    open('old', true, 0)
    world.nowMs = 5_000
    open('anywhere', false, 0)
    open('urgent', true, 1)
    world.nowMs = 30_000
    open('late', true, 1)
    world.demand(gateway, 4)
    expect(world.opened.map(({ spec }) => spec.session)).toEqual(['urgent', 'old', 'anywhere', 'late'])
  })

  it('is attempted again on it, also when it was lost and has started again', () => {
    const world = new ServerWorld({ maxAttempts: 3 })
    const gateway = world.startGateway('g0', 1)
    world.startGateway('g1', 5)
    world.openSession({ session: SESSION, gateway })
    world.finish(gateway, SESSION, summary('runtime_error'))
    world.demand(gateway, 1)
    world.loseGateway(gateway)
    expect(world.opened).toHaveLength(2)
    world.startGateway('g0', 1)
    expect(world.opened.map(({ gateway: at, spec }) => [at, spec.attempt])).toEqual([
      [gateway, 1],
      [gateway, 2],
      [gateway, 3],
    ])
  })

  it('is refused when there is no such gateway', () => {
    expect(new ServerWorld().submitSession({ gateway: gatewayId('nowhere') })()).toEqual({ type: 'gateway-unknown' })
  })
})

describe('a capture', () => {
  const capture = { kind: 'capture' } as const

  it('is opened at once on the gateway with the most room for it, without demand', () => {
    const world = new ServerWorld()
    world.startGateway('big', 0, { maxCaptures: 4 })
    world.startGateway('small', 0, { maxCaptures: 2 })
    const views = [1, 2, 3, 4].map(() => world.openSession(capture))
    expect(views.map(({ kind, gateway }) => [kind, gateway])).toEqual([
      ['capture', 'big'],
      ['capture', 'small'],
      ['capture', 'big'],
      ['capture', 'big'],
    ])
    expect(world.opened.map(({ spec }) => [spec.kind, spec.maxAttempts])).toEqual(views.map(() => ['capture', 1]))
  })

  it('is refused over the limit, from its admission on, and taken again when one has ended', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 3, { maxCaptures: 1 })
    const first = world.submitSession({ ...capture, session: SESSION })
    expect(world.submitSession(capture)()).toMatchObject({ type: 'overloaded' })
    expect(world.submitSession({ ...capture, gateway })()).toMatchObject({ type: 'overloaded' })
    world.answerRecord()
    expect(first()).toMatchObject({ type: 'opened' })
    expect(world.gateways()).toMatchObject([{ sessions: 1, demand: 3 }])
    world.finish(gateway, SESSION, summary('completed'))
    expect(world.openSession(capture)).toMatchObject({ gateway })
  })

  it.each([
    ['a failure that would be retried', (world: ServerWorld) => void world.finish(gatewayId('g0'), SESSION, summary('runtime_error'))],
    ['the loss of its gateway', (world: ServerWorld) => world.loseGateway(gatewayId('g0'))],
  ])('is not attempted again after %s: nobody here can start its agent', (_, fail) => {
    const world = new ServerWorld({ maxAttempts: 5 })
    world.startGateway('g0')
    world.startGateway('g1')
    world.openSession({ ...capture, session: SESSION, gateway: gatewayId('g0') })
    fail(world)
    world.settleAll()
    expect(world.session(SESSION)).toMatchObject({ attempt: 1, earlier: [], status: 'ERROR' })
    expect(world.gateways().map(({ sessions }) => sessions)).toEqual([0, 0])
  })

  it('is opened as soon as its gateway hears again, when that was busy', () => {
    const world = new ServerWorld()
    world.startGateway('g0')
    world.offer = () => 'full'
    world.openSession({ ...capture, session: SESSION })
    world.offer = () => 'accepted'
    expect(world.opened).toEqual([])
    world.advance(1_000)
    expect(world.opened).toMatchObject([{ spec: { session: SESSION, attempt: 1 } }])
  })

  it('takes no part in the load by which agents are spread', () => {
    const world = new ServerWorld()
    const a = world.startGateway('a', 2)
    world.startGateway('b', 2)
    world.openSession({ ...capture, gateway: a })
    world.accept(request('t', { num_samples: 4 }))
    expect(world.opened.filter(({ spec }) => spec.kind === 'agent').map(({ gateway }) => gateway)).toEqual(['a', 'b', 'a', 'b'])
  })
})

describe('cancel-session', () => {
  it('ends a waiting session of a task with a recorded result, and leaves the others alone', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    world.accept(request('t', { num_samples: 3 }))
    const [first, second, third] = world.view('t')!.sessions
    expect(world.cancelSession(second!.session)).toMatchObject({ status: 'POST_RUN', summary: null })
    expect(world.settles.map(({ facts }) => [facts.session, facts.outcome, facts.error])).toEqual([
      [second!.session, 'cancelled', 'session cancelled'],
    ])
    world.settleAll()
    world.demand(gateway, 5)
    expect(world.opened.map(({ spec }) => spec.session)).toEqual([first!.session, third!.session])
    for (const { session } of [first!, third!]) world.finish(gateway, session, summary('completed'))
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'completed', completedSessions: 3, erroredSessions: 1 })
  })

  it('asks the gateway of a running one, once, and attempts it no more', () => {
    const world = new ServerWorld({ maxAttempts: 3 })
    const gateway = world.startGateway('g0', 2)
    world.accept(request('t', { num_samples: 2 }))
    const [first] = world.view('t')!.sessions
    world.cancelSession(first!.session)
    world.cancelSession(first!.session)
    world.cancel('t')
    expect(world.cancels.map(({ session, reason }) => [session === first!.session, reason])).toEqual([
      [true, 'deleted'],
      [false, 'cancelled by the trainer'],
    ])
    world.finish(gateway, first!.session, summary('runtime_error'))
    expect(world.session(first!.session)).toMatchObject({ attempt: 1, summary: { outcome: 'runtime_error' } })
  })

  it('keeps its reason when the gateway is lost before it answers', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    world.accept(request('t'))
    const [session] = world.view('t')!.sessions
    world.cancelSession(session!.session)
    world.cancel('t')
    world.loseGateway(gateway)
    expect(world.settles.map(({ facts }) => facts.error)).toEqual(['session cancelled'])
  })

  it('takes effect on one that is still being recorded as soon as it is', () => {
    const world = new ServerWorld()
    world.startGateway('g0', 1)
    const answer = world.submitSession({ session: SESSION })
    world.cancelSession(SESSION)
    world.settleAll()
    expect(answer()).toMatchObject({ type: 'opened' })
    expect(world.opened).toEqual([])
    expect(world.session(SESSION)).toMatchObject({ summary: { error: 'session cancelled' } })
  })

  it('leaves an ended session as it is, and knows no other', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    world.openSession({ session: SESSION })
    world.finish(gateway, SESSION, summary('completed'))
    expect(world.cancelSession(SESSION)).toMatchObject({ status: 'COMPLETED' })
    expect([world.cancels, world.settles]).toEqual([[], []])
    expect(world.cancelSession(knownSessionId('nope'))).toBeNull()
  })
})

describe('list-sessions', () => {
  const world = new ServerWorld()
  const gateway = world.startGateway('g0', 2)
  world.accept(request('t', { num_samples: 3 }))
  const sessions = world.view('t')!.sessions.map(({ session }) => session)
  world.finish(gateway, sessions[0]!, summary('completed'))
  world.openSession({ session: knownSessionId('a'), request: request('t'), gateway })
  world.openSession({ session: knownSessionId('b'), kind: 'capture' })

  it.each([
    ['all, newest first, and a task in sample order', {}, ['b', 'a', ...sessions]],
    ['those that name a task', { task: taskId('t') }, ['a', ...sessions]],
    ['those at a gateway, or on their way to it', { gateway }, ['b', 'a', sessions[0], sessions[1]]],
    ['those of one status', { status: 'COMPLETED' as const }, [sessions[0]]],
    ['those that have not ended', { status: 'active' as const }, ['b', 'a', sessions[1], sessions[2]]],
    ['as many as are wanted', { limit: 3 }, ['b', 'a', sessions[0]]],
    ['nothing that is not there', { task: taskId('u') }, []],
  ])('gives %s', (_, query, expected) => {
    const { ask, answer } = world.ask<readonly SessionView[]>()
    world.send({ type: 'list-sessions', gateway: null, task: null, status: null, limit: 100, ...query, ask })
    expect(answer().map(({ session }) => session)).toEqual(expected)
  })
})

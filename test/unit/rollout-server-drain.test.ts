// What the rollout server owes its trainers when the node stops: nothing new starts, and nothing that was accepted is forgotten.
import { describe, expect, it } from 'vitest'
import type { GatewayView } from '../../src/actors/rollout-server/protocol.ts'
import { taskId } from '../../src/contract/ids.ts'
import { request, ServerWorld, summary } from '../model/rollout-server-world.ts'

const CALLBACK = { callback_url: 'http://127.0.0.1:9/cb' }
const STOPPED = 'session cancelled: node is stopping'

/** Two sessions of task `t` at a gateway, two that wait for one. */
function halfDispatched() {
  const world = new ServerWorld()
  const gateway = world.startGateway('g0', 2)
  world.accept(request('t', { num_samples: 4, ...CALLBACK }))
  return { world, gateway, held: world.opened.map(({ spec }) => spec.session) }
}

function stopAdmission(world: ServerWorld): void {
  const { ask, answer } = world.ask<void>()
  world.send({ type: 'stop-admission', ask })
  expect(answer()).toBeUndefined()
}

function stopSessions(world: ServerWorld): number {
  const { ask, answer } = world.ask<number>()
  world.send({ type: 'stop-sessions', ask })
  return answer()
}

function draining(world: ServerWorld): readonly boolean[] {
  const { ask, answer } = world.ask<readonly GatewayView[]>()
  world.send({ type: 'list-gateways', ask })
  return answer().map((view) => view.draining)
}

describe('stop-admission', () => {
  it('turns new tasks away, and knows the old ones still', () => {
    const world = new ServerWorld()
    world.startGateway('g0')
    world.accept(request('a'))
    expect(draining(world)).toEqual([false])
    stopAdmission(world)
    expect(world.submit(request('b'))()).toEqual({ type: 'not-recorded', detail: 'the node is stopping' })
    expect(world.submit(request('a'))()).toMatchObject({ type: 'known', task: 'a' })
    expect(draining(world)).toEqual([true])
  })

  it('ends the sessions that no gateway holds at once, and lets the others run to their end', () => {
    const { world, gateway, held } = halfDispatched()
    stopAdmission(world)
    expect(world.settles.map(({ facts }) => [facts.outcome, facts.error])).toEqual([
      ['cancelled', STOPPED],
      ['cancelled', STOPPED],
    ])
    world.settleAll()
    world.demand(gateway, 10)
    expect([world.opened.length, world.cancels.length]).toEqual([2, 0])
    expect(world.view('t')).toMatchObject({ status: 'running', completedSessions: 2 })
    for (const session of held) world.finish(gateway, session, summary('completed'))
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'completed', completedSessions: 4, erroredSessions: 2 })
    expect(world.delivers).toMatchObject([{ task: 't', status: 'completed' }])
  })

  it.each([
    ['a failure that would be retried', 'runtime_error', 'runtime_error'],
    ['the loss of its gateway', null, 'interrupted'],
  ] as const)('makes no new attempt after %s', (_, ended, outcome) => {
    const { world, gateway, held } = halfDispatched()
    stopAdmission(world)
    world.settleAll()
    if (ended === null) world.loseGateway(gateway)
    else for (const session of held) world.finish(gateway, session, summary(ended))
    world.settleAll()
    world.startGateway('g1', 10)
    expect(world.opened).toHaveLength(2)
    const outcomes = world.view('t')?.sessions.map((session) => session.summary?.outcome)
    expect(outcomes?.toSorted()).toEqual(['cancelled', 'cancelled', outcome, outcome])
  })

  it('ends a session whose dispatch was refused, since it will not be sent again', () => {
    const { world, held } = halfDispatched()
    stopAdmission(world)
    world.settleAll()
    const [session] = held
    const gateway = world.opened[0]!.gateway
    world.send({ type: 'dispatch-refused', session: session!, attempt: 1, gateway, offer: 'full' })
    expect(world.settles.map(({ facts }) => [facts.session, facts.error])).toEqual([[session, STOPPED]])
  })

  it('ends a task that is being recorded as soon as that is known', () => {
    const world = new ServerWorld()
    world.startGateway('g0', 10)
    const answer = world.submit(request('t', CALLBACK))
    stopAdmission(world)
    world.answerRecord()
    expect(answer()).toMatchObject({ type: 'submitted' })
    world.settleAll()
    expect(world.opened).toEqual([])
    expect(world.delivers).toMatchObject([{ task: 't', status: 'failed' }])
  })

  it('leaves the reason of a cancel as it was', () => {
    const { world, gateway, held } = halfDispatched()
    world.cancel('t')
    stopAdmission(world)
    expect(stopSessions(world)).toBe(2)
    expect(world.cancels.map(({ reason }) => reason)).toEqual(['cancelled by the trainer', 'cancelled by the trainer'])
    for (const session of held) world.finish(gateway, session, summary('cancelled'))
    world.settleAll()
    expect(world.view('t')).toMatchObject({ status: 'cancelled' })
  })
})

describe('stop-sessions', () => {
  it('has every session cancelled that a gateway still holds, and says how many', () => {
    const { world, gateway, held } = halfDispatched()
    stopAdmission(world)
    expect(stopSessions(world)).toBe(2)
    expect(world.cancels).toEqual(held.map((session) => ({ gateway, session, reason: 'node is stopping' })))
    for (const session of held) world.finish(gateway, session, summary('cancelled'))
    world.settleAll()
    expect(stopSessions(world)).toBe(0)
    expect(world.delivers).toMatchObject([{ task: 't', status: 'failed' }])
  })
})

describe('await-deliveries', () => {
  it('is answered at once by a server that owes nothing', () => {
    const world = new ServerWorld()
    const { ask, answer } = world.ask<void>()
    world.send({ type: 'await-deliveries', ask })
    expect(answer()).toBeUndefined()
  })

  it.each(['delivered', 'dead'] as const)('is answered when the last task has ended and its result is %s', (state) => {
    const { world, gateway, held } = halfDispatched()
    stopAdmission(world)
    const { ask, answer } = world.ask<void>()
    world.send({ type: 'await-deliveries', ask })
    for (const session of held) world.finish(gateway, session, summary('completed'))
    expect(answer).toThrow()
    while (world.settles.length > 0) world.answerSettle()
    expect(answer, 'the end is not durable yet').toThrow()
    world.answerEnd()
    expect(answer, 'the outbox has it, the trainer not').toThrow()
    world.send({ type: 'task-delivered', task: taskId('t'), state })
    expect(answer()).toBeUndefined()
  })

  it('waits for a task that is still being recorded', () => {
    const world = new ServerWorld()
    world.submit(request('t'))
    const { ask, answer } = world.ask<void>()
    world.send({ type: 'await-deliveries', ask })
    expect(answer).toThrow()
    world.answerRecord({ ok: false, error: 'full' })
    expect(answer()).toBeUndefined()
  })
})

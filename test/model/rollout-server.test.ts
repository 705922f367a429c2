// Random histories of the rollout server: whatever is lost, repeated or late, every session ends once and no gateway is sent more than it asked for.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionKind } from '../../src/actors/gateway/protocol.ts'
import type { Line } from '../../src/actors/rollout-server/entries.ts'
import { PRIORITY_WORTH_MS } from '../../src/actors/rollout-server/queue.ts'
import { itemsOf } from '../../src/actors/roster.ts'
import { values } from '../../src/actors/table.ts'
import { type GatewayId, gatewayId, type SessionId, type TaskId } from '../../src/contract/ids.ts'
import type { Outcome } from '../../src/contract/outcome.ts'
import { request, ServerWorld, summary } from './rollout-server-world.ts'

const OUTCOMES_SEEN: readonly Outcome[] = ['completed', 'agent_timeout', 'harness_error', 'runtime_error', 'cancelled', 'build_error']
const MAX_ATTEMPTS = 3

type Command = fc.Command<{ submitted: number }, ServerWorld>

/** After every command, by looking at all there is: the counters agree with what they count, and no session has two places. */
function checkCounters(world: ServerWorld) {
  const { state } = world
  const tasks = [...values(state.tasks)]
  const sessions = tasks.flatMap((task) => itemsOf(task.sessions).map((entry) => ({ task, entry })))
  expect(state.tasks.size).toBe(tasks.length)
  expect(state.openSessions).toBe(sessions.filter(({ entry }) => entry.phase !== 'ended').length)
  for (const task of tasks) {
    const entries = itemsOf(task.sessions)
    const pending = entries.flatMap((entry, sample) => (entry.phase === 'pending' ? [sample] : []))
    expect(task.pending).toBe(pending.length)
    expect(task.firstPending).toBeLessThanOrEqual(pending[0] ?? entries.length)
    if (task.phase === 'active' && task.stop !== null) expect(pending, 'a stopped task starts nothing').toEqual([])
    expect(task.totals.ended).toBe(entries.filter((entry) => entry.phase === 'ended').length)
    for (const entry of entries) {
      expect(entry.attempt).toBeLessThanOrEqual(task.single?.kind === 'capture' ? 1 : MAX_ATTEMPTS)
      expect(entry.earlier.map(({ attempt }) => attempt)).toEqual(Array.from({ length: entry.attempt - 1 }, (_, i) => i + 1))
    }
  }
  const queued = tasks.filter((task) => task.phase === 'active' && task.pending > 0)
  expect(state.pendingSessions).toBe(queued.reduce((sum, task) => sum + task.pending, 0))
  const inLine = (pinned: GatewayId | null, kind: SessionKind) =>
    new Set(
      queued.filter(({ single }) => (single?.gateway ?? null) === pinned && (single?.kind ?? 'agent') === kind).map(({ task }) => task),
    )
  const tasksIn = (line: Line) => {
    const found = new Set(line.map(({ task }) => task))
    expect(found.size, 'a task stands in line once').toBe(line.length)
    return found
  }
  expect(tasksIn(state.line)).toEqual(inLine(null, 'agent'))
  for (const [id, gateway] of state.gateways) {
    expect(tasksIn(gateway.lines.agent)).toEqual(inLine(id, 'agent'))
    expect(tasksIn(gateway.lines.capture)).toEqual(inLine(id, 'capture'))
    if (gateway.draining) expect([gateway.lines.agent, gateway.lines.capture], 'nobody waits for it').toEqual([[], []])
    const agents = sessions.filter(
      ({ task, entry }) => task.single?.kind !== 'capture' && entry.phase === 'dispatched' && entry.gateway === id,
    )
    expect(gateway.agents).toBe(agents.length)
    const captures = sessions.filter(
      ({ task, entry }) => task.single?.kind === 'capture' && task.single.gateway === id && entry.phase !== 'ended',
    )
    expect(gateway.captures).toBe(captures.length)
    expect(gateway.captures).toBeLessThanOrEqual(gateway.limits.maxCaptures)
    if (gateway.healthy) expect(gateway.demand).toBe(world.credit.get(id))
  }
}

function command(name: string, run: (world: ServerWorld, model: { submitted: number }) => void): Command {
  return {
    check: () => true,
    run: (model, world) => {
      run(world, model)
      // A gateway that answered `stopped` is given up in the next turn.
      world.advance(0)
      checkCounters(world)
    },
    toString: () => name,
  }
}

const pick = <T>(items: readonly T[], at: number): T | undefined => items[at % Math.max(1, items.length)]

const commands = [
  fc
    .record({
      samples: fc.integer({ min: 1, max: 5 }),
      priority: fc.integer({ min: 0, max: 5 }),
      stop: fc.option(fc.integer({ min: 1, max: 3 })),
    })
    .map(({ samples, priority, stop }) =>
      command(`submit(${samples})`, (world, model) => {
        model.submitted += 1
        world.submit(
          request(`t${model.submitted}`, {
            num_samples: samples,
            dispatch_priority: priority,
            callback_url: 'http://127.0.0.1:9/cb',
            ...(stop === null || stop > samples ? {} : { early_stop_min_usable_sessions: stop }),
          }),
        )
      }),
    ),
  fc
    .boolean()
    .map((works) =>
      command(`record(${works})`, (world) =>
        works ? world.answerRecord() : world.answerRecord({ ok: true, value: { type: 'refused', reason: 'full', detail: 'full' } }),
      ),
    ),
  fc.boolean().map((works) => command(`settle(${works})`, (world) => world.answerSettle(works))),
  fc.boolean().map((works) => command(`end(${works})`, (world) => world.answerEnd(works))),
  fc.nat(2).map((at) => command(`start(${at})`, (world) => void world.startGateway(`g${at}`))),
  fc.record({ at: fc.nat(2), slots: fc.integer({ min: 1, max: 4 }) }).map(({ at, slots }) =>
    command(`demand(${at}, ${slots})`, (world) => {
      const gateway = pick([...world.held.keys()], at)
      if (gateway !== undefined) world.demand(gateway, slots)
    }),
  ),
  fc.nat(2).map((at) =>
    command(`lose(${at})`, (world) => {
      const gateway = pick([...world.held.keys()], at)
      if (gateway !== undefined) world.loseGateway(gateway)
    }),
  ),
  fc.record({ at: fc.nat(20), outcome: fc.constantFrom(...OUTCOMES_SEEN), twice: fc.boolean() }).map(({ at, outcome, twice }) =>
    command(`finish(${at}, ${outcome})`, (world) => {
      const found = pick(heldSessions(world), at)
      if (found === undefined) return
      const { attempt } = world.finish(found.gateway, found.session, summary(outcome))
      if (twice) world.send({ type: 'session-finished', session: found.session, attempt, summary: summary('completed') })
    }),
  ),
  // A fact of any attempt of any session that was ever sent out, at any time.
  fc.nat(50).map((at) =>
    command(`stale(${at})`, (world) => {
      const old = pick(world.opened, at)
      if (old === undefined || world.held.get(old.gateway)?.get(old.spec.session)?.attempt === old.spec.attempt) return
      world.send({ type: 'session-changed', session: old.spec.session, attempt: old.spec.attempt, status: 'RUNNING' })
      world.send({ type: 'session-finished', session: old.spec.session, attempt: old.spec.attempt, summary: summary('completed') })
    }),
  ),
  fc
    .record({
      kind: fc.constantFrom('agent' as const, 'capture' as const),
      at: fc.option(fc.nat(2)),
      priority: fc.integer({ min: 0, max: 5 }),
    })
    .map(({ kind, at, priority }) =>
      command(`session(${kind}, ${at})`, (world, model) => {
        const gateway = at === null ? null : (pick([...world.state.gateways.keys()], at) ?? null)
        // They name a task that may be there too.
        const body = request(`t${model.submitted}`, { dispatch_priority: priority })
        world.submitSession({ kind, gateway, request: body, resultUrl: 'http://127.0.0.1:9/cb' })
      }),
    ),
  fc.nat(20).map((at) =>
    command(`delete(${at})`, (world) => {
      const session = pick(sessionsOf(world), at)
      if (session !== undefined) world.cancelSession(session.session)
    }),
  ),
  fc.record({ at: fc.nat(2), type: fc.constantFrom('drain-gateway' as const, 'enrol-gateway' as const) }).map(({ at, type }) =>
    command(`${type}(${at})`, (world) => {
      const gateway = pick([...world.state.gateways.keys()], at)
      if (gateway !== undefined) world.drain(gateway, type)
    }),
  ),
  fc.nat(5).map((at) => command(`cancel(${at})`, (world, model) => void world.cancel(`t${1 + (at % Math.max(1, model.submitted))}`))),
  fc.constantFrom('accepted' as const, 'full' as const, 'stopped' as const).map((offer) =>
    command(`offers(${offer})`, (world) => {
      world.offer = (gateway) => {
        // A stopped gateway holds nothing any more.
        if (offer === 'stopped') {
          world.held.delete(gateway)
          world.credit.delete(gateway)
        }
        return world.held.has(gateway) ? offer : 'stopped'
      }
    }),
  ),
  fc.integer({ min: 1, max: 3_000 }).map((ms) => command(`advance(${ms})`, (world) => world.advance(ms))),
]

function sessionsOf(world: ServerWorld) {
  return [...values(world.state.tasks)].flatMap((task) => itemsOf(task.sessions))
}

function heldSessions(world: ServerWorld): readonly { readonly gateway: GatewayId; readonly session: SessionId }[] {
  return [...world.held].flatMap(([gateway, sessions]) => [...sessions.keys()].map((session) => ({ gateway, session })))
}

/** Lets everything work again until nothing is left to do. */
function quiesce(world: ServerWorld) {
  world.offer = (gateway) => (world.held.has(gateway) ? 'accepted' : 'stopped')
  for (const gateway of [...world.state.gateways.keys(), 'last']) {
    world.startGateway(gateway, 10_000)
    world.drain(gatewayId(gateway), 'enrol-gateway')
  }
  for (let round = 0; round < 100; round += 1) {
    world.settleAll()
    for (const { gateway, session } of heldSessions(world)) world.finish(gateway, session, summary('completed'))
    world.advance(5_000)
    if (world.timers.length === 0 && world.state.openSessions === 0 && world.ends.length === 0) return
  }
  throw new Error('the server does not come to rest')
}

describe('the rollout server, over random histories', () => {
  it('ends every session of every accepted task once, and every task once', () => {
    fc.assert(
      fc.property(fc.commands(commands, { maxCommands: 100, size: 'max' }), fc.boolean(), (history, isStopped) => {
        const world = new ServerWorld({ maxAttempts: MAX_ATTEMPTS, maxAdmittedSessions: 60 })
        world.startGateway('g0')
        const model = { submitted: 0 }
        fc.modelRun(() => ({ model, real: world }), history)
        const opened = world.opened.length
        if (isStopped) world.send({ type: 'stop-admission', ask: world.ask<void>().ask })
        const delivered = world.ask<void>()
        world.send({ type: 'await-deliveries', ask: delivered.ask })
        quiesce(world)
        if (isStopped) expect(world.opened, 'nothing starts on a node that stops').toHaveLength(opened)
        checkCounters(world)

        const accepted = [...values(world.state.tasks)]
        const endings = world.events.flatMap((event) => (event.type === 'session.state_changed' && event.summary !== null ? [event] : []))
        const sessions = sessionsOf(world).flatMap(({ session }) => world.session(session) ?? [])
        expect(endings.map((event) => event.session).sort()).toEqual(sessions.map((session) => session.session).sort())
        for (const session of sessions) {
          // What readers see is what the ledger holds for the attempt that counts.
          expect(session.summary).toEqual(world.results.get(session.session)?.summary)
          expect(session.attempt).toBe(world.results.get(session.session)?.attempt)
        }
        const ended = world.events.flatMap((event) => (event.type === 'task.completed' ? [event.task] : []))
        expect(ended.toSorted()).toEqual(accepted.flatMap(({ task, single }) => (single === null ? [task] : [])).toSorted())
        expect(world.delivers.map((deliver) => deliver.task).toSorted()).toEqual(accepted.map(({ task }) => task).toSorted())
        expect(world.state.pendingSessions).toBe(0)
        expect(world.state.line).toEqual([])
        expect(world.state.settling).toEqual({ inFlight: 0, line: [], next: 0 })
        for (const { task } of world.delivers) {
          expect(delivered.answer, 'a result is still on its way').toThrow()
          world.send({ type: 'task-delivered', task, state: 'delivered' })
        }
        expect(delivered.answer()).toBeUndefined()
      }),
      { numRuns: 120 },
    )
  })
})

describe('the order of dispatch', () => {
  const tasks = fc.array(
    fc.record({
      gapMs: fc.integer({ min: 0, max: 40_000 }),
      priority: fc.integer({ min: 0, max: 6 }),
      samples: fc.integer({ min: 1, max: 3 }),
    }),
    { minLength: 1, maxLength: 12 },
  )

  it('serves by priority, each point worth ten seconds of waiting, then first come first served', () => {
    fc.assert(
      fc.property(tasks, fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 40, maxLength: 40 }), (list, demands) => {
        const world = new ServerWorld()
        const gateway = world.startGateway('g0')
        const expected = list.flatMap(({ gapMs, priority, samples }, i) => {
          world.nowMs += gapMs
          world.accept(request(`t${i}`, { dispatch_priority: priority, num_samples: samples }))
          return Array.from({ length: samples }, (_, sample) => ({ key: world.nowMs - priority * PRIORITY_WORTH_MS, i, sample }))
        })
        for (const slots of demands) world.demand(gateway, slots)
        expected.sort((a, b) => a.key - b.key || a.i - b.i || a.sample - b.sample)
        expect(world.opened.map(({ spec }) => [spec.task, spec.sampleIndex])).toEqual(expected.map(({ i, sample }) => [`t${i}`, sample]))
      }),
      { numRuns: 200 },
    )
  })

  it('starves nobody: an endless stream of urgent tasks delays a plain one by ten seconds per point and no more', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), (priority) => {
        const world = new ServerWorld()
        const gateway = world.startGateway('g0')
        world.accept(request('plain'))
        let served: TaskId | undefined
        for (let second = 1; served !== 'plain'; second += 1) {
          world.nowMs = second * 1_000
          // Two arrive for every one that is served: the queue only grows.
          world.accept(request(`urgent-${second}-a`, { dispatch_priority: priority }))
          world.accept(request(`urgent-${second}-b`, { dispatch_priority: priority }))
          world.demand(gateway, 1)
          served = world.opened.at(-1)?.spec.task
          expect(second).toBeLessThanOrEqual(2 * 10 * priority + 1)
        }
      }),
      { numRuns: 10 },
    )
  })
})

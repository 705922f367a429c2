import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { GatewayLimits } from '../../src/actors/gateway/protocol.ts'
import {
  type GatewayEffect,
  type GatewayState,
  isCapturing,
  metricsOf,
  openGateway,
  sessionsOf,
  step,
} from '../../src/actors/gateway/state.ts'
import type { SessionId } from '../../src/contract/ids.ts'
import { openMailbox } from '../../src/kernel/mailbox.ts'
import { gatewayLimits, sessionSpec } from '../lib/specs.ts'

type StepMessage = Parameters<typeof step>[1]

/** Plays rollout server and sessions against a gateway; knows only sets and counters. */
function driver(limits: GatewayLimits) {
  const [opened, first] = openGateway(limits, openMailbox<SessionId>(limits.maxReadySessions))
  let state: GatewayState = opened
  let demand = 0
  let next = 0
  const told = new Map<string, string[]>()
  const statuses: string[] = []
  let drained = 0

  function absorb(effects: readonly GatewayEffect[]): void {
    for (const effect of effects) {
      if (effect.type === 'announce-demand') demand += effect.slots
      if (effect.type === 'spawn-session') told.set(effect.spec.session, [])
      if (effect.type === 'tell-session') told.get(effect.session)?.push(effect.message.type)
      if (effect.type === 'forget-session') told.delete(effect.session)
      if (effect.type === 'announce-status') statuses.push(effect.status)
      if (effect.type === 'drained') drained += effect.asks.length
    }
  }
  absorb(first)
  const send = (message: StepMessage): void => {
    const [after, effects] = step(state, message, 0)
    state = after
    absorb(effects)
  }
  send({ type: 'engine-available', isAvailable: true })

  return {
    told,
    statuses,
    get demand() {
      return demand
    },
    get drained() {
      return drained
    },
    get state() {
      return state
    },
    send,
    open(priority = 0): string | null {
      if (demand === 0) return null
      demand -= 1
      const name = `s${next++}`
      send({ type: 'open-session', spec: sessionSpec(name, { priority }) })
      return name
    },
    /** Against no demand: it takes no place. */
    capture(): string {
      const name = `c${next++}`
      send({ type: 'open-session', spec: sessionSpec(name, { kind: 'capture' }) })
      return name
    },
  }
}

const has = (messages: readonly string[] | undefined, type: string): boolean => messages?.includes(type) === true
const id = (name: string): SessionId => sessionSpec(name).session

describe('a pause of a gateway', () => {
  it('is told to every session it has and to every one that it opens meanwhile, before anything else, and its end to all of them', () => {
    const gateway = driver(gatewayLimits())
    const early = gateway.open() ?? ''
    gateway.send({ type: 'calls-held', isHeld: true })
    gateway.send({ type: 'calls-held', isHeld: true })
    const late = gateway.open() ?? ''
    const capture = gateway.capture()
    const heard = () => [early, late, capture].map((name) => gateway.told.get(name))
    expect(heard()).toEqual([
      ['begin-init', 'calls-held'],
      ['calls-held', 'begin-init'],
      ['calls-held', 'begin-capture'],
    ])
    gateway.send({ type: 'calls-held', isHeld: false })
    expect(heard().map((told) => told?.at(-1))).toEqual(Array(3).fill('calls-held'))
    const after = gateway.capture()
    expect(gateway.told.get(after)).toEqual(['begin-capture'])
  })
})

describe('gateway stages', () => {
  it('announces exactly its READY capacity as demand', () => {
    expect(driver(gatewayLimits({ maxReadySessions: 7 })).demand).toBe(7)
  })

  it('grants INIT by priority, then by arrival', () => {
    const gateway = driver(gatewayLimits({ maxReadySessions: 5, maxInitWorkers: 1 }))
    const [running, low, high, high2] = [gateway.open(0), gateway.open(1), gateway.open(9), gateway.open(9)]
    const order: string[] = []
    for (const name of [running, high, high2, low]) {
      order.push(...[...gateway.told].filter(([, messages]) => has(messages, 'begin-init')).map(([session]) => session))
      gateway.send({ type: 'session-left-run', session: id(name ?? '') })
      gateway.send({ type: 'session-closed', session: id(name ?? '') })
    }
    expect(order).toEqual([running, high, high2, low])
  })

  it('stops granting run slots while POSTRUN is behind', () => {
    const gateway = driver(gatewayLimits({ maxReadySessions: 6, maxInitWorkers: 6, maxRunWorkers: 4, maxPostrunWorkers: 1 }))
    const names = [0, 1, 2, 3].map(() => gateway.open() ?? '')
    for (const name of names) gateway.send({ type: 'session-prepared', session: id(name) })
    for (const name of names.slice(0, 3)) gateway.send({ type: 'session-left-run', session: id(name) })
    const late = gateway.open() ?? ''
    gateway.send({ type: 'session-prepared', session: id(late) })
    expect(has(gateway.told.get(late), 'begin-run')).toBe(false)
    gateway.send({ type: 'session-closed', session: id(names[0] ?? '') })
    gateway.send({ type: 'session-closed', session: id(names[1] ?? '') })
    expect(has(gateway.told.get(late), 'begin-run')).toBe(true)
  })

  it('announces no room while POSTRUN is behind and READY is full, and again when it has caught up', () => {
    const gateway = driver(gatewayLimits({ maxReadySessions: 2, maxInitWorkers: 2, maxRunWorkers: 1, maxPostrunWorkers: 1 }))
    const opened: string[] = []
    /** Everything that is sent here gets as far as its agent's end. */
    const fill = (): void => {
      for (let name = gateway.open(); name !== null; name = gateway.open()) {
        opened.push(name)
        gateway.send({ type: 'session-prepared', session: id(name) })
        for (const each of opened)
          if (has(gateway.told.get(each), 'begin-run')) gateway.send({ type: 'session-left-run', session: id(each) })
      }
    }
    fill()
    const held = opened.length
    expect(held).toBeLessThanOrEqual(2 + 1 + 2 * 1)
    fill()
    expect([gateway.demand, opened.length], 'nothing more is asked for').toEqual([0, held])
    for (const name of opened.slice(0, 2)) gateway.send({ type: 'session-closed', session: id(name) })
    expect(gateway.demand).toBeGreaterThan(0)
  })

  it('holds the place of a session that leaves READY until POSTRUN has room for it', () => {
    const gateway = driver(gatewayLimits({ maxReadySessions: 2, maxInitWorkers: 2, maxRunWorkers: 1, maxPostrunWorkers: 1 }))
    gateway.send({ type: 'arena-pressure', high: true })
    for (let round = 0; round < 10; round += 1) {
      const name = gateway.open()
      if (name === null) break
      gateway.send({ type: 'session-prepared', session: id(name) })
      gateway.send({ type: 'session-left-run', session: id(name) })
    }
    // One is being finished, two wait and keep both READY places: no fourth sandbox is started.
    expect([gateway.told.size, gateway.demand]).toEqual([3, 0])
  })

  it('keeps prepared sessions in READY while no engine serves', () => {
    const gateway = driver(gatewayLimits())
    const [first, second] = [gateway.open() ?? '', gateway.open() ?? '']
    gateway.send({ type: 'session-prepared', session: id(first) })
    gateway.send({ type: 'engine-available', isAvailable: false })
    gateway.send({ type: 'session-prepared', session: id(second) })
    expect([first, second].map((name) => has(gateway.told.get(name), 'begin-run'))).toEqual([true, false])
    gateway.send({ type: 'engine-available', isAvailable: true })
    expect(has(gateway.told.get(second), 'begin-run')).toBe(true)
  })

  it('stops granting run slots under arena pressure and goes on when it is gone', () => {
    const gateway = driver(gatewayLimits())
    const name = gateway.open() ?? ''
    gateway.send({ type: 'arena-pressure', high: true })
    gateway.send({ type: 'session-prepared', session: id(name) })
    expect(has(gateway.told.get(name), 'begin-run')).toBe(false)
    gateway.send({ type: 'arena-pressure', high: false })
    expect(has(gateway.told.get(name), 'begin-run')).toBe(true)
  })

  it('opens a capture at once, in no stage, whatever holds the others back', () => {
    const gateway = driver(gatewayLimits({ maxReadySessions: 1, maxInitWorkers: 1 }))
    gateway.open()
    const before = metricsOf(gateway.state)
    gateway.send({ type: 'arena-pressure', high: true })
    gateway.send({ type: 'engine-available', isAvailable: false })
    const name = gateway.capture()
    expect([gateway.told.get(name), isCapturing(gateway.state, id(name))]).toEqual([['begin-capture'], true])
    expect(metricsOf(gateway.state)).toEqual(before)
    // It is none of those whose demand was used: closing it makes no place.
    gateway.send({ type: 'session-left-run', session: id(name) })
    expect(isCapturing(gateway.state, id(name))).toBe(false)
    gateway.send({ type: 'session-closed', session: id(name) })
    expect([gateway.told.has(name), gateway.demand]).toEqual([false, 0])
  })

  it('takes captures into POSTRUN in turn with the others, and passes their cancel on', () => {
    const gateway = driver(gatewayLimits({ maxPostrunWorkers: 1 }))
    const [first, second] = [gateway.capture(), gateway.capture()]
    gateway.send({ type: 'cancel-session', session: id(second), reason: 'deleted' })
    expect(gateway.told.get(second)).toEqual(['begin-capture', 'cancel'])
    for (const name of [first, second]) gateway.send({ type: 'session-left-run', session: id(name) })
    const finishing = () => [first, second].map((name) => has(gateway.told.get(name), 'begin-post-run'))
    expect(finishing()).toEqual([true, false])
    expect(metricsOf(gateway.state)).toMatchObject({ postrunQueueDepth: 1, postrunInflight: 1 })
    gateway.send({ type: 'session-closed', session: id(first) })
    expect(finishing()).toEqual([false, true])
  })

  it('waits for captures when it drains', () => {
    const gateway = driver(gatewayLimits())
    const name = gateway.capture()
    gateway.send({ type: 'drain', ask: { thread: 't' as never, incarnation: 0, ask: 1 } })
    expect(gateway.drained).toBe(0)
    gateway.send({ type: 'session-left-run', session: id(name) })
    gateway.send({ type: 'session-closed', session: id(name) })
    expect(gateway.drained).toBe(1)
  })

  it('knows what a session asks for by its last call', () => {
    const gateway = driver(gatewayLimits())
    const session = id(gateway.capture())
    const model = { requested: 'gpt-5', used: 'policy', dialect: 'openai-responses' } as const
    gateway.send({ type: 'session-status', session, status: 'RUNNING', calls: 2, model })
    expect(sessionsOf(gateway.state, 0)).toMatchObject([{ session, status: 'RUNNING', calls: 2, model }])
  })

  it('answers a drain only when the last session is closed, and announces no demand meanwhile', () => {
    const gateway = driver(gatewayLimits())
    const name = gateway.open() ?? ''
    const before = gateway.demand
    gateway.send({ type: 'drain', ask: { thread: 't' as never, incarnation: 0, ask: 1 } })
    expect(gateway.drained).toBe(0)
    gateway.send({ type: 'session-left-run', session: id(name) })
    gateway.send({ type: 'session-closed', session: id(name) })
    expect([gateway.drained, gateway.demand]).toEqual([1, before])
  })

  it('keeps every limit, and every READY place, under any order of events', () => {
    const limitsArb = fc.record({
      maxReadySessions: fc.integer({ min: 1, max: 5 }),
      maxInitWorkers: fc.integer({ min: 1, max: 3 }),
      maxRunWorkers: fc.integer({ min: 1, max: 3 }),
      maxPostrunWorkers: fc.integer({ min: 1, max: 3 }),
      maxGraderSandboxes: fc.constant(1),
      maxCaptures: fc.constant(4),
    })
    const move = fc.oneof(
      { arbitrary: fc.constant('open'), weight: 6 },
      { arbitrary: fc.constant('capture'), weight: 2 },
      { arbitrary: fc.constant('prepared'), weight: 8 },
      { arbitrary: fc.constant('left'), weight: 2 },
      { arbitrary: fc.constant('closed'), weight: 2 },
      { arbitrary: fc.constant('cancel'), weight: 1 },
      { arbitrary: fc.constant('pressure'), weight: 1 },
    )
    const moves = fc.array(fc.tuple(move, fc.nat(20)), { minLength: 40, maxLength: 160, size: 'max' })
    fc.assert(
      fc.property(limitsArb, moves, (limits, list) => {
        const gateway = driver(limits)
        const violations: string[] = []
        for (const [at, [move, pick]] of list.entries()) {
          const names = [...gateway.told.keys()]
          const name = names[pick % Math.max(1, names.length)]
          if (move === 'open') gateway.open(pick % 3)
          else if (move === 'capture') gateway.capture()
          else if (move === 'pressure') gateway.send({ type: 'arena-pressure', high: pick % 4 === 0 })
          else if (name !== undefined) {
            const told = gateway.told.get(name)
            if (move === 'prepared' && has(told, 'begin-init')) gateway.send({ type: 'session-prepared', session: id(name) })
            if (move === 'left') gateway.send({ type: 'session-left-run', session: id(name) })
            if (move === 'closed' && has(told, 'begin-post-run')) gateway.send({ type: 'session-closed', session: id(name) })
            if (move === 'cancel') gateway.send({ type: 'cancel-session', session: id(name), reason: 'cancelled by the trainer' })
          }
          for (const violation of violationsOf(gateway, limits)) violations.push(`after move ${at} (${move}): ${violation}`)
        }
        gateway.send({ type: 'arena-pressure', high: false })
        for (let round = 0; gateway.told.size > 0 && round < 1_000; round += 1) {
          for (const [name, told] of [...gateway.told]) {
            if (has(told, 'begin-post-run')) gateway.send({ type: 'session-closed', session: id(name) })
            else gateway.send({ type: 'session-left-run', session: id(name) })
          }
        }
        // Everything is closed: no place is lost and none was made up.
        expect({ violations, open: gateway.told.size, demand: gateway.demand }).toEqual({
          violations: [],
          open: 0,
          demand: limits.maxReadySessions,
        })
      }),
      { numRuns: 400 },
    )
  })
})

/** Every bound that is broken now; an `expect` for each of them after each move would cost more than all the moves. */
function violationsOf(gateway: ReturnType<typeof driver>, limits: GatewayLimits): readonly string[] {
  const { initQueueDepth, initInflight, readyDepth, runInflight, postrunInflight } = metricsOf(gateway.state)
  // Every session here has a sandbox, or will have one: what waits anywhere is bounded too.
  const mostSessions = limits.maxReadySessions + 2 * limits.maxRunWorkers + 2 * limits.maxPostrunWorkers
  const bounds: readonly (readonly [string, number, number])[] = [
    ['sessions in INIT', initInflight, limits.maxInitWorkers],
    ['sessions in RUNNING', runInflight, limits.maxRunWorkers],
    ['sessions in POSTRUN', postrunInflight, limits.maxPostrunWorkers],
    ['sessions before RUNNING', initQueueDepth + initInflight + readyDepth, limits.maxReadySessions],
    ['sessions in all', [...gateway.told].filter(([, told]) => !has(told, 'begin-capture')).length, mostSessions],
  ]
  const violations = bounds.filter(([, count, most]) => count > most).map(([what, count, most]) => `${count} ${what}, limit ${most}`)
  for (const [name, messages] of gateway.told) {
    for (const grant of ['begin-capture', 'begin-init', 'begin-run', 'begin-post-run']) {
      if (messages.indexOf(grant) !== messages.lastIndexOf(grant)) violations.push(`${name} was told ${grant} twice`)
    }
  }
  return violations
}

// Which gateway gets a session: the least loaded that has room and is not to be emptied.
import { describe, expect, it } from 'vitest'
import { gatewayId, knownSessionId } from '../../src/contract/ids.ts'
import { request, ServerWorld, summary } from '../model/rollout-server-world.ts'

const SESSION = knownSessionId('mine')

describe('drain-gateway', () => {
  it('sends the gateway no session, whatever room it announces, until it is enrolled again', () => {
    const world = new ServerWorld()
    const [a, b] = [world.startGateway('a', 2), world.startGateway('b', 2)]
    expect(world.drain(a)).toMatchObject({ gateway: a, draining: true, healthy: true, sessions: 0 })
    world.accept(request('t', { num_samples: 4 }))
    world.demand(a, 1)
    expect(world.opened.map(({ gateway }) => gateway)).toEqual([b, b])
    expect(world.drain(a, 'enrol-gateway')).toMatchObject({ gateway: a, draining: false })
    expect(world.opened.map(({ gateway }) => gateway)).toEqual([b, b, a, a])
  })

  it('lists it until its last session has ended, then as unknown, and takes it back from there', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    world.accept(request('t'))
    world.openSession({ kind: 'capture', session: SESSION })
    world.drain(gateway)
    expect(world.cancels).toEqual([])
    expect(world.gateways()).toMatchObject([{ gateway, draining: true, sessions: 2 }])
    world.finish(gateway, world.opened[0]!.spec.session, summary('completed'))
    expect(world.gateways()).toMatchObject([{ sessions: 1 }])
    expect(world.drain(gateway)).toMatchObject({ draining: true })
    world.finish(gateway, SESSION, summary('completed'))
    expect(world.gateways()).toEqual([])
    expect(world.drain(gateway)).toBeNull()
    expect(world.drain(gateway, 'enrol-gateway')).toMatchObject({ draining: false, sessions: 0 })
    expect(world.gateways()).toMatchObject([{ gateway }])
  })

  it('is kept by a gateway that starts again, and its sessions go elsewhere', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0', 1)
    world.accept(request('t'))
    world.drain(gateway)
    world.startGateway('g0', 5)
    expect(world.gateways()).toEqual([])
    expect(world.opened).toHaveLength(1)
    const other = world.startGateway('g1', 1)
    expect(world.opened.map(({ gateway: at, spec }) => [at, spec.attempt])).toEqual([
      [gateway, 1],
      [other, 2],
    ])
  })

  it('ends the sessions that wait for this gateway only, and takes no more of them', () => {
    const world = new ServerWorld()
    const gateway = world.startGateway('g0')
    const anywhere = world.openSession()
    world.openSession({ session: SESSION, gateway })
    const recording = world.submitSession({ session: knownSessionId('late'), gateway })
    world.drain(gateway)
    world.settleAll()
    expect(recording()).toMatchObject({ type: 'opened' })
    for (const session of [SESSION, knownSessionId('late')]) {
      expect(world.session(session)).toMatchObject({
        summary: { outcome: 'cancelled', error: 'session cancelled: its gateway is draining' },
      })
    }
    expect(world.session(anywhere.session)).toMatchObject({ status: 'REGISTERED' })
    for (const kind of ['agent', 'capture'] as const) {
      expect(world.submitSession({ kind, gateway })()).toEqual({ type: 'gateway-unknown' })
    }
    expect(world.submitSession({ kind: 'capture' })()).toMatchObject({ type: 'overloaded' })
  })

  it.each([
    ['fails', (world: ServerWorld) => void world.finish(gatewayId('g0'), SESSION, summary('runtime_error')), 'runtime_error'],
    ['is lost', (world: ServerWorld) => world.loseGateway(gatewayId('g0')), 'interrupted'],
  ])('makes no new attempt of a session that may go nowhere else and %s', (_, fail, outcome) => {
    const world = new ServerWorld({ maxAttempts: 3 })
    const gateway = world.startGateway('g0', 2)
    world.openSession({ session: SESSION, gateway })
    world.drain(gateway)
    fail(world)
    world.settleAll()
    expect(world.session(SESSION)).toMatchObject({ attempt: 1, summary: { outcome } })
  })

  it('knows no other gateway', () => {
    const world = new ServerWorld()
    expect([world.drain(gatewayId('x')), world.drain(gatewayId('x'), 'enrol-gateway')]).toEqual([null, null])
  })
})

describe('the least loaded', () => {
  it('is by sessions per place, so a gateway of twice the size holds twice as many', () => {
    const world = new ServerWorld()
    const [big, small] = [
      world.startGateway('big', 100, { maxReadySessions: 8, maxRunWorkers: 4, maxPostrunWorkers: 8 }),
      world.startGateway('small', 100, { maxReadySessions: 4, maxRunWorkers: 2, maxPostrunWorkers: 4 }),
    ]
    world.accept(request('t', { num_samples: 30 }))
    expect([world.held.get(big)?.size, world.held.get(small)?.size]).toEqual([20, 10])
  })

  it('counts a session from when it is sent until it has ended', () => {
    const world = new ServerWorld()
    const [a, b] = [world.startGateway('a', 10), world.startGateway('b', 10)]
    world.accept(request('t', { num_samples: 4 }))
    for (const session of world.held.get(b)?.keys() ?? []) world.finish(b, session, summary('completed'))
    world.accept(request('u', { num_samples: 2 }))
    expect([world.held.get(a)?.size, world.held.get(b)?.size]).toEqual([2, 2])
  })
})

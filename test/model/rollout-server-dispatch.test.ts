// Who is sent where, against a scheduler that looks at everything each time: tasks and sessions by themselves, some of which name their gateway.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PRIORITY_WORTH_MS } from '../../src/actors/rollout-server/queue.ts'
import { type GatewayId, gatewayId, knownSessionId, type SessionId } from '../../src/contract/ids.ts'
import { request, ServerWorld, summary } from './rollout-server-world.ts'

const GATEWAYS = [
  { gateway: gatewayId('a'), places: 4 },
  { gateway: gatewayId('b'), places: 8 },
  { gateway: gatewayId('c'), places: 12 },
] as const

type Waiting = { readonly session: SessionId; readonly turn: number; readonly pinned: GatewayId | null }
type Room = { readonly gateway: GatewayId; readonly places: number; demand: number; held: number }

/** Sends the first of all that can go, to the emptiest gateway that it may go to, until none can. */
class NaiveScheduler {
  readonly waiting: Waiting[] = []
  readonly rooms: Room[] = GATEWAYS.map((gateway) => ({ ...gateway, demand: 0, held: 0 }))
  readonly sent: (readonly [GatewayId, SessionId])[] = []

  /** Behind those of the same turn, who came before. */
  add(waiting: Waiting) {
    const at = this.waiting.findIndex(({ turn }) => turn > waiting.turn)
    this.waiting.splice(at === -1 ? this.waiting.length : at, 0, waiting)
  }

  room(gateway: GatewayId): Room {
    const room = this.rooms.find((each) => each.gateway === gateway)
    if (room === undefined) throw new Error(`no gateway ${gateway}`)
    return room
  }

  dispatch() {
    for (;;) {
      const open = this.rooms.filter(({ demand }) => demand > 0)
      const next = this.waiting.find(({ pinned }) => open.some(({ gateway }) => pinned === null || pinned === gateway))
      if (next === undefined) return
      const [room] = open
        .filter(({ gateway }) => next.pinned === null || next.pinned === gateway)
        .toSorted((a, b) => a.held / a.places - b.held / b.places || (a.gateway < b.gateway ? -1 : 1))
      if (room === undefined) return
      this.waiting.splice(this.waiting.indexOf(next), 1)
      room.demand -= 1
      room.held += 1
      this.sent.push([room.gateway, next.session])
    }
  }
}

const priority = fc.integer({ min: 0, max: 5 })
const place = fc.constantFrom(...GATEWAYS.map(({ gateway }) => gateway))
const action = fc.oneof(
  fc.record({ type: fc.constant('task' as const), priority, samples: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ type: fc.constant('single' as const), priority, pinned: fc.option(place) }),
  fc.record({ type: fc.constant('demand' as const), gateway: place, slots: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ type: fc.constant('finish' as const), at: fc.nat(30) }),
  fc.record({ type: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 20_000 }) }),
)
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

function play(world: ServerWorld, naive: NaiveScheduler, action: Action, step: number) {
  const turnOf = (points: number) => world.nowMs - points * PRIORITY_WORTH_MS
  switch (action.type) {
    case 'task': {
      const id = `t${step}`
      const before = world.state.line.length
      world.submit(request(id, { num_samples: action.samples, dispatch_priority: action.priority }))
      for (const { session } of world.view(id)?.sessions ?? []) naive.add({ session, turn: turnOf(action.priority), pinned: null })
      expect(world.state.line, 'nothing is in line that is not recorded').toHaveLength(before)
      world.answerRecord()
      return
    }
    case 'single': {
      const session = knownSessionId(`s${step}`)
      world.openSession({ session, gateway: action.pinned, request: request('named', { dispatch_priority: action.priority }) })
      naive.add({ session, turn: turnOf(action.priority), pinned: action.pinned })
      return
    }
    case 'demand':
      naive.room(action.gateway).demand += action.slots
      return world.demand(action.gateway, action.slots)
    case 'finish': {
      const held = [...world.held].flatMap(([gateway, sessions]) => [...sessions.keys()].map((session) => ({ gateway, session })))
      const ended = held[action.at % Math.max(1, held.length)]
      if (ended === undefined) return
      naive.room(ended.gateway).held -= 1
      return void world.finish(ended.gateway, ended.session, summary('completed'))
    }
    case 'wait':
      world.nowMs += action.ms
  }
}

describe('dispatch', () => {
  it('sends the first in line that may go now to the least loaded gateway that it may go to', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60, size: 'max' }), (actions) => {
        const world = new ServerWorld()
        const naive = new NaiveScheduler()
        for (const { gateway, places } of GATEWAYS) {
          world.startGateway(gateway, 0, { maxReadySessions: places / 4, maxRunWorkers: places / 4, maxPostrunWorkers: places / 2 })
        }
        for (const [step, each] of actions.entries()) {
          play(world, naive, each, step)
          naive.dispatch()
          expect(world.opened.map(({ gateway, spec }) => [gateway, spec.session])).toEqual(naive.sent)
        }
        expect(world.state.pendingSessions).toBe(naive.waiting.length)
      }),
      { numRuns: 150 },
    )
  })

  it('holds nobody up behind sessions that wait for a gateway without room, however urgent and many', () => {
    const world = new ServerWorld()
    const [full, free] = [world.startGateway('full'), world.startGateway('free')]
    for (let i = 0; i < 50; i += 1) world.openSession({ gateway: full, request: request('named', { dispatch_priority: 100 }) })
    world.accept(request('plain'))
    world.demand(free, 1)
    expect(world.opened).toMatchObject([{ gateway: free, spec: { task: 'plain' } }])
  })
})

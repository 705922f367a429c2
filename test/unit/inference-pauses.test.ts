// Pauses of several gateways as one: all or none, whatever overlaps, and what a gateway's thread that starts again is told.
import { beforeEach, describe, expect, it } from 'vitest'
import type { AskGateway, GatewayCommand, InferenceStatus } from '../../src/actors/gateway/protocol.ts'
import { type GatewayId, gatewayId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import { openPauseGate, type PauseGate } from '../../src/proxy/pool/pause-gate.ts'
import { type InferencePauses, openInferencePauses } from '../../src/threads/inference-pauses.ts'

const [g0, g1] = [gatewayId('g0'), gatewayId('g1')]
const BOTH = [g0, g1]

let world: World
/** The calls of each gateway; without an entry its thread is gone. */
let gates: Map<GatewayId, PauseGate>
let pauses: InferencePauses

beforeEach(() => {
  world = openWorld({ seed: 1 })
  gates = new Map(BOTH.map((gateway) => [gateway, openPauseGate(world, false, () => {})]))
  pauses = openInferencePauses(BOTH, askGateway)
})

/** As a gateway's actor answers. */
const askGateway: AskGateway = async <R>(gateway: GatewayId, make: Parameters<AskGateway>[1]) => {
  const gate = gates.get(gateway)
  if (gate === undefined) return { ok: false, error: 'stopped' } as const
  const command = make({ thread: threadId('control'), incarnation: 1, ask: 1 })
  const value = await answer(gateway, gate, command)
  return { ok: true, value: value as R } as const
}

async function answer(gateway: GatewayId, gate: PauseGate, command: GatewayCommand): Promise<unknown> {
  const status = (): InferenceStatus => ({ gateway, paused: gate.isPaused(), inFlight: gate.inFlight(), waiting: 0, replicas: [] })
  if (command.type === 'pause-inference') {
    const type = await gate.pause(command.timeoutMs)
    return { type, status: status() }
  }
  if (command.type === 'resume-inference') gate.resume()
  return status()
}

/** How it ended, at the moment of `settle`. */
function pausing(gateways: readonly GatewayId[], timeoutMs = 1_000): () => unknown {
  let outcome: unknown = 'waiting'
  void pauses.pause(gateways, timeoutMs).then((paused) => {
    outcome = paused.ok ? 'paused' : `${paused.gateway} ${paused.error}`
  })
  return () => outcome
}
const settle = (): Promise<void> => world.advance(0)
const held = (): readonly (boolean | undefined)[] => BOTH.map((gateway) => gates.get(gateway)?.isPaused())

describe('a pause of all gateways', () => {
  it('is granted when each of them has drained, and told in their order', async () => {
    gates.get(g0)?.enter()
    const paused = pauses.pause(BOTH, 1_000)
    await settle()
    gates.get(g0)?.leave()
    expect(await paused).toMatchObject({
      ok: true,
      statuses: [
        { gateway: g0, paused: true, inFlight: 0 },
        { gateway: g1, paused: true, inFlight: 0 },
      ],
    })
    expect([held(), BOTH.map(pauses.holds)]).toEqual([
      [true, true],
      [true, true],
    ])
    expect(await pauses.resume(BOTH)).toMatchObject([{ paused: false }, { paused: false }])
    expect([held(), BOTH.map(pauses.holds)]).toEqual([
      [false, false],
      [false, false],
    ])
  })

  it('is taken back from all when one does not drain in time', async () => {
    gates.get(g1)?.enter()
    const paused = pausing(BOTH)
    await world.advance(999)
    expect([paused(), held()]).toEqual(['waiting', [true, true]])
    await world.advance(1)
    expect([paused(), held(), BOTH.map(pauses.holds)]).toEqual(['g1 timed-out', [false, false], [false, false]])
  })

  it('fails at once when one is gone, and lets the others go on although they still drain', async () => {
    gates.get(g0)?.enter()
    gates.delete(g1)
    const paused = pausing(BOTH)
    await settle()
    expect([paused(), held()]).toEqual(['g1 silent', [false, undefined]])
  })

  it('leaves what was paused before as it was, when it fails', async () => {
    await pauses.pause([g0], 1_000)
    gates.get(g1)?.enter()
    const paused = pausing(BOTH)
    await world.advance(1_000)
    expect([paused(), held()]).toEqual(['g1 timed-out', [true, false]])
  })

  it('is over when one was resumed while another was still draining', async () => {
    gates.get(g1)?.enter()
    const paused = pausing(BOTH)
    await settle()
    await pauses.resume([g0])
    gates.get(g1)?.leave()
    await settle()
    expect([paused(), held()]).toEqual(['g0 resumed', [false, false]])
  })

  it('ends with a resume while it waits', async () => {
    gates.get(g1)?.enter()
    const paused = pausing(BOTH)
    await settle()
    await pauses.resume(BOTH)
    await settle()
    expect([paused(), held()]).toEqual(['g1 resumed', [false, false]])
  })
})

describe('pauses that overlap', () => {
  it.each([
    ['the first', 500, 1_000],
    ['the second', 1_000, 500],
  ])('hold a gateway that drained as long as one of them still waits, %s sooner', async (_, first, second) => {
    gates.get(g1)?.enter()
    pausing(BOTH, first)
    pausing(BOTH, second)
    await world.advance(500)
    expect(held()).toEqual([true, true])
    await world.advance(500)
    expect([held(), BOTH.map(pauses.holds)]).toEqual([
      [false, false],
      [false, false],
    ])
  })

  it('are each their own: one that fails late takes back none that was asked for after the resume', async () => {
    gates.get(g1)?.enter()
    const late = pausing(BOTH)
    await settle()
    const resumed = pauses.resume(BOTH)
    const next = pausing([g0])
    await resumed
    await settle()
    expect([late(), next(), held()]).toEqual([expect.stringMatching(/resumed$/), 'paused', [true, false]])
  })
})

describe('a gateway whose thread starts again', () => {
  it('is to hold its calls while somebody wants it, and is told of a resume that came meanwhile', async () => {
    await pauses.pause([g0], 1_000)
    gates.delete(g0)
    expect([pauses.holds(g0), pauses.holds(g1), await pauses.read(g0)]).toEqual([true, false, null])
    const fresh = openPauseGate(world, pauses.holds(g0), () => {})
    expect(await pauses.resume([g0])).toEqual([null])
    gates.set(g0, fresh)
    pauses.started(g0)
    await settle()
    expect(fresh.isPaused()).toBe(false)
  })

  it('stays paused when nobody has resumed', async () => {
    await pauses.pause([g0], 1_000)
    const fresh = openPauseGate(world, pauses.holds(g0), () => {})
    gates.set(g0, fresh)
    pauses.started(g0)
    await settle()
    expect([fresh.isPaused(), await pauses.read(g0)]).toEqual([true, expect.objectContaining({ paused: true })])
  })
})

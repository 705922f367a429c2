// Changes of what gateways serve from, as the control thread asks for them: whole, one after the other, and true also of a gateway that is busy.
import { expect, it } from 'vitest'
import type { GatewayCommand } from '../../src/actors/gateway/protocol.ts'
import { type GatewayId, gatewayId, replicaId } from '../../src/contract/ids.ts'
import type { ReplicaChange } from '../../src/contract/replica.ts'
import { threadId } from '../../src/kernel/address.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'
import { openReplicaSets } from '../../src/threads/replica-sets.ts'

type Change = Extract<GatewayCommand, { type: 'add-replica' | 'remove-replica' }>

const GATEWAY = gatewayId('g0')
const OTHER = gatewayId('g1')
const SPEC = {
  id: replicaId('gpu'),
  url: 'http://gpu',
  engine: 'vllm',
  maxInFlight: 4,
  maxWaiting: 5,
  dataParallelRanks: null,
  isRouter: false,
} as const
const UNKNOWN: ReplicaChange = { ok: false, error: 'unknown', detail: 'there is no replica gpu' }

/** Gateways that answer by `answer`; null: the message is taken and nothing is said. */
function openStand(answer: (change: Change, gateway: GatewayId) => ReplicaChange | null) {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('control'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  const taken: string[] = []
  const spawn = (gateway: GatewayId) =>
    kernel.spawn<GatewayCommand>({
      name: gateway,
      capacity: 64,
      create: (context) => ({
        receive(command) {
          if (command.type !== 'add-replica' && command.type !== 'remove-replica') return
          taken.push(`${gateway} ${command.type}`)
          const changed = answer(command, gateway)
          if (changed !== null) context.reply(command.ask, changed)
        },
      }),
    })
  const addresses = new Map([GATEWAY, OTHER].map((gateway) => [gateway, spawn(gateway)]))
  const sets = openReplicaSets(kernel, [], (gateway) => addresses.get(gateway))
  return { world, sets, taken }
}

it('makes one change after the other, each at all gateways before the next begins', async () => {
  const { world, sets, taken } = openStand(() => ({ ok: true }))
  const changes = [sets.add([GATEWAY, OTHER], SPEC), sets.remove([GATEWAY, OTHER], SPEC.id), sets.add([OTHER], SPEC)]
  await world.advance(0)
  await Promise.all(changes)
  expect([taken.slice(0, 2), taken.slice(2, 4).toSorted(), taken.slice(4)]).toEqual([
    ['g0 add-replica', 'g1 add-replica'],
    ['g0 remove-replica', 'g1 remove-replica'],
    ['g1 add-replica'],
  ])
  expect([sets.of(GATEWAY), sets.of(OTHER)]).toEqual([[], [{ id: 'gpu', url: 'http://gpu', engine: 'vllm', inFlight: 4, line: 5 }]])
})

it('takes back from the others what one gateway refuses', async () => {
  const { world, sets, taken } = openStand((_change, gateway) => (gateway === GATEWAY ? { ok: true } : UNKNOWN))
  const added = sets.add([GATEWAY, OTHER], SPEC)
  await world.advance(0)
  expect(await added).toEqual({ gateway: OTHER, change: UNKNOWN })
  expect([taken, sets.of(GATEWAY)]).toEqual([['g0 add-replica', 'g1 add-replica', 'g0 remove-replica'], []])
})

it('takes back what a gateway adds too late to say so', async () => {
  const { world, sets, taken } = openStand(() => null)
  const added = sets.add([GATEWAY], SPEC)
  await world.advance(5_000)
  expect(await added).toEqual({ gateway: GATEWAY, change: null })
  await world.advance(5_000)
  expect([taken, sets.of(GATEWAY)]).toEqual([['g0 add-replica', 'g0 remove-replica'], []])
})

it('forgets what a gateway removed without being heard, once it says that it has it no more', async () => {
  const answers: (ReplicaChange | null)[] = [{ ok: true }, null, UNKNOWN]
  const { world, sets } = openStand(() => answers.shift() ?? null)
  const run = async <T>(change: Promise<T>): Promise<T> => {
    await world.advance(5_000)
    return change
  }
  expect(await run(sets.add([GATEWAY], SPEC))).toBeNull()
  expect(await run(sets.remove([GATEWAY], SPEC.id))).toEqual([{ gateway: GATEWAY, change: null }])
  // A thread that starts now must not lose what may still be there.
  expect(sets.of(GATEWAY)).toMatchObject([{ id: 'gpu' }])
  expect(await run(sets.remove([GATEWAY], SPEC.id))).toEqual([{ gateway: GATEWAY, change: UNKNOWN }])
  expect(sets.of(GATEWAY)).toEqual([])
})

it('keeps what a gateway refuses to remove', async () => {
  const part: ReplicaChange = { ok: false, error: 'part', detail: 'a part' }
  const answers: ReplicaChange[] = [{ ok: true }, part]
  const { world, sets } = openStand(() => answers.shift() ?? null)
  const changes = [sets.add([GATEWAY], SPEC), sets.remove([GATEWAY], SPEC.id)]
  await world.advance(0)
  expect(await Promise.all(changes)).toEqual([null, [{ gateway: GATEWAY, change: part }]])
  expect(sets.of(GATEWAY)).toMatchObject([{ id: 'gpu' }])
})

// When a gateway says how much room it has.
import { afterEach, expect, it } from 'vitest'
import { gatewayActor } from '../../src/actors/gateway/actor.ts'
import type { RolloutServerCommand } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId } from '../../src/contract/ids.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import { openCourier } from '../../src/kernel/courier.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'
import { boundaryWithoutServers, gatewayLimits } from '../lib/specs.ts'

const kernels: Kernel[] = []

afterEach(async () => {
  for (const kernel of kernels.splice(0)) await kernel.close()
})

it('announces all its room once the rollout server knows it, and none before: demand of a stranger is dropped', async () => {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('one'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  kernels.push(kernel)
  const heard: RolloutServerCommand[] = []
  const nobody: Address<unknown> = kernel.spawn({ name: 'nobody', capacity: 8, create: () => ({ receive() {} }) })
  const rolloutServer = kernel.spawn<RolloutServerCommand>({
    name: 'rollout-server',
    capacity: 8,
    create: () => ({ receive: (message) => void heard.push(message) }),
  })
  const gateway = kernel.spawn(
    gatewayActor({
      gateway: gatewayId('g'),
      courier: openCourier(kernel),
      limits: gatewayLimits({ maxReadySessions: 3 }),
      modelPort: 1,
      rolloutServer,
      ledger: nobody,
      sandboxes: nobody,
      teardownMs: 100,
      sessionSpec: () => ({ name: 'session', capacity: 8, create: () => ({ receive() {} }) }),
      arena: () => ({ allocatedBlocks: 0, freeBlocks: 0, leasedBlocks: 0, pressure: false }),
      readCalls: async () => ({ type: 'none' }),
      boundary: boundaryWithoutServers,
    }),
  )
  await world.advance(60_000)
  expect(heard).toEqual([])
  kernel.tell(gateway, { type: 'announce-demand' })
  await world.advance(60_000)
  expect(heard).toEqual([{ type: 'demand', gateway: 'g', slots: 3 }])
})

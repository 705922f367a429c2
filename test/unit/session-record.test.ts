// A result that the ledger cannot take yet: held, and offered ever more rarely.
import { afterEach, expect, it } from 'vitest'
import type { LedgerCommand, Recorded } from '../../src/actors/ledger/protocol.ts'
import { sessionActor } from '../../src/actors/session/actor.ts'
import { gatewayId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import { openCourier } from '../../src/kernel/courier.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'
import { openProxy } from '../lib/proxy-fixture.ts'
import { sessionPolicy, sessionSpec } from '../lib/specs.ts'

const kernels: Kernel[] = []

afterEach(async () => {
  for (const kernel of kernels.splice(0)) await kernel.close()
})

it('is offered again after pauses that double up to four seconds, until it is taken', async () => {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('one'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  kernels.push(kernel)
  const offeredAtMs: number[] = []
  const told: string[] = []
  const peer = kernel.spawn<{ readonly type: string }>({
    name: 'peer',
    capacity: 64,
    create: () => ({ receive: ({ type }) => void told.push(type) }),
  })
  const ledger = kernel.spawn<LedgerCommand>({
    name: 'ledger',
    capacity: 64,
    create: (context) => ({
      receive(command) {
        if (command.type !== 'record-result') return
        offeredAtMs.push(context.clock.nowMs())
        const full: Recorded = { type: 'refused', reason: 'full', detail: 'full' }
        context.reply(command.ask, offeredAtMs.length < 8 ? full : { type: 'recorded' })
      },
    }),
  })
  const session = kernel.spawn(
    sessionActor(sessionSpec('s'), {
      kernel,
      courier: openCourier(kernel),
      node: gatewayId('g'),
      policy: sessionPolicy,
      peers: { gateway: peer, rolloutServer: peer, sandboxes: peer, ledger, builder: peer, evaluator: peer },
      boundary: openProxy().boundary,
      modelPort: 1,
      harness: null,
      installedAgent: () => null,
      graderWaitMs: 0,
    }),
  )
  kernel.tell(session, { type: 'cancel', reason: 'deleted' })
  await world.advance(10)
  kernel.tell(session, { type: 'begin-post-run' })
  await world.advance(60_000)

  const pauses = offeredAtMs.slice(1).map((at, index) => Math.round(at - (offeredAtMs[index] ?? 0)))
  expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 4_000, 4_000])
  expect(told.filter((type) => type === 'session-finished')).toHaveLength(1)
})

// The module a gateway thread runs.
import type { GatewayCommand } from '../actors/gateway/protocol.ts'
import type { Address } from '../kernel/address.ts'
import { type Drain, openDrain } from '../kernel/drain.ts'
import { serveThread } from '../kernel/thread-entry.ts'
import { openCpuPool } from '../tasks/pool.ts'
import { type GatewayPeers, type GatewaySetup, type GatewayThread, openGatewayThread } from './gateway.ts'

export type GatewayBoot = { readonly setup: GatewaySetup; readonly peers: GatewayPeers; readonly drainMs: number }
export type GatewayReady = { readonly address: Address<GatewayCommand>; readonly modelPort: number }

let thread: GatewayThread | null = null
let drain: Drain | null = null

serveThread<GatewayBoot, GatewayReady>({
  async boot({ setup, peers, drainMs }, kernel) {
    const opened = await openGatewayThread(kernel, setup, peers, {
      cpu: openCpuPool(setup.cpu),
      listens: true,
      log: (event, detail) => process.stderr.write(`${JSON.stringify({ event, gateway: setup.gateway, ...detail })}\n`),
      failed: () => process.exit(1),
    })
    thread = opened
    drain = openDrain(kernel.scheduler, [
      {
        name: 'sessions',
        deadlineMs: drainMs,
        async run() {
          const answer = await kernel.ask<GatewayCommand, void>(opened.address, (ask) => ({ type: 'drain', ask }), drainMs)
          if (!answer.ok) throw new Error(`the gateway did not drain: ${answer.error}`)
        },
      },
    ])
    return { address: opened.address, modelPort: opened.modelPort }
  },
  async drain() {
    return drain === null ? { isDrained: true, steps: [] } : drain.run()
  },
  async stop() {
    await thread?.close()
  },
  gauges() {
    const arena = thread?.arena()
    return arena === undefined
      ? {}
      : { arenaAllocated: arena.allocatedBlocks, arenaFree: arena.freeBlocks, arenaLeased: arena.leasedBlocks }
  },
  inject(fault) {
    switch (fault) {
      case 'exit':
        process.exit(7)
        break
      case 'spin': {
        // A thread that never yields: only its owner can end it.
        for (;;) Atomics.load(new Int32Array(1), 0)
      }
      default:
        throw new Error(`a gateway thread has no fault '${fault}'; it has: exit, spin`)
    }
  },
})

// The inside of a worker thread: its kernel, and the admin plane through which its owner boots, drains and stops it.
import { getHeapStatistics } from 'node:v8'
import { workerData } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { DrainReport } from './drain.ts'
import { cryptoRandom, openEventLoop } from './event-loop.ts'
import type { Kernel } from './kernel.ts'
import { openKernel } from './machine.ts'
import { openPortWire } from './port-wire.ts'
import type { ThreadAdmin, ThreadBirth } from './thread-admin.ts'

export type ThreadHandlers<Boot, Ready> = {
  /** Starts the thread's actors; what it returns goes to the owner, usually their addresses. Called once. */
  boot(config: Boot, kernel: Kernel): Promise<Ready>
  /** Stops taking new work and finishes what was begun. */
  drain(): Promise<DrainReport>
  /** Closes what the thread owns outside its kernel. */
  stop?(): Promise<void>
  gauges?(): Readonly<Record<string, number>>
  inject?(fault: string): void
}

/** Called once, at the top of the module a thread runs. */
export function serveThread<Boot, Ready>(handlers: ThreadHandlers<Boot, Ready>): void {
  // `openThread` is the only one who starts such a module.
  const birth = workerData as ThreadBirth
  const kernel = openKernel({
    thread: birth.thread,
    incarnation: birth.incarnation,
    peers: birth.peers,
    scheduler: openEventLoop(),
    random: cryptoRandom(),
  })
  let utilization = performance.eventLoopUtilization()
  const admin: ThreadAdmin = {
    join: (peer, port) => kernel.connect(peer, openPortWire(port)),
    boot: (config) => handlers.boot(config as Boot, kernel),
    stats() {
      const last = utilization
      utilization = performance.eventLoopUtilization()
      return {
        kernel: kernel.stats(),
        heapUsedBytes: getHeapStatistics().used_heap_size,
        loopUtilization: performance.eventLoopUtilization(utilization, last).utilization,
        gauges: handlers.gauges?.() ?? {},
      }
    },
    drain: () => handlers.drain(),
    async stop() {
      await kernel.close()
      await handlers.stop?.()
    },
    async inject(fault) {
      if (handlers.inject === undefined) throw new Error(`thread ${birth.thread} knows no faults; it was asked for ${fault}`)
      handlers.inject(fault)
    },
  }
  comlink.expose(admin, nodeEndpoint(birth.admin))
}

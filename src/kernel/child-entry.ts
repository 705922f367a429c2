// The inside of a child process: the admin plane through which its owner boots, drains and stops it, and an end with its owner's.
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { DrainReport } from './drain.ts'

/** What the process itself exposes: a thread's admin plane, without a kernel and its ports. */
export type ChildAdmin = {
  boot(config: unknown): Promise<unknown>
  stats(): { readonly rssBytes: number }
  drain(): Promise<DrainReport>
  stop(): Promise<void>
  /** Brings about a fault the process knows; only tests ask for one. */
  inject(fault: string): Promise<void>
}

export type ChildHandlers<Boot, Ready> = {
  /** Starts what the process is there for. Called once. */
  boot(config: Boot): Promise<Ready>
  /** Stops taking new work and finishes what was begun. */
  drain(): Promise<DrainReport>
  stop(): Promise<void>
  inject(fault: string): void
}

/** Called once, at the top of the module a child process runs. */
export function serveChild<Boot, Ready>(handlers: ChildHandlers<Boot, Ready>): void {
  // A service manager signals all that belongs to the service; when this one ends is its owner's to say.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  // An owner that was killed says nothing more. No orderly exit: that would run the clean-up of native code in the middle of its work.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  const admin: ChildAdmin = {
    boot: (config) => handlers.boot(config as Boot), // `openChild` is the only one who sends it
    stats: () => ({ rssBytes: process.memoryUsage.rss() }),
    drain: () => handlers.drain(),
    stop: () => handlers.stop(),
    inject: async (fault) => handlers.inject(fault),
  }
  comlink.expose(
    admin,
    nodeEndpoint({
      postMessage: (message) => void process.send?.(message),
      on: (type, listener) => process.on(type, listener),
      off: (type, listener) => process.off(type, listener),
    }),
  )
}

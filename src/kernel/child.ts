// One incarnation of a child process as its owner holds it: the admin plane of a thread, around native code that may take its process along.
import { fork } from 'node:child_process'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { ThreadId } from './address.ts'
import { openAdminCalls } from './admin-calls.ts'
import type { ChildAdmin } from './child-entry.ts'
import type { Scheduler } from './clock.ts'
import type { DrainReport } from './drain.ts'
import type { ThreadExit } from './thread.ts'
import type { AdminAnswer } from './thread-admin.ts'

export type ChildSpec = {
  readonly id: ThreadId
  /** The module the process runs; see `moduleBeside`. */
  readonly url: URL
  readonly deadlinesMs?: Partial<Record<keyof ChildAdmin, number>>
}

export type Child<Boot, Ready> = {
  readonly id: ThreadId
  readonly incarnation: number
  readonly pid: number | null
  /** Settles when the process is gone, however it went. */
  readonly exited: Promise<ThreadExit>
  boot(config: Boot): Promise<AdminAnswer<Ready>>
  stats(): Promise<AdminAnswer<{ readonly rssBytes: number }>>
  drain(): Promise<AdminAnswer<DrainReport>>
  stop(): Promise<AdminAnswer<void>>
  inject(fault: string): Promise<AdminAnswer<void>>
  /** Kills the process, even one in an endless loop. Idempotent. */
  terminate(): Promise<void>
}

const DEADLINES_MS: Record<keyof ChildAdmin, number> = { boot: 30_000, stats: 2_000, drain: 60_000, stop: 5_000, inject: 2_000 }
/** As a shell says it of a process that a signal ended: this and the signal's number. */
const SIGNALLED = 128

export function openChild<Boot, Ready>(spec: ChildSpec, incarnation: number, scheduler: Scheduler): Child<Boot, Ready> {
  // Its standard output is nobody's: what a library prints must not stand among the lines of the command that runs the node.
  // A group of its own, since before its module runs, and in what that starts, Ctrl-C in the owner's terminal would end it.
  const child = fork(fileURLToPath(spec.url), { serialization: 'advanced', stdio: ['ignore', 'ignore', 'inherit', 'ipc'], detached: true })
  const admin = comlink.wrap<ChildAdmin>(
    nodeEndpoint({
      postMessage: (message) => void (child.connected && child.send(message)),
      on: (type, listener) => child.on(type, listener),
      off: (type, listener) => child.off(type, listener),
    }),
  )
  const calls = openAdminCalls(`process ${spec.id}`, scheduler)
  let isGone = false

  const exited = new Promise<ThreadExit>((resolve) => {
    const gone = (code: number, error: Error | null): void => {
      if (isGone) return
      isGone = true
      calls.end(`process ${spec.id} exited with code ${code}${error === null ? '' : `: ${error.message}`}`)
      resolve({ thread: spec.id, incarnation, code, error })
    }
    child.on('exit', (code, signal) => {
      if (signal === null) gone(code ?? 0, null)
      else gone(SIGNALLED + constants.signals[signal], new Error(`ended by ${signal}`))
    })
    // Also what could not be sent to a process that is about to be seen dead; one that never was has no exit.
    child.on('error', (error) => (child.pid === undefined ? gone(1, error) : null))
  })

  function call<T>(name: keyof ChildAdmin, run: () => Promise<T>): Promise<AdminAnswer<T>> {
    return calls.call(name, spec.deadlinesMs?.[name] ?? DEADLINES_MS[name], run)
  }

  return {
    id: spec.id,
    incarnation,
    pid: child.pid ?? null,
    exited,
    // The process's module and its owner agree on `Boot` and `Ready`; the plane between them is untyped.
    boot: (config) => call('boot', () => admin.boot(config) as Promise<Ready>),
    stats: () => call('stats', () => admin.stats()),
    drain: () => call('drain', () => admin.drain()),
    stop: () => call('stop', () => admin.stop()),
    inject: (fault) => call('inject', () => admin.inject(fault)),
    async terminate() {
      if (!isGone) child.kill('SIGKILL')
      await exited
    },
  }
}

// One incarnation of a worker thread as its owner holds it: calls that always settle, and an exit that is always seen.
import { MessageChannel, type ResourceLimits, Worker } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { ThreadId } from './address.ts'
import { openAdminCalls } from './admin-calls.ts'
import type { Scheduler } from './clock.ts'
import type { DrainReport } from './drain.ts'
import type { Kernel } from './kernel.ts'
import { openPortWire } from './port-wire.ts'
import type { AdminAnswer, ThreadAdmin, ThreadBirth, ThreadStats } from './thread-admin.ts'

export type ThreadSpec = {
  readonly id: ThreadId
  /** The module the thread runs; see `moduleBeside`. */
  readonly url: URL
  /** How many threads this one will be joined to. */
  readonly peers: number
  /** Absent: see `HEAP_LIMITS`. Shared and array buffers are not counted by them. */
  readonly resourceLimits?: ResourceLimits
  readonly deadlinesMs?: Partial<Record<keyof ThreadAdmin, number>>
}

export type ThreadExit = { readonly thread: ThreadId; readonly incarnation: number; readonly code: number; readonly error: Error | null }

export type Thread<Boot, Ready> = {
  readonly id: ThreadId
  readonly incarnation: number
  /** Settles when the worker is gone, however it went. */
  readonly exited: Promise<ThreadExit>
  join(peer: ThreadId, port: Parameters<ThreadAdmin['join']>[1]): Promise<AdminAnswer<void>>
  boot(config: Boot): Promise<AdminAnswer<Ready>>
  stats(): Promise<AdminAnswer<ThreadStats>>
  drain(): Promise<AdminAnswer<DrainReport>>
  stop(): Promise<AdminAnswer<void>>
  inject(fault: string): Promise<AdminAnswer<void>>
  /** Kills the worker, even one in an endless loop. Idempotent. */
  terminate(): Promise<void>
}

/** A worker does not take over the process's heap limit: without these it gets what Node finds fit. */
const HEAP_LIMITS: ResourceLimits = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 64, stackSizeMb: 4 }

const DEADLINES_MS: Record<keyof ThreadAdmin, number> = {
  // The first one waits for the thread's modules, which a busy machine takes its time to load.
  join: 60_000,
  boot: 60_000,
  stats: 2000,
  drain: 60_000,
  stop: 5000,
  inject: 2000,
}

/** The module `name` (without its ending) beside the one at `base`: TypeScript when run unbuilt, JavaScript when built. */
export function moduleBeside(name: string, base: string): URL {
  return new URL(`${name}${base.endsWith('.ts') ? '.ts' : '.js'}`, base)
}

export function openThread<Boot, Ready>(spec: ThreadSpec, incarnation: number, scheduler: Scheduler): Thread<Boot, Ready> {
  const { port1: ownPort, port2: itsPort } = new MessageChannel()
  const birth: ThreadBirth = { thread: spec.id, incarnation, peers: spec.peers, admin: itsPort }
  const worker = new Worker(spec.url, {
    name: spec.id,
    workerData: birth,
    transferList: [itsPort],
    resourceLimits: { ...HEAP_LIMITS, ...spec.resourceLimits },
  })
  const admin = comlink.wrap<ThreadAdmin>(nodeEndpoint(ownPort))
  const calls = openAdminCalls(`thread ${spec.id}`, scheduler)
  let exit: ThreadExit | null = null
  let lastError: Error | null = null

  // `process.exit` in the worker raises no `error`; only `exit` always comes.
  worker.on('error', (error) => {
    lastError = error instanceof Error ? error : new Error(String(error))
  })
  const exited = new Promise<ThreadExit>((resolve) => {
    worker.on('exit', (code) => {
      exit = { thread: spec.id, incarnation, code, error: lastError }
      ownPort.close()
      calls.end(messageOf(spec.id, exit))
      resolve(exit)
    })
  })

  function call<T>(name: keyof ThreadAdmin, run: () => Promise<T>): Promise<AdminAnswer<T>> {
    return calls.call(name, spec.deadlinesMs?.[name] ?? DEADLINES_MS[name], run)
  }

  return {
    id: spec.id,
    incarnation,
    exited,
    join: (peer, port) => call('join', () => admin.join(peer, comlink.transfer(port, [port]))),
    // The thread's module and its owner agree on `Boot` and `Ready`; the plane between them is untyped.
    boot: (config) => call('boot', () => admin.boot(config) as Promise<Ready>),
    stats: () => call('stats', () => admin.stats()),
    drain: () => call('drain', () => admin.drain()),
    stop: () => call('stop', () => admin.stop()),
    inject: (fault) => call('inject', () => admin.inject(fault)),
    async terminate() {
      if (exit === null) await worker.terminate()
      await exited
    },
  }
}

type Joinable = Pick<Thread<never, unknown>, 'id' | 'join'>

/** Gives two threads a fresh channel; false, with nothing left open, when one of them does not take it. */
export async function joinThreads(left: Joinable, right: Joinable): Promise<boolean> {
  const { port1, port2 } = new MessageChannel()
  const answers = await Promise.all([left.join(right.id, port1), right.join(left.id, port2)])
  const areJoined = answers.every((answer) => answer.ok)
  // An end that was never taken is still here, and would keep the other one open; closing one that left is a no-op.
  if (!areJoined) for (const port of [port1, port2]) port.close()
  return areJoined
}

/** Gives a thread and the kernel of this one a fresh channel; false, with nothing left open, when the thread does not take it. */
export async function joinKernel(kernel: Kernel, thread: Joinable): Promise<boolean> {
  const { port1, port2 } = new MessageChannel()
  kernel.connect(thread.id, openPortWire(port1))
  const answer = await thread.join(kernel.thread, port2)
  if (!answer.ok) port1.close()
  return answer.ok
}

function messageOf(thread: ThreadId, { code, error }: ThreadExit): string {
  return `thread ${thread} exited with code ${code}${error === null ? '' : `: ${error.message}`}`
}

// Where CPU tasks run: worker threads that may be killed, or this thread for simulations. Every task settles, whatever happens to its thread.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Piscina } from 'piscina'
import { buildTrajectory } from './build.ts'
import { finishSession } from './finish.ts'
import { packCompletions } from './pack.ts'
import type { CpuTasks, TaskError, TaskInput, TaskName, TaskOutput, TaskSettled } from './protocol.ts'
import { renderCompletions, renderResult, renderSession, renderTask, renderTraces } from './render.ts'

export type RunOptions = {
  /** Counted from now, waiting in line included; then the task's thread is killed. */
  readonly timeoutMs: number
  /** Buffers of the input that move to the worker instead of being copied. */
  readonly transfer?: readonly ArrayBuffer[]
}

export type CpuPool = {
  /** Never throws and never stays open: a task that cannot be answered settles with an error. */
  run<K extends TaskName>(name: K, input: TaskInput<K>, options: RunOptions): Promise<TaskSettled<TaskOutput<K>>>
  /** Settles everything that runs or waits with `closed` and ends the threads. Idempotent. */
  close(): Promise<void>
}

export type CpuPoolOptions = {
  readonly threads: number
  /** Tasks that may wait for a thread; one more is refused with `queue-full`. */
  readonly maxQueue: number
  /** Per thread. Tokens live outside the heap; this bounds messages and what a custom builder may allocate. */
  readonly maxHeapMb?: number
}

const DEFAULT_HEAP_MB = 512
/** The worker module beside this one: `.ts` in development, `.js` once built. */
const WORKER = fileURLToPath(new URL(`./worker${extname(import.meta.url)}`, import.meta.url))

export function openCpuPool({ threads, maxQueue, maxHeapMb = DEFAULT_HEAP_MB }: CpuPoolOptions): CpuPool {
  const piscina = new Piscina({
    filename: WORKER,
    minThreads: threads,
    maxThreads: threads,
    // Piscina does not count tasks with an abort signal against its own limit: `running` below is the bound.
    maxQueue: Number.POSITIVE_INFINITY,
    // A worker that sleeps in Atomics.wait could not answer the promises of an asynchronous task.
    atomics: 'disabled',
    recordTiming: false,
    resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 64, stackSizeMb: 4 },
  })
  // A thread that dies between tasks is replaced by piscina; one that dies in a task settles it as crashed.
  piscina.on('error', () => {})
  let closing: Promise<void> | null = null
  /**
   * Ends what still runs when the threads are gone, one entry per task. A promise that all tasks were raced against would hold the answer of
   * every one of them until the pool is closed.
   */
  const running = new Set<() => void>()

  async function run<K extends TaskName>(name: K, input: TaskInput<K>, options: RunOptions): Promise<TaskSettled<TaskOutput<K>>> {
    if (closing !== null) return failed('closed', 'the pool is closed')
    if (running.size >= threads + maxQueue) return failed('queue-full', `${threads} tasks run and ${maxQueue} wait`)
    const ended = Promise.withResolvers<null>()
    const end = (): void => ended.resolve(null)
    running.add(end)
    const cut = new AbortController()
    const timer = setTimeout(() => cut.abort(), options.timeoutMs)
    try {
      const task = piscina.run(input, { name, signal: cut.signal, transferList: [...(options.transfer ?? [])] })
      const value: { readonly answer: TaskOutput<K> } | null = await Promise.race([task.then((answer) => ({ answer })), ended.promise])
      return value === null ? failed('closed', 'the pool is closed') : { ok: true, value: value.answer }
    } catch (error) {
      if (closing !== null) return failed('closed', 'the pool is closed')
      if (cut.signal.aborted) return failed('timeout', `${name} took longer than ${options.timeoutMs} ms; its thread was killed`)
      return failed('crashed', `${name}: ${messageOf(error)}`)
    } finally {
      clearTimeout(timer)
      running.delete(end)
    }
  }

  return {
    run,
    close() {
      closing ??= piscina.destroy().finally(() => {
        for (const end of running) end()
      })
      return closing
    },
  }
}

/** The same tasks on the calling thread, for simulations: nothing can be cut short here, so `timeoutMs` is not kept. */
export function openInlineCpu(): CpuPool {
  const tasks: { readonly [K in TaskName]: (input: TaskInput<K>) => TaskOutput<K> | Promise<TaskOutput<K>> } = {
    buildTrajectory,
    finishSession,
    renderSession,
    renderResult,
    renderTraces,
    renderTask,
    packCompletions,
    renderCompletions,
  } satisfies { readonly [K in keyof CpuTasks]: unknown }
  let isClosed = false
  return {
    async run(name, input) {
      if (isClosed) return failed('closed', 'the pool is closed')
      try {
        const value = await tasks[name](input)
        return isClosed ? failed('closed', 'the pool is closed') : { ok: true, value }
      } catch (error) {
        return failed('crashed', `${name}: ${messageOf(error)}`)
      }
    },
    async close() {
      isClosed = true
    },
  }
}

const failed = (error: TaskError, detail: string): TaskSettled<never> => ({ ok: false, error, detail })

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

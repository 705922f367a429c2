// What a polar-node that was killed left running: stopped before its successor starts anything of its own.
import type { Runtime } from './runtime.ts'

export type Reaped = {
  readonly stopped: number
  /** Why a sandbox may still be there. */
  readonly problems: readonly string[]
}

/** Only for a process that knows it is the only one to use these runtimes' sandboxes. */
export async function stopLeftovers(runtimes: Iterable<Runtime>): Promise<Reaped> {
  const problems: string[] = []
  let stopped = 0
  for (const runtime of runtimes) {
    for (const sandbox of await runtime.list({})) {
      try {
        await runtime.stop(sandbox, { keepLogs: null })
        stopped += 1
      } catch (error) {
        problems.push(`sandbox ${sandbox.id} of an earlier process: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
  }
  return { stopped, problems }
}

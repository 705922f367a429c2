// Which runtime backends this node has, by the name a task asks for.
import { type LocalRuntimeOptions, openLocalRuntime } from './local.ts'
import type { Runtime } from './runtime.ts'

export type Runtimes = {
  readonly byName: ReadonlyMap<string, Runtime>
  /** Checks a task's `runtime.backend` when it is submitted: a problem in the caller's terms, or null. */
  check(backend: string): string | null
}

export function openRuntimes(options: { readonly local: LocalRuntimeOptions }): Runtimes {
  const local = openLocalRuntime(options.local)
  const byName = new Map<string, Runtime>([[local.backend, local]])
  return {
    byName,
    check(backend) {
      if (byName.has(backend)) return null
      const available = [...byName.keys()].map((name) => `'${name}'`).join(', ')
      return `runtime backend '${backend}' is not available on this node; available: ${available}`
    },
  }
}

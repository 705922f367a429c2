// Which agent harnesses this node knows: the built-in ones and the modules named in the operator's configuration.
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { claudeCodeHarness } from './claude-code.ts'
import { codexHarness } from './codex.ts'
import type { Harness } from './harness.ts'
import { piHarness } from './pi.ts'
import { shellHarness } from './shell.ts'

export type Harnesses = {
  readonly names: readonly string[]
  /** Null for a name nobody has. `import_path` is looked up among the names too: a task never names a module. */
  find(agent: AgentSpec): Harness | null
  /** Checks a task's `agent` when it is submitted: a problem in the caller's terms, or null. */
  check(agent: AgentSpec): string | null
}

const callable = z.custom<(...args: never) => unknown>((value) => typeof value === 'function', 'must be a function')

/** What a custom module must export as `harness`. */
const harnessShape = z.object({ dialect: z.string(), check: callable, plan: callable, verdict: callable })

const BUILT_IN: readonly Harness[] = [shellHarness, piHarness, codexHarness, claudeCodeHarness]

/** `customs`: harness name to absolute module path. Throws, naming the module, when one cannot be used: the node must not start. */
export async function loadHarnesses(customs: Readonly<Record<string, string>>): Promise<Harnesses> {
  const byName = new Map<string, Harness>(BUILT_IN.map((harness) => [harness.name, harness]))
  for (const [name, path] of Object.entries(customs)) byName.set(name, await loadCustom(name, path))

  const find = (agent: AgentSpec): Harness | null => byName.get(agent.harness ?? agent.import_path ?? '') ?? null
  return {
    names: [...byName.keys()],
    find,
    check(agent) {
      const harness = find(agent)
      if (harness !== null) return harness.check(agent)
      const known = [...byName.keys()].map((name) => `'${name}'`).join(', ')
      if (agent.import_path !== undefined) {
        return `agent.import_path '${agent.import_path}' is not among the harnesses named in this node's configuration; known: ${known}`
      }
      return `agent.harness '${agent.harness}' is not known on this node; known: ${known}`
    },
  }
}

async function loadCustom(name: string, path: string): Promise<Harness> {
  const loaded: unknown = await import(pathToFileURL(path).href)
  const parsed = z.object({ harness: harnessShape }).safeParse(loaded)
  if (!parsed.success) throw new Error(`custom harness '${name}' (${path}): ${z.prettifyError(parsed.error)}`)
  // The shape was checked as far as a running program can; the operator vouches for the rest.
  const { harness } = loaded as { readonly harness: Harness }
  return {
    name,
    dialect: harness.dialect,
    check: (agent) => harness.check(agent),
    plan: (context) => harness.plan(context),
    verdict: (output) => harness.verdict(output),
  }
}

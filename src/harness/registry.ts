// Which agent harnesses this node knows: the built-in ones and the modules named in the operator's configuration.
import type { AgentSpec } from '../contract/task.ts'
import { claudeCodeHarness } from './claude-code.ts'
import { codexHarness } from './codex.ts'
import { loadCustomHarness } from './custom.ts'
import { geminiCliHarness } from './gemini-cli.ts'
import type { Harness } from './harness.ts'
import { opencodeHarness } from './opencode.ts'
import { piHarness } from './pi.ts'
import { qwenCodeHarness } from './qwen-code.ts'
import { shellHarness } from './shell.ts'

export type Harnesses = {
  readonly names: readonly string[]
  /** Null for a name nobody has. `import_path` is looked up among the names too: a task never names a module. */
  find(agent: AgentSpec): Harness | null
  /** Checks a task's `agent` when it is submitted: a problem in the caller's terms, or null. */
  check(agent: AgentSpec): string | null
}

const BUILT_IN: readonly Harness[] = [
  shellHarness,
  piHarness,
  codexHarness,
  claudeCodeHarness,
  geminiCliHarness,
  qwenCodeHarness,
  opencodeHarness,
]

/** `customs`: harness name to absolute module path. Throws, naming the module, when one cannot be used: the node must not start. */
export async function loadHarnesses(customs: Readonly<Record<string, string>>): Promise<Harnesses> {
  const byName = new Map<string, Harness>(BUILT_IN.map((harness) => [harness.name, harness]))
  for (const [name, path] of Object.entries(customs)) byName.set(name, await loadCustomHarness(name, path))

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

// An image that brings an agent CLI along: a folder for the PATH, in which the CLI stands under its own name.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type AgentPackage, installedAgent } from '../../src/harness/agent-folder.ts'
import type { HarnessContext } from '../../src/harness/harness.ts'
import { loadHarnesses } from '../../src/harness/registry.ts'
import { agentOf, contextOf, planOf } from '../lib/harness-context.ts'

const root = resolve(import.meta.dirname, '../..')

/** This node's own copy of a CLI, by the name of its package. */
const ownCopy = (name: string): AgentPackage | null => installedAgent(join(root, 'agents'), join(root, '.cache/agents'), name)

export type Image = {
  /** What the agent needs in its environment to find the CLI. */
  readonly env: { readonly PATH: string }
  readonly version: string
}

/** In `folder`, of the copy that is installed. */
export async function openImage(harness: string, settings: Readonly<Record<string, unknown>>, folder: string): Promise<Image> {
  const preset = (await loadHarnesses({})).find(agentOf({ harness }))
  if (preset === null) throw new Error(`there is no harness '${harness}'`)
  const packages: AgentPackage[] = []
  const startOf = (installed: HarnessContext['installedAgent']): string => {
    const { run } = planOf(preset, contextOf({ harness, settings }, { installedAgent: installed }))
    return /^exec ((?:'[^']*' )+)/.exec(run.command)?.[1]?.trim() ?? ''
  }
  const own = startOf((name) => {
    const found = ownCopy(name)
    if (found !== null) packages.push(found)
    return found
  })
  const [{ version } = { version: '' }] = packages
  const command = startOf(() => null).replaceAll("'", '')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, command), `#!/bin/sh\nexec ${own} "$@"\n`)
  chmodSync(join(folder, command), 0o755)
  return { env: { PATH: `${folder}:${process.env.PATH}` }, version }
}

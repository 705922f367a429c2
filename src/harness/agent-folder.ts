// Where an installed agent CLI lies: one folder per pinned version and lock file, so that a changed pin is never served by an old install.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type AgentPackage = {
  readonly version: string
  /** Complete as soon as it exists: it is renamed into place. */
  readonly folder: string
}

/** `packages` holds a folder per agent with its package.json and lock file. Null when there is none of that name. */
export function agentPackage(packages: string, cache: string, name: string): AgentPackage | null {
  if (!/^[a-z0-9-]+$/.test(name)) return null
  const manifest = join(packages, name, 'package.json')
  const lock = join(packages, name, 'package-lock.json')
  if (!existsSync(manifest) || !existsSync(lock)) return null
  const { version }: { readonly version: string } = JSON.parse(readFileSync(manifest, 'utf8'))
  const hash = createHash('sha256').update(readFileSync(lock)).digest('hex').slice(0, 12)
  return { version, folder: join(cache, `${name}-${version}-${hash}`) }
}

/** The package of an agent that is installed, or null. */
export function installedAgent(packages: string, cache: string, name: string): AgentPackage | null {
  const known = agentPackage(packages, cache, name)
  return known !== null && existsSync(known.folder) ? known : null
}

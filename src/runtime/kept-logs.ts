// The logs of ended sandboxes on this host: no more of them than the operator wants, the oldest removed first.
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

export type KeptLogs = {
  /** Where the logs of that name belong, or null when none are kept. */
  folderFor(name: string): string | null
  /** They are there now: what is over the limit is removed. Never rejects: logs are not worth a session. */
  keep(name: string): Promise<void>
}

/** `<session>.<attempt>`; whatever else lies in the folder is not ours to remove. */
const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]*\.\d+$/

/** Looks into the folder once, at its opening; from then on it knows what is there. */
export function openKeptLogs(folder: string, max: number): KeptLogs {
  /** Oldest first. */
  const names = new Set<string>()
  let work = recall()

  async function recall(): Promise<void> {
    for (const name of await namesByAge(folder)) names.add(name)
    await trim()
  }

  async function trim(): Promise<void> {
    for (const oldest of names) {
      if (names.size <= max) return
      names.delete(oldest)
      await rm(join(folder, oldest), { recursive: true, force: true }).catch(() => {})
    }
  }

  return {
    folderFor: (name) => (max === 0 || !NAME_PATTERN.test(name) ? null : join(folder, name)),
    keep(name) {
      if (!NAME_PATTERN.test(name)) return work
      work = work.then(() => {
        names.delete(name)
        names.add(name)
        return trim()
      })
      return work
    },
  }
}

async function namesByAge(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  const found: { readonly name: string; readonly changedAtMs: number }[] = []
  for (const entry of entries) {
    if (!entry.isDirectory() || !NAME_PATTERN.test(entry.name)) continue
    const seen = await stat(join(folder, entry.name)).catch(() => null)
    if (seen !== null) found.push({ name: entry.name, changedAtMs: seen.mtimeMs })
  }
  return found.sort((a, b) => a.changedAtMs - b.changedAtMs).map(({ name }) => name)
}

// The data folder belongs to one process at a time: a second one would take the first one's sandboxes for leftovers.
import { access, constants, mkdir, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startTicksOf } from './runtime/process-tree.ts'

export type DataFolderLock =
  | {
      readonly ok: true
      /** Idempotent. */
      unlock(): Promise<void>
    }
  | { readonly ok: false; readonly problem: string }

/** The name holds it all: a claim is complete as soon as it exists, and no two processes can mean the same file. */
const CLAIM_PATTERN = /^lock-(\d+)-(\d+)$/

/** Folders that this process holds: its own claim looks like a stale one with its pid. */
const held = new Set<string>()

/**
 * Makes the folder where there is none. Claims it first and looks for other claims second, so that of two processes that start together at least one sees the other.
 * A claim is stale when its process is gone; a start time tells a reused pid apart.
 */
export async function lockDataFolder(path: string): Promise<DataFolderLock> {
  let folder: string
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
    folder = await realpath(path)
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    return { ok: false, problem: `polar_node.data_dir: ${path} ${unusable(error)}` }
  }
  if (held.has(folder)) return { ok: false, problem: inUse(path, process.pid) }
  held.add(folder)
  const own = `lock-${process.pid}-${startTicksOf(process.pid) ?? 0}`
  const unlock = async (): Promise<void> => {
    if (held.delete(folder)) await rm(join(folder, own), { force: true })
  }
  try {
    await writeFile(join(folder, own), '', { mode: 0o600 })
    for (const name of await readdir(folder)) {
      const [, pid, startTicks] = CLAIM_PATTERN.exec(name) ?? []
      if (pid === undefined || name === own) continue
      if (startTicksOf(Number(pid)) === Number(startTicks)) {
        await unlock()
        return { ok: false, problem: inUse(path, Number(pid)) }
      }
      await rm(join(folder, name), { force: true })
    }
    return { ok: true, unlock }
  } catch (error) {
    await unlock()
    throw error
  }
}

function unusable(error: unknown): string {
  switch (error instanceof Error && 'code' in error ? error.code : null) {
    case 'EEXIST':
      return 'is a file, not a folder'
    case 'ENOTDIR':
      return 'lies under a file, not under a folder'
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return 'may not be made or written by this user'
    default:
      return `cannot be used: ${error instanceof Error ? error.message : String(error)}`
  }
}

function inUse(path: string, pid: number): string {
  return `the data folder ${path} is in use by process ${pid}: stop that node first, or set polar_node.data_dir to another folder`
}

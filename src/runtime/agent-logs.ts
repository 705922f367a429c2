// What an agent CLI wrote down in its home: copied out when nothing of it runs any more, bounded, and never by way of a link.
import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, mkdir, opendir, realpath, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isUnder } from './sandbox-folder.ts'

export type LogBounds = {
  readonly files: number
  readonly bytes: number
  /** Names looked at: an agent may have filled its log folder with anything. */
  readonly names: number
}

const BOUNDS: LogBounds = { files: 500, bytes: 32 * 1024 * 1024, names: 20_000 }

/** Says what was left out because of the bounds. */
const LEFT_OUT = 'left-out.txt'

type LogFile = { readonly path: string; readonly size: number; readonly changedAtMs: number }

/**
 * Copies the files and folders at `paths` that lie under `home`, a real path, to the same places under `target`. Where the bounds do not
 * allow all of them the newest are taken. Never rejects: logs are not worth a session.
 */
export async function collectLogs(home: string, paths: readonly string[], target: string, bounds: LogBounds = BOUNDS): Promise<void> {
  const { files, isComplete } = await findFiles(home, paths, bounds.names)
  const leftOut = isComplete ? [] : [`whatever came after ${bounds.names} names`]
  let [count, bytes] = [0, 0]
  for (const { path, size } of files.toSorted((one, other) => other.changedAtMs - one.changedAtMs)) {
    const name = relative(home, path)
    if (count === bounds.files || bytes + size > bounds.bytes) {
      leftOut.push(`${name}: ${size} bytes`)
      continue
    }
    await copy(path, size, join(target, name)).catch(() => {})
    count += 1
    bytes += size
  }
  if (leftOut.length === 0) return
  await mkdir(target, { recursive: true, mode: 0o700 }).catch(() => {})
  await writeFile(join(target, LEFT_OUT), `${leftOut.join('\n')}\n`, { mode: 0o600 }).catch(() => {})
}

async function findFiles(
  home: string,
  paths: readonly string[],
  maxNames: number,
): Promise<{ readonly files: readonly LogFile[]; readonly isComplete: boolean }> {
  const files: LogFile[] = []
  const open = paths.filter((path) => path !== home && isUnder(path, home))
  let isComplete = true
  for (let looked = 0; ; looked += 1) {
    const path = open.shift()
    if (path === undefined) return { files, isComplete }
    if (looked === maxNames) return { files, isComplete: false }
    // Neither it nor a folder on the way is a link.
    if ((await realpath(path).catch(() => null)) !== path) continue
    const stat = await lstat(path).catch(() => null)
    // A file with a second name may be one of anybody's.
    if (stat?.isFile() && stat.nlink === 1) files.push({ path, size: stat.size, changedAtMs: stat.mtimeMs })
    if (!stat?.isDirectory()) continue
    const names = await namesIn(path, maxNames - looked - open.length)
    open.push(...names.found)
    isComplete &&= names.isComplete
  }
}

/** A folder with more names than may be looked at is not read to its end: they would not fit into memory either. */
async function namesIn(folder: string, most: number): Promise<{ readonly found: readonly string[]; readonly isComplete: boolean }> {
  const found: string[] = []
  try {
    for await (const { name } of await opendir(folder)) {
      if (found.length >= most) return { found, isComplete: false }
      found.push(join(folder, name))
    }
  } catch {
    // What cannot be read is no log.
  }
  return { found, isComplete: true }
}

async function copy(path: string, size: number, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  if (size === 0) return writeFile(target, '', { mode: 0o600 })
  // `end` counts inclusively; of a file that somebody still writes no more is taken than was counted.
  await pipeline(createReadStream(path, { start: 0, end: size - 1 }), createWriteStream(target, { mode: 0o600 }))
}

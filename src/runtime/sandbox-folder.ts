// The folder of one local sandbox: its layout, its label file, and which host path a path seen from inside stands for.
import { lstat, mkdir, readdir, readFile, realpath, rename, writeFile } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { z } from 'zod'
import { ticksNow } from './process-tree.ts'
import type { SandboxRef, SandboxSpec } from './runtime.ts'

export const LOCAL = 'local'

/** Absolute working directories mean the sandbox's workspace; this name always does. */
const WORKSPACE_NAME = '/workspace'

const ID_PATTERN = /^sbx-[0-9a-f]{16}$/

const recordSchema = z.object({
  labels: z.record(z.string(), z.string()),
  /** As the task asked for it; null when it did not. */
  wantedWorkdir: z.string().nullable(),
  env: z.record(z.string(), z.string()),
  /** No process of the sandbox is older: clock ticks since boot. */
  bornTicks: z.number(),
})

/** For a folder whose label file was never finished or was destroyed: it is still ours to stop. */
export const NO_RECORD: z.infer<typeof recordSchema> = { labels: {}, wantedWorkdir: null, env: {}, bornTicks: 0 }

export type SandboxRecord = z.infer<typeof recordSchema>

export type Located = { readonly ok: true; readonly path: string } | { readonly ok: false; readonly detail: string }

/** The id names a folder: nothing else than the id may ever decide which folder is removed. */
export function folderOf(root: string, id: string): string | null {
  return ID_PATTERN.test(id) ? join(root, id) : null
}

export const controlFolder = (folder: string): string => join(folder, 'control')
export const logsFolder = (folder: string): string => join(folder, 'logs')

export async function createFolder(root: string, id: string, spec: SandboxSpec): Promise<SandboxRef> {
  await mkdir(root, { recursive: true, mode: 0o700 })
  const folder = join(await realpath(root), id)
  await mkdir(folder, { mode: 0o700 })
  for (const name of ['home', 'tmp', 'workspace', 'logs', 'control']) await mkdir(join(folder, name), { mode: 0o700 })
  const record: SandboxRecord = { labels: spec.labels, wantedWorkdir: spec.workdir, env: spec.env, bornTicks: ticksNow() }
  const ref = refOf(folder, record)
  await mkdir(ref.workdir, { recursive: true, mode: 0o700 })
  await writeFile(join(controlFolder(folder), 'sandbox.json.new'), JSON.stringify(record), { mode: 0o600 })
  await rename(join(controlFolder(folder), 'sandbox.json.new'), join(controlFolder(folder), 'sandbox.json'))
  return ref
}

/** Null for a folder that is gone or is not a finished sandbox of ours. */
export async function readRecord(folder: string): Promise<SandboxRecord | null> {
  const text = await readFile(join(controlFolder(folder), 'sandbox.json'), 'utf8').catch(() => null)
  if (text === null) return null
  try {
    return recordSchema.parse(JSON.parse(text))
  } catch {
    return null
  }
}

export async function listFolders(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => [])
  const real = await realpath(root).catch(() => root)
  return entries.filter((entry) => entry.isDirectory() && ID_PATTERN.test(entry.name)).map((entry) => join(real, entry.name))
}

export function refOf(folder: string, record: SandboxRecord): SandboxRef {
  const wanted = record.wantedWorkdir
  const workspace = join(folder, 'workspace')
  const inside = wanted === null || isAbsolute(wanted) ? workspace : resolve(workspace, wanted)
  return {
    backend: LOCAL,
    id: basename(folder),
    labels: record.labels,
    folder,
    workdir: isUnder(inside, workspace) ? inside : workspace,
    home: join(folder, 'home'),
  }
}

/**
 * The host path for a path as seen from inside: relative to the working directory; absolute under `/workspace` or under the task's own
 * absolute working directory; or already a host path in the sandbox. Symbolic links are followed and must not lead out of the sandbox.
 */
export async function locate(ref: SandboxRef, record: SandboxRecord, path: string): Promise<Located> {
  if (path.includes('\0')) return { ok: false, detail: 'a path must not contain a NUL character' }
  const plain = isAbsolute(path) ? fromInside(ref, record, resolve(path)) : resolve(ref.workdir, path)
  const real = await realpathOfDeepest(plain)
  if (real === null) return { ok: false, detail: `'${path}' is or passes a symbolic link to nothing` }
  const allowed = ['home', 'tmp', 'workspace', 'logs'].map((name) => join(ref.folder, name))
  if (allowed.some((area) => isUnder(real, area))) return { ok: true, path: real }
  return { ok: false, detail: `'${path}' does not lie in the sandbox` }
}

export function isUnder(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

function fromInside(ref: SandboxRef, record: SandboxRecord, path: string): string {
  const wanted = record.wantedWorkdir
  const names = wanted !== null && isAbsolute(wanted) ? [resolve(wanted), WORKSPACE_NAME] : [WORKSPACE_NAME]
  for (const name of names) {
    if (isUnder(path, name)) return join(ref.folder, 'workspace', path.slice(name.length))
  }
  return path
}

/** `realpath` of the part that exists, with the rest appended: a file that will be created has no real path yet. */
async function realpathOfDeepest(path: string): Promise<string | null> {
  const missing: string[] = []
  for (let current = path; ; current = dirname(current)) {
    const real = await realpath(current).catch(() => null)
    if (real !== null) return join(real, ...missing)
    // What exists without a real path is a link to nothing: a write would follow it.
    if ((await lstat(current).catch(() => null)) !== null || dirname(current) === current) return null
    missing.unshift(basename(current))
  }
}

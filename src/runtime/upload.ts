// Copying a host file or folder into a sandbox: only from under an upload root, links copied as links.
import { lstatSync, realpathSync } from 'node:fs'
import { cp, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Fallible } from './runtime.ts'
import { isUnder } from './sandbox-folder.ts'

type UploadKind = 'upload_file' | 'upload_dir'

/** `target` is a host path already known to lie in the sandbox. */
export async function upload(kind: UploadKind, source: string, target: string, uploadRoots: readonly string[]): Promise<Fallible<null>> {
  const found = findSource(kind, source, uploadRoots)
  if (!found.ok) {
    const detail = found.advice === null ? found.detail : `${found.detail}: ${found.advice}`
    return { ok: false, error: { code: 'upload-refused', detail } }
  }
  try {
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await cp(found.path, target, { recursive: kind === 'upload_dir', verbatimSymlinks: true, preserveTimestamps: true })
    return { ok: true, value: null }
  } catch (error) {
    return { ok: false, error: { code: 'upload-failed', detail: `'${source}': ${error instanceof Error ? error.message : String(error)}` } }
  }
}

/** Why no folder can be uploaded from there as it is now, or null: for a setting of a submitted task that names one, and is no upload itself. */
export function folderProblem(source: string, uploadRoots: readonly string[]): string | null {
  const found = findSource('upload_dir', source, uploadRoots)
  return found.ok ? null : found.detail
}

/** `advice`: which upload takes what stands there. */
type Source =
  | { readonly ok: true; readonly path: string }
  | { readonly ok: false; readonly detail: string; readonly advice: 'use upload_dir' | 'use upload_file' | null }

function findSource(kind: UploadKind, source: string, uploadRoots: readonly string[]): Source {
  const real = realPath(source)
  const roots = uploadRoots.map(realPath)
  // A source that does not exist is refused in the same words: the answer must not tell what lies outside the roots.
  if (real === null || !roots.some((root) => root !== null && isUnder(real, root))) {
    const isClosed = uploadRoots.length === 0
    const detail = isClosed
      ? 'this node allows no uploads: set polar_node.upload_roots'
      : `'${source}' is no file or folder under upload_roots`
    return { ok: false, detail, advice: null }
  }
  const isFolder = lstatSync(real, { throwIfNoEntry: false })?.isDirectory() === true
  if (isFolder === (kind === 'upload_dir')) return { ok: true, path: real }
  return isFolder
    ? { ok: false, detail: `'${source}' is a folder`, advice: 'use upload_dir' }
    : { ok: false, detail: `'${source}' is no folder`, advice: 'use upload_file' }
}

function realPath(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

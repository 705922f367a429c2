// Copying a host file or folder into a sandbox: only from under an upload root, links copied as links.
import { cp, lstat, mkdir, realpath } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Fallible } from './runtime.ts'
import { isUnder } from './sandbox-folder.ts'

/** `target` is a host path already known to lie in the sandbox. */
export async function upload(
  kind: 'upload_file' | 'upload_dir',
  source: string,
  target: string,
  uploadRoots: readonly string[],
): Promise<Fallible<null>> {
  const real = await realpath(source).catch(() => null)
  const roots = await Promise.all(uploadRoots.map((root) => realpath(root).catch(() => null)))
  // A source that does not exist is refused in the same words: the answer must not tell what lies outside the roots.
  if (real === null || !roots.some((root) => root !== null && isUnder(real, root))) {
    const why =
      uploadRoots.length === 0
        ? 'this node allows no uploads: set polar_node.upload_roots'
        : `'${source}' is no file or folder under upload_roots`
    return { ok: false, error: { code: 'upload-refused', detail: why } }
  }
  try {
    const isFolder = (await lstat(real)).isDirectory()
    if (isFolder !== (kind === 'upload_dir')) {
      return {
        ok: false,
        error: { code: 'upload-refused', detail: `'${source}' is ${isFolder ? 'a folder: use upload_dir' : 'no folder: use upload_file'}` },
      }
    }
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await cp(real, target, { recursive: isFolder, verbatimSymlinks: true, preserveTimestamps: true })
    return { ok: true, value: null }
  } catch (error) {
    return { ok: false, error: { code: 'upload-failed', detail: `'${source}': ${error instanceof Error ? error.message : String(error)}` } }
  }
}

// Reading files that an agent may have written: bounded, and never through a symbolic link put in their place.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

export type Tail = { readonly text: string; readonly truncated: boolean }

/** The last `maxBytes` of a file, decoded as UTF-8 with replacement; empty when there is no such file. */
export async function readTail(file: string, maxBytes: number): Promise<Tail> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
  if (handle === null) return { text: '', truncated: false }
  try {
    const { size } = await handle.stat()
    const bytes = await readRange(handle, Math.max(0, size - maxBytes), Math.min(size, maxBytes))
    return { text: bytes.toString('utf8'), truncated: size > maxBytes }
  } finally {
    await handle.close()
  }
}

export type Bounded = { readonly ok: true; readonly bytes: Uint8Array } | { readonly ok: false; readonly detail: string }

/** A whole file of at most `maxBytes`. */
export async function readBounded(file: string, maxBytes: number): Promise<Bounded> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error: unknown) => String(error))
  if (typeof handle === 'string') return { ok: false, detail: handle }
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) return { ok: false, detail: 'not a regular file' }
    if (stat.size > maxBytes) return { ok: false, detail: `${stat.size} bytes, more than the ${maxBytes} allowed` }
    return { ok: true, bytes: await readRange(handle, 0, stat.size) }
  } finally {
    await handle.close()
  }
}

async function readRange(handle: FileHandle, from: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, from + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}

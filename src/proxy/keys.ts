// The keys of open doors: only their SHA-256 is kept, and a lookup tells nothing about how near a guess was.
import { createHash, timingSafeEqual } from 'node:crypto'

export type KeyRing<T> = {
  add(key: string, holder: T): void
  find(key: string): T | null
  remove(holder: T): void
}

type Entry<T> = { readonly digest: Buffer; readonly holder: T }

export function openKeyRing<T>(): KeyRing<T> {
  const entries = new Map<string, Entry<T>>()
  return {
    add(key, holder) {
      const digest = digestOf(key)
      entries.set(digest.toString('hex'), { digest, holder })
    },
    find(key) {
      const digest = digestOf(key)
      // The map is keyed by a hash nobody can steer, so its own comparisons leak nothing of a key.
      const entry = entries.get(digest.toString('hex'))
      return entry !== undefined && timingSafeEqual(entry.digest, digest) ? entry.holder : null
    },
    remove(holder) {
      for (const [name, entry] of entries) if (entry.holder === holder) entries.delete(name)
    },
  }
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

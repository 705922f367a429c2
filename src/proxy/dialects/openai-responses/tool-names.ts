// The name under which an engine knows a tool of a namespace: the same in every request, and one that every engine takes.
import { createHash } from 'node:crypto'

const TAKEN_BY_ENGINES = /^[A-Za-z0-9_-]{1,64}$/
const MAX_CHARS = 64
const HASH_CHARS = 8

/** Depends on nothing but the two names, so that history is named alike when the tool list no longer holds the tool. */
export function memberName(namespace: string, name: string): string {
  const joined = `${namespace}__${name}`
  if (TAKEN_BY_ENGINES.test(joined)) return joined
  const hash = createHash('sha256')
    .update(JSON.stringify([namespace, name]))
    .digest('hex')
    .slice(0, HASH_CHARS)
  return `${joined.replaceAll(/[^A-Za-z0-9_-]/gu, '_').slice(0, MAX_CHARS - HASH_CHARS - 1)}_${hash}`
}

/** A tool's name as the engine knows it; tools outside a namespace keep theirs. */
export function engineName(namespace: string | null, name: string): string {
  return namespace === null ? name : memberName(namespace, name)
}

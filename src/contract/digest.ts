// The digest of a JSON value that does not depend on the order of its keys.
import { createHash } from 'node:crypto'

/** SHA-256 in hexadecimal of the value's canonical JSON text: keys sorted, `undefined` members left out. */
export function canonicalDigest(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(value)))
    .digest('hex')
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (value === null || typeof value !== 'object') return value
  // Entries of a null-prototype object: a key named `__proto__` stays an ordinary key.
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([key, member]) => [key, sorted(member)] as const)
  const object: Record<string, unknown> = Object.create(null)
  for (const [key, member] of members) object[key] = member
  return object
}

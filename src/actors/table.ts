// A persistent map from strings: a change copies one small bucket, so a pure step over thousands of entries stays cheap.
import { itemAt, itemsOf, type Roster, rosterOf, withItem } from './roster.ts'

const BUCKETS = 1024

export type Table<K extends string, V> = { readonly size: number; readonly buckets: Roster<ReadonlyMap<K, V> | undefined> }

export function emptyTable<K extends string, V>(): Table<K, V> {
  return { size: 0, buckets: rosterOf(new Array<undefined>(BUCKETS).fill(undefined)) }
}

export function lookUp<K extends string, V>(table: Table<K, V>, key: K): V | undefined {
  return itemAt(table.buckets, bucketOf(key))?.get(key)
}

export function insert<K extends string, V>(table: Table<K, V>, key: K, value: V): Table<K, V> {
  const position = bucketOf(key)
  const old = itemAt(table.buckets, position)
  const bucket = new Map(old)
  bucket.set(key, value)
  return { size: table.size + (old?.has(key) === true ? 0 : 1), buckets: withItem(table.buckets, position, bucket) }
}

export function remove<K extends string, V>(table: Table<K, V>, key: K): Table<K, V> {
  const position = bucketOf(key)
  const old = itemAt(table.buckets, position)
  if (old?.has(key) !== true) return table
  const bucket = new Map(old)
  bucket.delete(key)
  return { size: table.size - 1, buckets: withItem(table.buckets, position, bucket.size === 0 ? undefined : bucket) }
}

/** In no order that means anything. */
export function* values<K extends string, V>(table: Table<K, V>): Generator<V> {
  for (const bucket of itemsOf(table.buckets)) if (bucket !== undefined) yield* bucket.values()
}

/** FNV-1a: ids share prefixes, so every character must count. */
function bucketOf(key: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < key.length; i += 1) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash >>> 0) % BUCKETS
}

// The persistent table against a Map, and its promise that an older version never changes.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { itemsOf } from '../../src/actors/roster.ts'
import { emptyTable, insert, lookUp, remove, type Table } from '../../src/actors/table.ts'

const operation = fc.record({ key: fc.integer({ min: 0, max: 30 }).map((n) => `sk-polar-${n}`), value: fc.option(fc.integer()) })

it('holds what a Map holds, in every version of it', () => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 100 }), (operations) => {
      const map = new Map<string, number>()
      let table: Table<string, number> = emptyTable()
      const versions: (readonly [Table<string, number>, ReadonlyMap<string, number>])[] = []
      for (const { key, value } of operations) {
        if (value === null) map.delete(key)
        else map.set(key, value)
        table = value === null ? remove(table, key) : insert(table, key, value)
        versions.push([table, new Map(map)])
      }
      for (const [version, expected] of versions) {
        expect(version.size).toBe(expected.size)
        for (let n = 0; n <= 30; n += 1) expect(lookUp(version, `sk-polar-${n}`)).toBe(expected.get(`sk-polar-${n}`))
      }
    }),
    { numRuns: 100 },
  )
})

it('spreads session ids over its buckets', () => {
  let table: Table<string, number> = emptyTable()
  for (let i = 0; i < 10_000; i += 1) table = insert(table, `sk-polar-00000000-0000-4000-8000-${String(i).padStart(12, '0')}`, i)
  expect(Math.max(...itemsOf(table.buckets).map((bucket) => bucket?.size ?? 0))).toBeLessThan(40)
})

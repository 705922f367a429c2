// The persistent list against an array, and its promise that an older version never changes and a change copies little.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { itemAt, itemsOf, mapItems, type Roster, rosterOf, withItem } from '../../src/actors/roster.ts'

it('holds what an array holds, in every version of it', () => {
  const changes = fc.array(fc.tuple(fc.nat(99), fc.integer()), { maxLength: 40 })
  fc.assert(
    fc.property(fc.array(fc.integer(), { minLength: 1, maxLength: 100 }), changes, (items, list) => {
      let array = items
      let roster = rosterOf(items)
      const versions: (readonly [Roster<number>, readonly number[]])[] = [[roster, array]]
      for (const [at, item] of list) {
        array = array.with(at % items.length, item)
        roster = withItem(roster, at % items.length, item)
        versions.push([roster, array])
      }
      for (const [version, expected] of versions) {
        expect(version.length).toBe(expected.length)
        expect(itemsOf(version)).toEqual(expected)
        expect(expected.map((_, i) => itemAt(version, i))).toEqual(expected)
        expect(itemAt(version, expected.length)).toBeUndefined()
        expect(itemsOf(mapItems(version, (item) => item + 1))).toEqual(expected.map((item) => item + 1))
      }
    }),
    { numRuns: 100 },
  )
})

it('shares with the version before it all but one chunk, however long it is', () => {
  const before = rosterOf(Array.from({ length: 4_096 }, (_, i) => i))
  const after = withItem(before, 2_000, -1)
  const copied = after.chunks.filter((chunk, i) => chunk !== before.chunks[i])
  expect(copied.map((chunk) => chunk.length)).toEqual([32])
})

it('has no place beyond its length', () => {
  expect(() => withItem(rosterOf([1, 2, 3]), 32, 4)).toThrow(RangeError)
  expect(() => withItem(rosterOf([1, 2, 3]), 3, 4)).toThrow(RangeError)
})

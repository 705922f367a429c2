import { describe, expect, it } from 'vitest'
import { hold, holdOne, Places } from '../../src/engine/embedded/places.ts'

/** Puts each of these into a place of its own, the first the longest ago. */
function placesHolding(count: number, ...held: readonly (readonly number[])[]): Places {
  const places = new Places(count, 16)
  const taken = held.map((ids) => {
    const place = places.take(Int32Array.from([]))?.place
    if (place === undefined) throw new Error('no place')
    hold(place, Int32Array.from(ids))
    return place
  })
  for (const place of taken) places.giveBack(place)
  return places
}

describe('the place a prompt gets', () => {
  it.each<[string, readonly (readonly number[])[], readonly number[], number, number]>([
    ['the one that holds most of it', [[1, 2], [1, 2, 3], [1]], [1, 2, 3, 4], 1, 3],
    [
      'the one left alone the longest when none holds any of it',
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      [9],
      0,
      0,
    ],
    ['the one left alone the longest among equals', [[7], [1, 2], [1, 2]], [1, 2, 5], 1, 2],
    ['the one it continues, though its last words differ', [[7], [8], [1, 2, 3, 4]], [1, 2, 3, 9], 2, 3],
    [
      'the one left alone the longest, when all hold more that would be lost',
      [
        [1, 2, 3],
        [1, 2, 3, 4],
        [1, 2, 3, 5],
      ],
      [1, 2, 9],
      0,
      2,
    ],
    ['one that holds more than it', [[7], [1, 2, 3, 4], [8]], [1, 2, 3], 1, 3],
    ['an empty one rather than one that parts early', [[1, 8, 9]], [1, 2], 1, 0],
  ])('is %s', (_, held, prompt, index, shared) => {
    const taken = placesHolding(3, ...held).take(Int32Array.from(prompt))
    expect([taken?.place.index, taken?.shared]).toEqual([index, shared])
  })

  it('is nobody else’s until it is given back', () => {
    const places = placesHolding(2, [1, 2, 3], [4])
    const first = places.take(Int32Array.from([1, 2, 3]))
    const second = places.take(Int32Array.from([1, 2, 3]))
    expect([first?.place.index, second?.place.index, second?.shared]).toEqual([0, 1, 0])
    expect(places.take(Int32Array.from([1]))).toBeNull()
    if (first !== null) places.giveBack(first.place)
    expect(places.take(Int32Array.from([1]))?.place.index).toBe(0)
  })

  it('counts while it is taken', () => {
    const places = placesHolding(3, [1, 2], [3])
    const taken = places.take(Int32Array.from([1, 2]))
    if (taken !== null) holdOne(taken.place, 5)
    expect(places.usedTokens()).toBe(3)
    expect(places.take(Int32Array.from([1, 2, 5]))?.shared).toBe(0)
    if (taken !== null) places.giveBack(taken.place)
    expect(places.usedTokens()).toBe(0)
    expect(places.take(Int32Array.from([1, 2, 5]))?.shared).toBe(3)
  })
})

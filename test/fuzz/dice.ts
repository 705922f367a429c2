// Chance under a seed, with the throws that generators need: the same words give the same requests in every process.
import { seededNumbers, wholeBetween } from '../../src/engine/serve/seeded.ts'

export type Dice = {
  /** In [0, 1). */
  next(): number
  /** In [low, high]. */
  whole(low: number, high: number): number
  chance(probability: number): boolean
  pick<T>(items: readonly T[]): T
  /** Each item as often as its weight says. */
  weighted<T>(items: readonly (readonly [number, T])[]): T
  /** Between `low` and `high` things. */
  list<T>(low: number, high: number, make: (index: number) => T): T[]
  /** The field with this probability, else nothing to spread. */
  maybe(probability: number, name: string, make: () => unknown): Readonly<Record<string, unknown>>
}

export function rollDice(...words: readonly (string | number)[]): Dice {
  const next = seededNumbers(...words)
  const dice: Dice = {
    next,
    whole: (low, high) => wholeBetween(next, low, high),
    chance: (probability) => next() < probability,
    pick(items) {
      const item = items[Math.floor(next() * items.length)]
      if (item === undefined) throw new Error('nothing to pick from')
      return item
    },
    weighted(items) {
      let left = next() * items.reduce((sum, [weight]) => sum + weight, 0)
      for (const [weight, item] of items) {
        left -= weight
        if (left < 0) return item
      }
      return dice.pick(items)[1]
    },
    list: (low, high, make) => Array.from({ length: wholeBetween(next, low, high) }, (_, index) => make(index)),
    maybe: (probability, name, make) => (next() < probability ? { [name]: make() } : {}),
  }
  return dice
}

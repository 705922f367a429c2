// A stratified bag: every full round draws each item exactly as often as its weight says, in a seeded order.
import { seededNumbers, shuffled } from '../serve/seeded.ts'

export type Bag = { draw(): number }

/** Draws indexes of `weights`, which are positive whole numbers. */
export function openBag(weights: readonly number[], ...seed: readonly (string | number)[]): Bag {
  const divisor = weights.reduce(greatestCommonDivisor, 0) || 1
  const round = weights.flatMap((weight, index) => Array.from({ length: weight / divisor }, () => index))
  let rounds = 0
  let left: number[] = []
  return {
    draw() {
      if (left.length === 0) {
        left = shuffled(seededNumbers(...seed, rounds), round)
        rounds += 1
      }
      return left.pop() ?? 0
    },
  }
}

function greatestCommonDivisor(left: number, right: number): number {
  return right === 0 ? left : greatestCommonDivisor(right, left % right)
}

// The two formulas of an evaluation: pass@k of one task, and how sure a mean over tasks is.

/**
 * The chance that at least one of `k` samples, drawn without putting back from the `samples` that there are, is among the `successes`:
 * 1 - C(samples - successes, k) / C(samples, k), which is unbiased (Chen et al. 2021, arXiv 2107.03374). 1 ≤ k ≤ samples.
 */
export function passAtK(samples: number, successes: number, k: number): number {
  if (samples - successes < k) return 1
  // The quotient of the two binomials, factor by factor: neither of them is ever as large as itself.
  let allFail = 1
  for (let i = samples - successes + 1; i <= samples; i += 1) allFail *= 1 - k / i
  return 1 - allFail
}

export type Interval = { readonly low: number; readonly high: number }

const Z_95 = 1.959963984540054

/**
 * Wilson's score interval, 95 %, of a mean of `count` values in [0, 1]. Such values vary at most as a coin does that shows their mean, so
 * for means of fractions the interval is rather too wide than too narrow; and it is not a point where every value is 0, or 1.
 */
export function wilsonInterval(mean: number, count: number): Interval {
  if (count === 0) return { low: 0, high: 1 }
  const spread = Z_95 ** 2 / count
  const centre = (mean + spread / 2) / (1 + spread)
  const half = (Z_95 / (1 + spread)) * Math.sqrt((mean * (1 - mean)) / count + spread / (4 * count))
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) }
}

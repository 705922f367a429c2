// How often something may be started again before its failures count as permanent.

export type RestartLimit = { readonly max: number; readonly withinMs: number }

export type RestartBudget = {
  /** Spends one restart; false when `max` were spent in the last `withinMs`. */
  spend(nowMs: number): boolean
}

export function openRestartBudget(limit: RestartLimit): RestartBudget {
  let spentAtMs: readonly number[] = []
  return {
    spend(nowMs) {
      spentAtMs = spentAtMs.filter((atMs) => nowMs - atMs < limit.withinMs)
      if (spentAtMs.length >= limit.max) return false
      spentAtMs = [...spentAtMs, nowMs]
      return true
    },
  }
}

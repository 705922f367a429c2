// Calls that wait for the same thing: woken together, or each by its own signal.

export type Waiters = {
  count(): number
  /** Resolves when all are woken, or at once when the signal says that this one need not wait. Never rejects. */
  wait(signal: AbortSignal): Promise<void>
  wakeAll(): void
}

export function openWaiters(): Waiters {
  const waiting = new Set<() => void>()
  return {
    count: () => waiting.size,
    wait(signal) {
      if (signal.aborted) return Promise.resolve()
      return new Promise((resolve) => {
        const wake = (): void => {
          waiting.delete(wake)
          signal.removeEventListener('abort', wake)
          resolve()
        }
        waiting.add(wake)
        signal.addEventListener('abort', wake, { once: true })
      })
    },
    wakeAll() {
      for (const wake of [...waiting]) wake()
    },
  }
}

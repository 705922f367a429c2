// One piece of work under a deadline of its own, which somebody else may cut short.
import type { Scheduler } from '../kernel/clock.ts'

/**
 * The signal that `work` is given is aborted at the deadline or with `outer`, whichever is first; nothing else cuts it. Neither the
 * timer nor the listener outlives the work.
 */
export async function within<T>(
  scheduler: Scheduler,
  deadlineMs: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  const cut = (): void => abort.abort()
  const timer = scheduler.after(deadlineMs, cut)
  outer.addEventListener('abort', cut, { once: true })
  if (outer.aborted) cut()
  try {
    return await work(abort.signal)
  } finally {
    timer.cancel()
    outer.removeEventListener('abort', cut)
  }
}

// The hold on one running generation: a pause freezes it between two tokens, and a stop ends it, also in the middle of a step.
import type { Held } from '../serve/batch.ts'

export type Hold = Held & {
  /** Aborted by `stop`. */
  readonly signal: AbortSignal
  /** Resolves when the next token may be asked for, or once stopped: look at the signal. */
  free(): Promise<void>
}

export function openHold(): Hold {
  const stopped = new AbortController()
  let thawed: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null
  const thaw = () => {
    thawed?.resolve()
    thawed = null
  }
  return {
    signal: stopped.signal,
    async free() {
      while (thawed !== null && !stopped.signal.aborted) await thawed.promise
    },
    freeze() {
      thawed ??= Promise.withResolvers<void>()
    },
    thaw,
    stop() {
      stopped.abort()
      thaw()
    },
  }
}

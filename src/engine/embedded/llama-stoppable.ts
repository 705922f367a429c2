// An async generator that can be stopped from outside in every phase, also while one of its steps goes on.

export type Stoppable<Event> = {
  readonly events: AsyncGenerator<Event, void, void>
  /** Whoever asks for an event from now on, or waits for one, gets the reason. Settles once nothing goes on any more. */
  stop(reason: unknown): Promise<void>
}

/** Why one stopped whose caller returned: the caller is told nothing. */
const RETURNED = new Error('returned')

/**
 * An ordinary async generator hears `return` only when its step is over, and a signal only when it is asked for the next event. Here both
 * are heard at once: `start`, which is called with the first event asked for, is given a signal for both, and `release` is called once, as
 * soon as no step goes on.
 */
export function startStoppable<Event>(
  start: (signal: AbortSignal) => AsyncGenerator<Event, void, void>,
  callerSignal: AbortSignal,
  release: () => void,
): Stoppable<Event> {
  const controller = new AbortController()
  let inner: AsyncGenerator<Event, void, void> | undefined
  let steps = 0
  let isReleased = false

  const releaseOnce = (): void => {
    if (isReleased) return
    isReleased = true
    callerSignal.removeEventListener('abort', onAbort)
    release()
  }
  const stop = async (reason: unknown): Promise<void> => {
    controller.abort(reason)
    if (steps === 0) releaseOnce()
    // Waits behind a step that goes on; whoever asked for that step hears of its failure.
    await inner?.return().catch(() => undefined)
    releaseOnce()
  }
  const onAbort = (): void => void stop(callerSignal.reason)

  const next = async (): Promise<IteratorResult<Event, void>> => {
    if (controller.signal.aborted) return toldEnd()
    steps += 1
    try {
      inner ??= start(controller.signal)
      const result = await inner.next()
      if (controller.signal.aborted) return toldEnd()
      if (result.done === true) controller.abort(RETURNED)
      return result
    } catch (error) {
      if (controller.signal.aborted) return toldEnd()
      controller.abort(error)
      throw error
    } finally {
      steps -= 1
      if (steps === 0 && controller.signal.aborted) releaseOnce()
    }
  }
  const toldEnd = (): IteratorResult<Event, void> => {
    if (controller.signal.reason !== RETURNED) throw controller.signal.reason
    return { done: true, value: undefined }
  }

  if (callerSignal.aborted) controller.abort(callerSignal.reason)
  else callerSignal.addEventListener('abort', onAbort, { once: true })

  const events: AsyncGenerator<Event, void, void> = {
    next,
    return: async () => {
      await stop(RETURNED)
      return { done: true, value: undefined }
    },
    throw: async (error) => {
      await stop(RETURNED)
      throw error
    },
    [Symbol.asyncIterator]: () => events,
    [Symbol.asyncDispose]: () => stop(RETURNED),
  }
  return { events, stop }
}

// Readers of the feed who wait for its next entry: a bounded number of them, woken by what brings one.
import type { FeedEntry } from '../actors/ledger/protocol.ts'
import type { NodeEvent } from '../actors/rollout-server/protocol.ts'
import type { Scheduler } from '../kernel/clock.ts'

type FeedWaiter = {
  /** True when something came since it entered or was last told; false once `untilMs`, on the monotonic clock, is over or it left. */
  news(untilMs: number): Promise<boolean>
  /** Gives its place back. Idempotent. */
  leave(): void
}

export type FeedWaiters = {
  /** Null: as many as allowed wait already, or the node is closing. */
  enter(types: readonly FeedEntry['type'][]): FeedWaiter | null
  hear(event: NodeEvent): void
  /** Sends everybody away. Idempotent. */
  close(): void
}

type Place = { readonly types: readonly FeedEntry['type'][]; isTold: boolean; wake: () => void }

export function openFeedWaiters(scheduler: Scheduler, maxWaiters: number): FeedWaiters {
  const places = new Set<Place>()
  let isClosed = false

  function leave(place: Place): void {
    places.delete(place)
    place.wake()
  }

  return {
    enter(types) {
      if (isClosed || places.size >= maxWaiters) return null
      const place: Place = { types, isTold: false, wake: () => {} }
      places.add(place)
      return {
        async news(untilMs) {
          const delayMs = untilMs - scheduler.clock.nowMs()
          if (!place.isTold && places.has(place) && delayMs > 0) {
            const woken = Promise.withResolvers<void>()
            place.wake = woken.resolve
            const timer = scheduler.after(delayMs, woken.resolve)
            await woken.promise
            timer.cancel()
          }
          const isTold = place.isTold
          place.isTold = false
          return isTold
        },
        leave: () => leave(place),
      }
    },
    hear(event) {
      const brought = broughtBy(event)
      if (brought.length === 0) return
      for (const place of places) {
        if (!place.types.some((type) => brought.includes(type))) continue
        place.isTold = true
        place.wake()
      }
    },
    close() {
      isClosed = true
      for (const place of [...places]) leave(place)
    },
  }
}

/** The end of a task brings what was not told of its sessions, too. */
function broughtBy(event: NodeEvent): readonly FeedEntry['type'][] {
  if (event.type === 'task.completed') return ['session', 'task']
  return event.type === 'session.state_changed' && event.summary !== null ? ['session'] : []
}

// Two ends of a wire in one thread: for the inline topology, and for a World that delays, interleaves and cuts.
import type { Scheduler } from './clock.ts'
import type { Wire } from './kernel.ts'
import { Ring } from './ring.ts'

export type PairWire = {
  readonly left: Wire
  readonly right: Wire
  /** As when a thread dies: what is under way is lost, and each end hears `closed` in a turn of its own. */
  cut(): void
}

export type PairWireOptions = {
  /** Virtual time each frame takes at least; absent: a turn. Frames of one direction never overtake each other. */
  readonly latencyMs?: () => number
}

type Item = { readonly frame: unknown } | 'closed'

/**
 * Frames pass by reference, unlike through a port: the sender must treat a message it sent as gone. ArrayBuffers in
 * `transfer` simply stay where they are.
 */
export function openPairWire(scheduler: Scheduler, options: PairWireOptions = {}): PairWire {
  const { latencyMs } = options
  const left = openEnd(() => right)
  const right = openEnd(() => left)
  return {
    left: left.wire,
    right: right.wire,
    cut() {
      left.lose()
      right.lose()
    },
  }

  function openEnd(other: () => End): End {
    const inbox = new Ring<Item>()
    let handlers: Parameters<Wire['open']>[0] | null = null
    let isClosed = false

    function soon(): void {
      if (latencyMs === undefined) scheduler.defer(deliver)
      else scheduler.after(latencyMs(), deliver)
    }
    /** One turn per frame, always the oldest: turns may run in any order, frames may not. */
    function deliver(): void {
      if (handlers === null) return
      const item = inbox.shift()
      if (item === undefined) return
      if (item !== 'closed') {
        handlers.frame(item.frame)
        return
      }
      isClosed = true
      handlers.closed()
    }
    function push(item: Item): void {
      if (isClosed) return
      inbox.push(item)
      if (handlers !== null) soon()
    }
    function lose(): void {
      inbox.drain()
      push('closed')
      isClosed = true
    }
    return {
      push,
      lose,
      wire: {
        post(frame) {
          if (!isClosed) other().push({ frame })
        },
        open(given) {
          handlers = given
          for (let waiting = inbox.size; waiting > 0; waiting--) soon()
        },
        close() {
          if (isClosed) return
          lose()
          other().push('closed')
        },
      },
    }
  }
}

type End = {
  readonly wire: Wire
  push(item: Item): void
  /** Drops what has not been read and accepts nothing more. */
  lose(): void
}

// The node's event feed: a bounded ring of what happened, and the readers who follow it as server-sent events.
import type { NodeEvent } from '../actors/rollout-server/protocol.ts'
import type { Scheduler, Timer } from '../kernel/clock.ts'
import { unreachable } from '../kernel/unreachable.ts'

export type EventFeedOptions = {
  readonly scheduler: Scheduler
  /** Tells this process's ids from those of an earlier one, so that a reader who resumes after a restart is told what it missed. */
  readonly boot: string
  /** Events kept for readers who come back. */
  readonly capacity: number
  readonly maxReaders: number
  /** A reader with more unsent bytes than this is dropped; it can resume from its last id. */
  readonly maxUnsentBytes: number
  readonly beatMs: number
}

/** What the feed needs of a response. */
export type EventReader = {
  write(text: string): unknown
  destroy(): unknown
  on(event: 'close', listener: () => void): unknown
  readonly writableLength: number
}

export type EventFeed = {
  publish(event: NodeEvent): void
  hasRoom(): boolean
  /** Sends what the reader missed since `lastId`, then everything new, as far as it is `wanted`. Drops it at once when there is no room. */
  follow(reader: EventReader, lastId: string | null, wanted?: (event: NodeEvent) => boolean): void
  /** Drops every reader. Idempotent. */
  close(): void
}

type Kept = { readonly sequence: number; readonly event: NodeEvent; readonly text: string }
type Wanted = (event: NodeEvent) => boolean

export function openEventFeed(options: EventFeedOptions): EventFeed {
  const { scheduler, boot, capacity, maxReaders, maxUnsentBytes, beatMs } = options
  const ring: Kept[] = []
  const readers = new Map<EventReader, Wanted>()
  let sequence = 0
  let beat: Timer | null = null
  let isClosed = false

  function send(reader: EventReader, text: string): void {
    if (reader.writableLength > maxUnsentBytes) drop(reader)
    else reader.write(text)
  }
  function drop(reader: EventReader): void {
    readers.delete(reader)
    reader.destroy()
  }
  /** Runs only while somebody listens. */
  function schedule(): void {
    if (beat !== null || readers.size === 0) return
    beat = scheduler.after(beatMs, () => {
      beat = null
      for (const reader of [...readers.keys()]) send(reader, ': beat\n\n')
      schedule()
    })
  }
  function missedSince(lastId: string | null, wanted: Wanted): string {
    if (lastId === null) return ''
    const [from, last] = lastId.split('-')
    const seen = from === boot && last !== undefined && /^\d{1,15}$/.test(last) ? Number(last) : null
    const oldest = ring[0]?.sequence ?? sequence + 1
    // Unknown ids and ids that have left the ring: the reader must not believe that it saw everything.
    const gap = seen === null || seen + 1 < oldest ? `event: events.lost\ndata: ${JSON.stringify({ after: lastId })}\n\n` : ''
    return (
      gap +
      ring
        .filter(({ sequence: at, event }) => at > (seen ?? 0) && wanted(event))
        .map((kept) => kept.text)
        .join('')
    )
  }

  const hasRoom = () => !isClosed && readers.size < maxReaders

  return {
    publish(event) {
      if (isClosed) return
      sequence += 1
      const text = `id: ${boot}-${sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(eventJson(event))}\n\n`
      ring.push({ sequence, event, text })
      if (ring.length > capacity) ring.shift()
      for (const [reader, wanted] of [...readers]) if (wanted(event)) send(reader, text)
    },
    follow(reader, lastId, wanted = () => true) {
      if (!hasRoom()) {
        reader.destroy()
        return
      }
      readers.set(reader, wanted)
      reader.on('close', () => {
        readers.delete(reader)
        if (readers.size > 0) return
        beat?.cancel()
        beat = null
      })
      reader.write(`: polar-node\n\n${missedSince(lastId, wanted)}`)
      schedule()
    },
    hasRoom,
    close() {
      isClosed = true
      beat?.cancel()
      beat = null
      for (const reader of [...readers.keys()]) drop(reader)
    },
  }
}

function eventJson(event: NodeEvent): Readonly<Record<string, unknown>> {
  const at = event.atMs / 1_000
  switch (event.type) {
    case 'task.created':
    case 'task.updated':
    case 'task.completed':
      return { task_id: event.task, status: event.status, at }
    case 'session.state_changed': {
      const { session, task, gateway, status, attempt, summary } = event
      const ended = summary === null ? {} : { outcome: summary.outcome, reward: summary.reward, error: summary.error }
      return { session_id: session, task_id: task, status, node_id: gateway, attempt, ...ended, at }
    }
    default:
      return unreachable(event)
  }
}

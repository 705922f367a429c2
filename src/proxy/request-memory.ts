// How much of the requests that are being read, or wait for their answers, is in memory: of one session, and of this thread.
import type { SessionId } from '../contract/ids.ts'
import { failure } from './failure.ts'

export type RequestMemoryLimits = {
  readonly requestsPerSession: number
  readonly bytesPerSession: number
  readonly bytesPerThread: number
}

/** One request's share. */
export type Hold = {
  /** False, and nothing is taken, when a limit would be passed. */
  take(bytes: number): boolean
  /** Runs `work` when no other such work of the session runs: what cannot be counted before it is done is done one at a time. */
  alone<T>(work: () => Promise<T>): Promise<T>
  /** Gives everything back. Idempotent. */
  release(): void
}

export type RequestMemory = {
  /** Null when the session has as many requests as it may. */
  open(session: SessionId): Hold | null
  bytes(): number
}

/** What a client is told whose request does not fit. */
export const TOO_MUCH = failure('overloaded', 'too many requests, or too large ones, at once; try again later', { retryAfterMs: 2_000 })

type Share = { requests: number; bytes: number; last: Promise<unknown> }

export function openRequestMemory(limits: RequestMemoryLimits): RequestMemory {
  const shares = new Map<SessionId, Share>()
  let total = 0

  return {
    open(session) {
      const share = shares.get(session) ?? { requests: 0, bytes: 0, last: Promise.resolve() }
      if (share.requests >= limits.requestsPerSession) return null
      share.requests += 1
      shares.set(session, share)
      let held = 0
      let isHeld = true
      return {
        take(bytes) {
          if (!isHeld || share.bytes + bytes > limits.bytesPerSession || total + bytes > limits.bytesPerThread) return false
          held += bytes
          share.bytes += bytes
          total += bytes
          return true
        },
        alone(work) {
          const done = share.last.then(work)
          share.last = done.catch(() => {})
          return done
        },
        release() {
          if (!isHeld) return
          isHeld = false
          share.requests -= 1
          share.bytes -= held
          total -= held
          if (share.requests === 0) shares.delete(session)
        },
      }
    },
    bytes: () => total,
  }
}

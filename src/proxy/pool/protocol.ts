// One inference replica as seen by one gateway thread: who is in flight, who waits, whether it is healthy.
import type { SessionId } from '../../contract/ids.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { ReplicaStatus } from '../boundary.ts'

export type Acquired =
  | { readonly type: 'granted'; readonly lease: number }
  | {
      readonly type: 'refused'
      /** `removed`: it will never serve again; `moved`: another replica has room for this caller now. */
      readonly reason: 'full' | 'down' | 'paused' | 'not-trainable' | 'removed' | 'moved'
      readonly retryAfterMs: number
      readonly detail: string
    }

export type ReplicaCommand =
  /** Waits in the replica's bounded line while it is full; `ticket` names the waiter for `withdraw`. */
  | {
      readonly type: 'acquire'
      readonly session: SessionId
      readonly ticket: number
      readonly tier: 'train' | 'eval'
      readonly ask: Ask<Acquired>
    }
  /** The caller left; a lease already granted to this ticket is given back. */
  | { readonly type: 'withdraw'; readonly ticket: number }
  | {
      readonly type: 'release'
      readonly lease: number
      readonly outcome: 'ok' | 'failed' | 'unreachable' | 'cancelled'
      /** As the answer stated it; null when it did not. */
      readonly weightVersion: string | null
    }
  /** Another replica of this tier has `count` free places: the first in line that it may serve go there. */
  | { readonly type: 'relieve'; readonly count: number; readonly tier: 'train' | 'eval' }
  /** Grants nothing from now on, and sends away whoever waits; calls in flight keep their places. */
  | { readonly type: 'remove' }
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }
  | { readonly type: 'read-replica'; readonly ask: Ask<ReplicaStatus> }

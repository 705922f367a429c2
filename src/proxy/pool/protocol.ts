// One inference replica as seen by one gateway thread: who is in flight, who waits, whether it is healthy.
import type { SessionId } from '../../contract/ids.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { ReplicaView } from '../boundary.ts'

export type Acquired =
  | { readonly type: 'granted'; readonly lease: number }
  | {
      readonly type: 'refused'
      readonly reason: 'full' | 'down' | 'paused' | 'not-trainable'
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
  | { readonly type: 'pause' }
  | { readonly type: 'resume' }
  | { readonly type: 'read-replica'; readonly ask: Ask<ReplicaView> }

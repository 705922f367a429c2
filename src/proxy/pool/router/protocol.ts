// A router of inference servers as one gateway thread follows it: its workers are asked for, and called directly.
import type { Ask } from '../../../kernel/ask.ts'

export type RouterStatus = {
  /** Whether its last list could be read. */
  readonly state: 'up' | 'down' | 'unprobed'
  /** Why not, or which workers are passed over. */
  readonly detail: string | null
}

export type RouterCommand = { readonly type: 'read-router'; readonly ask: Ask<RouterStatus> }

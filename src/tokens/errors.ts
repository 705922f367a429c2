// What goes wrong in token memory only through a bug: each situation has its class and its stable code.

/** A handle whose block was recycled since: its tokens are gone, and nobody else's are returned in their place. */
export class StaleSegmentError extends Error {
  readonly code = 'stale-segment'
  override readonly name = 'StaleSegmentError'
}

/** A lease released twice, or to a session that never gave it. */
export class UnknownLeaseError extends Error {
  readonly code = 'unknown-lease'
  override readonly name = 'UnknownLeaseError'
}

/** An append, a read or a new lease on a session that was closed. */
export class ClosedSessionError extends Error {
  readonly code = 'session-closed'
  override readonly name = 'ClosedSessionError'
}

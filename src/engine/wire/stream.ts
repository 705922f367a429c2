// What one server-sent event of a streamed answer carries, and when it may leave.

export type StreamChunk = {
  /** The chunk waits until this many tokens of its choice have been sampled; 0 waits for nothing. */
  readonly afterTokens: number
  readonly data: object
}

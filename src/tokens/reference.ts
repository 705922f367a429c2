// A leased, opaque view of one session's tokens that may be handed to a piscina task on the same host.

/** Handle of consecutive tokens in one slab. Reading it after its block was recycled throws `stale-segment`. */
export type Segment = { readonly slab: number; readonly offset: number; readonly length: number; readonly epoch: number }

/** One call: its prompt is the first `shared` tokens of call `parent`'s prompt ‖ sampled, followed by `suffix`. */
export type CallTokens = {
  /** Index of an earlier call of this session, or -1. */
  readonly parent: number
  readonly shared: number
  readonly suffix: readonly Segment[]
  readonly promptLength: number
  readonly sampled: readonly Segment[]
  readonly sampledLength: number
  /** Float32, aligned with `sampled`; empty when the engine's logprobs were unusable. */
  readonly logprobs: readonly Segment[]
}

/** Carries the SharedArrayBuffers it needs; the receiver caches them by slab id. Opaque outside src/tokens. */
export type SlabReference = {
  readonly lease: number
  readonly slabs: readonly { readonly id: number; readonly buffer: SharedArrayBuffer }[]
  readonly calls: readonly CallTokens[]
}

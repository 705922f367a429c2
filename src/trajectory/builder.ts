// What a trajectory builder takes and gives. Builders are pure functions; they know no actor, no slab and no clock.
import type { CallRecord } from '../contract/call.ts'
import type { Trace } from '../contract/result.ts'

/** A captured call with its tokens laid out. `logprobs` is null when the engine's were unusable (see `record.captureError`). */
export type BuilderCall = {
  readonly record: CallRecord
  readonly promptIds: Int32Array
  readonly sampledIds: Int32Array
  readonly logprobs: Float32Array | null
}

export type BuilderInput = {
  readonly sessionId: string
  readonly taskId: string
  readonly attempt: number
  readonly calls: readonly BuilderCall[]
  /** JSON texts; records point into it by index. */
  readonly messages: readonly string[]
  readonly taskMetadata: Readonly<Record<string, unknown>>
}

export type BuilderOutput = {
  readonly traces: readonly Trace[]
  /** Goes into the trajectory's metadata: builder, record_count, trace_count, reconstruction_stats, edges, findings, untrained, diagnostics. */
  readonly metadata: Readonly<Record<string, unknown>>
}

export type Builder = (input: BuilderInput, config: Readonly<Record<string, unknown>>) => BuilderOutput

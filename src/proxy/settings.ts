// The boundary's numbers: every wait, limit and size, with the value that holds when the operator says nothing.
import type { ReplicaLimits } from './pool/state.ts'
import type { RequestMemoryLimits } from './request-memory.ts'

/**
 * When a streaming client is told what its model says. `synthetic`: when all of it was captured. `live`: as it is sampled, by servers whose
 * streams lose nothing that is captured; no other one serves training sessions. `auto`: as it is sampled where the server can, else at the end.
 */
export type StreamMode = 'synthetic' | 'live' | 'auto'

export type BoundarySettings = {
  readonly streamMode: StreamMode
  /** A stream without an answer commits its head after this; no known client gives up on headers sooner than 60 s. */
  readonly commitAfterMs: number
  /** Then one data-bearing frame each. */
  readonly beatEveryMs: number
  /** How long a call outlives its client, in case the client asks again. */
  readonly lingerMs: number
  readonly callsPerSession: number
  readonly callsPerThread: number
  /** Calls that may wait for one of the places above. */
  readonly linePerSession: number
  readonly linePerThread: number
  readonly holdDeadlineMs: number
  /** Over the life of a session. */
  readonly maxCallsPerSession: number
  readonly maxTextBytesPerSession: number
  /** Of all sessions that have a door; beyond it, those with more than their part make no more calls. */
  readonly maxTextBytesPerThread: number
  readonly maxBodyBytes: number
  /** Requests that are read, or wait for their answers, and what of them is in memory. */
  readonly requestMemory: RequestMemoryLimits
  readonly maxResponseBytes: number
  readonly replica: ReplicaLimits
  readonly acquireDeadlineMs: number
  readonly probeDeadlineMs: number
  /** How often a router is asked for its workers, and how long it may take to say. */
  readonly routerReadMs: { readonly every: number; readonly deadline: number }
  readonly engineDeadlineMs: number
  /** How long a call waits for an inference server while none serves: what starts again within that is not noticed by agents. */
  readonly outageMs: number
  /** Sends to an unreachable replica, and generations the engine aborted without progress, are each repeated at most this often. */
  readonly maxRepeats: number
  /** What becomes of a generation that its engine gave up: gone on with from its tokens where that can be, or begun again. */
  readonly aborted: 'resume' | 'restart'
  readonly repeatDelayMs: number
}

export const DEFAULT_SETTINGS: BoundarySettings = {
  streamMode: 'synthetic',
  commitAfterMs: 5_000,
  beatEveryMs: 10_000,
  lingerMs: 20_000,
  callsPerSession: 8,
  callsPerThread: 1_024,
  linePerSession: 64,
  linePerThread: 1_024,
  holdDeadlineMs: 120_000,
  maxCallsPerSession: 10_000,
  maxTextBytesPerSession: 256 * 2 ** 20,
  maxTextBytesPerThread: 2 ** 30,
  maxBodyBytes: 64 * 2 ** 20,
  requestMemory: { requestsPerSession: 128, bytesPerSession: 160 * 2 ** 20, bytesPerThread: 512 * 2 ** 20 },
  maxResponseBytes: 256 * 2 ** 20,
  replica: { inFlight: 256, line: 512, downAfter: 3, probeBackoffMs: { first: 500, longest: 30_000 } },
  acquireDeadlineMs: 600_000,
  probeDeadlineMs: 60_000,
  routerReadMs: { every: 5_000, deadline: 10_000 },
  engineDeadlineMs: 3_600_000,
  outageMs: 120_000,
  maxRepeats: 2,
  aborted: 'resume',
  repeatDelayMs: 250,
}

// The numbers of a fuzzed node: every wait short enough to be met often, every limit low enough to be reached.
import type { FaultName } from '../../../src/engine/scripted/faults.ts'
import type { BoundarySettings } from '../../../src/proxy/settings.ts'

/** Whose chat completions the engines serve, and the gateway asks for. */
export type FuzzedEngine = 'vllm' | 'sglang'

export const MODEL = 'qwen3-scripted'
export const MAX_MODEL_LEN = 32_768
/** Bodies beyond it must be refused, so that it is cheap to be beyond it. */
export const MAX_BODY_BYTES = 2 ** 20

export const BOUNDARY: Partial<BoundarySettings> = {
  commitAfterMs: 30,
  beatEveryMs: 20,
  lingerMs: 400,
  repeatDelayMs: 2,
  engineDeadlineMs: 5_000,
  callsPerSession: 4,
  linePerSession: 6,
  maxBodyBytes: MAX_BODY_BYTES,
  // One replica serves all sessions: what one of them does to it must not be felt by the others.
  replica: { inFlight: 64, line: 512, downAfter: 1_000_000, probeBackoffMs: { first: 500, longest: 30_000 } },
}

export const ARENA = { maxSlabs: 8, slabTokens: 2 ** 18, blockTokens: 2 ** 10 } as const

/** What an engine may do to a generation here; a hang costs its whole deadline and is drawn rarely. */
export const ENGINE_FAULTS = [
  'http-500',
  'http-503',
  'http-429',
  'http-400',
  'reset',
  'reset-before-body',
  'reset-in-body',
  'garbage-json',
  'truncated-json',
  'abort',
  'missing-prompt-ids',
  'missing-token-ids',
  'unequal-lengths',
  'nan-logprob',
  'null-logprob',
  'missing-finish-reason',
  'empty-choices',
  'slow-bytes',
  'hang',
  'hang-headers',
] as const satisfies readonly FaultName[]

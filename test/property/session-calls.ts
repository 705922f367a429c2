// Random calls of one session as plain arrays: extensions, branches, retries, compactions, identical prompts, empty parts.
import * as fc from 'fast-check'
import type { ReadCall } from '../../src/tokens/reader.ts'

export type PlainCall = {
  readonly prompt: readonly number[]
  readonly sampled: readonly number[]
  readonly logprobs: readonly number[] | null
}

/** One call relative to the calls before it: it keeps a beginning of one of their sequences and goes on with tokens of its own. */
export type CallMove = {
  readonly base: number
  readonly keep: 'nothing' | 'prompt' | 'sequence' | number
  readonly fresh: readonly number[]
  readonly sampled: readonly number[]
  readonly hasLogprobs: boolean
}

// Few different tokens, so that prefixes also coincide by accident.
const tokens = (maxLength: number) => fc.array(fc.integer({ min: 0, max: 2 }), { maxLength })

export const callMove: fc.Arbitrary<CallMove> = fc.record({
  base: fc.nat(),
  keep: fc.oneof(fc.constantFrom('nothing' as const, 'prompt' as const, 'sequence' as const), fc.double({ min: 0, max: 1, noNaN: true })),
  fresh: tokens(12),
  sampled: tokens(9),
  hasLogprobs: fc.boolean(),
})

export function makeCall(move: CallMove, earlier: readonly PlainCall[]): PlainCall {
  const base = earlier[move.base % Math.max(1, earlier.length)]
  return {
    prompt: [...(base === undefined ? [] : kept(base, move.keep)), ...move.fresh],
    sampled: move.sampled,
    logprobs: move.hasLogprobs ? move.sampled.map((id, index) => -(id + index / 8)) : null,
  }
}

function kept(base: PlainCall, keep: CallMove['keep']): readonly number[] {
  const sequence = sequenceOf(base)
  if (keep === 'nothing') return []
  if (keep === 'prompt') return base.prompt
  if (keep === 'sequence') return sequence
  return sequence.slice(0, Math.round(keep * sequence.length))
}

export function sequenceOf(call: PlainCall): readonly number[] {
  return [...call.prompt, ...call.sampled]
}

/** What a reader must return for a call. */
export function asRead(call: PlainCall): ReadCall {
  const hasLogprobs = call.logprobs !== null || call.sampled.length === 0
  return {
    promptIds: Int32Array.from(call.prompt),
    sampledIds: Int32Array.from(call.sampled),
    logprobs: hasLogprobs ? Float32Array.from(call.logprobs ?? []) : null,
  }
}

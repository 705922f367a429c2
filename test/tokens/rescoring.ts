// What must hold of every trained token: it went over the wire as it stands in its trace, and an independent scorer gives it the same logprob.
import { expect } from 'vitest'
import type { Session, Trace } from '../lib/rollout-node.ts'
import { type Scorer, TOLERANCE } from '../lib/scorer.ts'
import type { WireGeneration } from './relay.ts'
import { END_TOKENS, type Rollout } from './stand.ts'

export type Account = {
  readonly sessions: number
  readonly calls: number
  /** Rows that train something. */
  readonly traces: number
  readonly trainedTurns: number
  readonly trainedTokens: number
  /** Those of rows that hold several turns. */
  readonly mergedTokens: number
  readonly worstDelta: number
  readonly meanRatio: number
}

/** Every trained turn is one generation of the wire under the very prompt that stands before it, and every generation is trained, once. */
export function checkAgainstWire({ sessions, wire }: Rollout): void {
  const open = new Set(wire)
  for (const { traces, stats, untrained } of sessions) {
    for (const trace of traces) for (const generation of trainedTurns(trace, open)) open.delete(generation)
    expect(stats.trained_tokens).toBe(sum(traces.map(trainedTokensOf)))
    expect(
      untrained.filter(({ tokens }) => tokens > 0),
      'what was drawn is trained',
    ).toEqual([])
  }
  expect([...open], 'no generation is lost').toEqual([])
}

/** The generations that the trace's trained turns are, in its order. */
function trainedTurns(trace: Trace, open: ReadonlySet<WireGeneration>): readonly WireGeneration[] {
  const mask = trace.response_ids.map(() => 0)
  expect(trace.metadata.unreported_context_tokens).toBe(0)
  const generations = trace.metadata.turns.flatMap(({ start, end, trained, weight_version: version }) => {
    if (!trained) return []
    mask.fill(1, start, end)
    const [prompt, sampled] = [[...trace.prompt_ids, ...trace.response_ids.slice(0, start)], trace.response_ids.slice(start, end)]
    const drawn = [...open].filter(({ promptIds, sampledIds }) => isEqual(promptIds, prompt) && isEqual(sampledIds, sampled))
    expect(drawn, 'a trained turn is what the engine drew under the prompt before it').not.toHaveLength(0)
    // Two sessions may begin alike, with logprobs that differ in their last digits.
    const logprobs = trace.response_logprobs?.slice(start, end).map(Math.fround) ?? []
    const generation = drawn.find((each) => isEqual(each.logprobs.map(Math.fround), logprobs))
    expect(generation, 'its logprobs are those of the wire').toBeDefined()
    if (generation === undefined) return []
    if (generation.finishReason !== 'length') expect(END_TOKENS.has(sampled.at(-1) ?? -1), 'the end of a turn is sampled too').toBe(true)
    if (generation.weightVersion !== null) expect(version).toBe(generation.weightVersion)
    return [generation]
  })
  expect(trace.loss_mask, 'the mask is 1 exactly on trained turns').toEqual(mask)
  return generations
}

/** Places in the response whose tokens are trained. */
const trainedIn = (trace: Trace): readonly number[] => trace.loss_mask.flatMap((bit, at) => (bit === 1 ? [at] : []))

/** Captured logprobs less the scorer's, at these places of the response. `temperature` is that of the logprobs. */
export function deltasAt(trace: Trace, trained: readonly number[], scorer: Scorer, temperature: number): readonly number[] {
  if (trained.length === 0) return []
  const ids = [...trace.prompt_ids, ...trace.response_ids]
  const positions = trained.map((at) => trace.prompt_ids.length + at)
  const scores = scorer.score(ids, positions).logprobs(temperature)
  return trained.map((at, index) => (trace.response_logprobs?.[at] ?? Number.NaN) - (scores[index] ?? Number.NaN))
}

export function account({ sessions }: Rollout, scorer: Scorer, temperature: number): Account {
  const traces = sessions.flatMap((session) => session.traces.filter((trace) => trainedTokensOf(trace) > 0))
  const deltas = traces.flatMap((trace) => deltasAt(trace, trainedIn(trace), scorer, temperature))
  return {
    sessions: sessions.length,
    calls: sum(sessions.map(({ records }) => records.length)),
    traces: traces.length,
    trainedTurns: sum(traces.map(turnsTrainedIn)),
    trainedTokens: deltas.length,
    mergedTokens: sum(traces.filter((trace) => turnsTrainedIn(trace) > 1).map(trainedTokensOf)),
    worstDelta: Math.max(0, ...deltas.map(Math.abs)),
    meanRatio: sum(deltas.map(Math.exp)) / deltas.length,
  }
}

/** Each token by itself: no mean may hide one. */
export function expectAgreement({ worstDelta, meanRatio }: Account): void {
  expect(worstDelta).toBeLessThanOrEqual(TOLERANCE)
  expect(Math.exp(worstDelta) - 1).toBeLessThanOrEqual(TOLERANCE)
  expect(Math.abs(meanRatio - 1)).toBeLessThanOrEqual(TOLERANCE)
}

export function expectCompleted(sessions: readonly Session[]): void {
  expect(sessions.map(({ outcome, error }) => [outcome, error])).toEqual(sessions.map(() => ['completed', null]))
}

/** Whatever the policy made of the task, its tokens are to be trained: an agent may give up after too many turns. */
export function expectTrainable(sessions: readonly Session[]): void {
  for (const { outcome } of sessions) expect(['completed', 'agent_error', 'context_exhausted']).toContain(outcome)
}

const turnsTrainedIn = ({ metadata }: Trace): number => metadata.turns.filter(({ trained }) => trained).length
const trainedTokensOf = (trace: Trace): number => sum(trace.loss_mask)
export const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
const isEqual = (one: readonly number[], other: readonly number[]): boolean =>
  one.length === other.length && one.every((id, at) => id === other[at])

// Prefix merging against the dumb oracle, and what must hold of every build.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Trace, Trajectory } from '../../src/contract/result.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import type { BuilderInput } from '../../src/trajectory/builder.ts'
import { packTrajectory } from '../../src/trajectory/pack.ts'
import { buildPerRequest } from '../../src/trajectory/per-request.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { turnsOf } from '../../src/trajectory/rows.ts'
import { type ToyCall, toyInput, toyRow } from '../unit/trajectory-calls.ts'
import { oracleRows } from './trajectory-oracle.ts'
import { sessions } from './trajectory-sessions.ts'

const RUNS = { numRuns: 500 }
const MODES = [{}, { splice: true }, { splice: 'polar' }] as const

function merge(input: BuilderInput, config: Readonly<Record<string, unknown>> = {}): Trajectory {
  return unwrap(assemble(input, { strategy: 'prefix_merging', config }, buildPrefixMerging))
}

function unwrap(built: ReturnType<typeof assemble>): Trajectory {
  if (!built.ok) throw new Error(built.error)
  return built.trajectory
}

const shuffled = (calls: readonly ToyCall[]) => fc.shuffledSubarray([...calls.keys()], { minLength: calls.length, maxLength: calls.length })

/** What is trained, as `call:token` counted over all rows. */
function trainedTokens(traces: readonly Trace[]): readonly string[] {
  return traces
    .flatMap((trace) =>
      turnsOf(trace).flatMap((turn) =>
        [...trace.response_ids.subarray(turn.start, turn.end)].flatMap((id, at) =>
          trace.loss_mask[turn.start + at] === 1 ? [`${turn.call_id}:${at}:${id}`] : [],
        ),
      ),
    )
    .sort()
}

describe('prefix merging', () => {
  it("gives the oracle's rows", () => {
    fc.assert(
      fc.property(sessions, (calls) => {
        const input = toyInput(calls)
        expect(merge(input).traces.map(toyRow)).toEqual(oracleRows(input.calls))
      }),
      { numRuns: 2_000 },
    )
  })

  it('gives byte-identical trajectories whatever the order of the records', () => {
    const cases = sessions.chain((calls) => fc.tuple(fc.constant(calls), shuffled(calls), fc.constantFrom(...MODES)))
    fc.assert(
      fc.property(cases, ([calls, order, config]) => {
        const input = toyInput(calls)
        const permuted = { ...input, calls: order.map((at) => input.calls[at]!) }
        expect(Buffer.from(packTrajectory(merge(permuted, config)))).toEqual(Buffer.from(packTrajectory(merge(input, config))))
      }),
      RUNS,
    )
  })

  it('gives the same lines of tokens in any order of arrival', () => {
    const lines = (trajectory: Trajectory) =>
      trajectory.traces.map((trace) => JSON.stringify([[...trace.prompt_ids], [...trace.response_ids]])).sort()
    const cases = sessions.chain((calls) => fc.tuple(fc.constant(calls), shuffled(calls)))
    fc.assert(
      fc.property(cases, ([calls, order]) => {
        expect(lines(merge(toyInput(order.map((at) => calls[at]!))))).toEqual(lines(merge(toyInput(calls))))
      }),
      RUNS,
    )
  })

  it('gives the same lines of tokens in any order of arrival when two calls end in the same sequence from different prompts', () => {
    const calls: readonly ToyCall[] = [
      { id: 'a', p: [1], r: [2, 3] },
      { id: 'b', p: [1, 2], r: [3] },
      { id: 'c', p: [1, 2, 3], r: [4] },
    ]
    for (const order of [
      [0, 1, 2],
      [1, 0, 2],
      [2, 1, 0],
    ]) {
      const { traces } = merge(toyInput(order.map((at) => calls[at]!)))
      const rows = traces.map((trace) => `${[...trace.prompt_ids]} | ${[...trace.response_ids]}`)
      expect([order, rows.sort()]).toEqual([order, ['1 | 2,3,4', '1,2 | 3']])
    }
  })

  it('trains the same tokens as per_request', () => {
    fc.assert(
      fc.property(sessions, (calls) => {
        const input = toyInput(calls)
        const single = unwrap(assemble(input, { strategy: 'per_request', config: {} }, buildPerRequest))
        expect(trainedTokens(merge(input).traces)).toEqual(trainedTokens(single.traces))
      }),
      RUNS,
    )
  })

  it('accounts for every sampled token, in every mode', () => {
    fc.assert(
      fc.property(sessions, fc.constantFrom(...MODES), (calls, config) => {
        const { traces, metadata } = merge(toyInput(calls), config)
        const stats = metadata.reconstruction_stats as {
          trained_tokens: number
          captured_tokens: number
          masked_tokens_by_reason: Record<string, number>
        }
        const masked = Object.values(stats.masked_tokens_by_reason).reduce((sum, tokens) => sum + tokens, 0)
        expect(stats.captured_tokens).toBe(calls.reduce((sum, call) => sum + call.r.length, 0))
        expect(stats.trained_tokens + masked).toBe(stats.captured_tokens)
        expect(trainedTokens(traces)).toHaveLength(stats.trained_tokens)
        expect(new Set(trainedTokens(traces)).size).toBe(stats.trained_tokens)
      }),
      RUNS,
    )
  })

  it('trains turns only on contexts the engine reported, unless the row says that it is spliced', () => {
    fc.assert(
      fc.property(sessions, fc.constantFrom({}, { splice: true }), (calls, config) => {
        const input = toyInput(calls)
        const byId = new Map(input.calls.map((call) => [call.record.id as string, call]))
        for (const trace of merge(input, config).traces) {
          expect(trace.loss_mask).toHaveLength(trace.response_ids.length)
          for (const turn of turnsOf(trace)) {
            const call = byId.get(turn.call_id)!
            expect([...trace.response_ids.subarray(turn.start, turn.end)]).toEqual([...call.sampledIds])
            if (!turn.trained) continue
            expect([...trace.response_logprobs!.subarray(turn.start, turn.end)]).toEqual([...call.logprobs!])
            if (turn.spliced_context) expect(config).toEqual({ splice: true })
            else expect([...trace.prompt_ids, ...trace.response_ids.subarray(0, turn.start)]).toEqual([...call.promptIds])
          }
        }
      }),
      RUNS,
    )
  })

  it('gives row weights that sum to one, or to nothing', () => {
    fc.assert(
      fc.property(sessions, fc.constantFrom('rows', 'tokens'), (calls, mode) => {
        const { traces } = merge(toyInput(calls), { rollout_weight: mode })
        const sum = traces.reduce((total, trace) => total + Number(trace.metadata.rollout_weight), 0)
        expect(sum).toBeCloseTo(traces.some((trace) => trace.loss_mask.includes(1)) ? 1 : 0, 12)
      }),
      RUNS,
    )
  })
})

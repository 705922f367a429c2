// Logprobs before temperature and after it: which of them an engine gives is recorded, and the scorer agrees with that one alone.
import { describe, expect, it } from 'vitest'
import { openScorer } from '../lib/scorer.ts'
import { readWeights } from '../lib/scorer-weights.ts'
import { report } from './report.ts'
import { account, checkAgainstWire, expectAgreement, expectCompleted } from './rescoring.ts'
import { program } from './sources.ts'
import { MODEL_FILE, openRealEngine, openStand, TASK_MS } from './stand.ts'

const COLD = 0.6
/** Far more than rounding: the other mode's logprobs of some token are off by this much at least. */
const CLEARLY = 0.05

describe.each([
  { kind: 'vllm', mode: 'raw', other: 'processed' },
  { kind: 'sglang', mode: 'processed', other: 'raw' },
] as const)('an engine of the $kind shape, whose logprobs are $mode,', ({ kind, mode }) => {
  it(
    'has its mode recorded on every call and every turn of a trace, at either temperature',
    async () => {
      const scorer = openScorer(readWeights(MODEL_FILE))
      const stand = await openStand(kind, await openRealEngine(kind))
      try {
        for (const temperature of [1, COLD]) {
          const rollout = await stand.run({ instruction: 'Talk.', agent: program('chat-loop.ts', 3, temperature, 40), num_samples: 2 })
          expectCompleted(rollout.sessions)
          checkAgainstWire(rollout)
          expect(rollout.wire.map(({ request }) => request.temperature)).toEqual(rollout.wire.map(() => temperature))
          for (const { logprobMode, sampling } of rollout.sessions.flatMap(({ records }) => records))
            expect([logprobMode, sampling.temperature]).toEqual([mode, temperature])
          for (const turn of rollout.sessions.flatMap(({ traces }) => traces.flatMap(({ metadata }) => metadata.turns)))
            expect([turn.logprob_mode, turn.temperature]).toEqual([mode, temperature])
          const [raw, processed] = [account(rollout, scorer, 1), account(rollout, scorer, temperature)]
          const [right, wrong] = mode === 'raw' ? [raw, processed] : [processed, raw]
          expectAgreement(right)
          if (temperature !== 1) expect(wrong.worstDelta).toBeGreaterThan(CLEARLY)
          // Whoever recomputes logprobs at temperature 1 must be told when these are not of the distribution that was sampled.
          const isSkewed = mode === 'raw' && temperature !== 1
          for (const { findings } of rollout.sessions) expect(findings.some(({ code }) => code === 'sampling_skew')).toBe(isSkewed)
          report(`temperature ${temperature}, ${mode}, ${kind}`, right)
        }
      } finally {
        await stand.close()
      }
    },
    TASK_MS,
  )
})

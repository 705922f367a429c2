// The promise of this folder for every source of tokens, on one wire shape.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openScorer, type Scorer } from '../lib/scorer.ts'
import { readWeights } from '../lib/scorer-weights.ts'
import { report } from './report.ts'
import { account, checkAgainstWire, expectAgreement, expectTrainable } from './rescoring.ts'
import { sources } from './sources.ts'
import { MODEL_FILE, openRealEngine, openStand, type Stand, TASK_MS } from './stand.ts'

const SAMPLES = 3
const ENOUGH_TOKENS = 1_000

export function describeAgents(kind: 'vllm' | 'sglang'): void {
  describe(`tokens captured from an engine of the ${kind} shape`, () => {
    let stand: Stand
    let scorer: Scorer
    let mergedTokens = 0
    beforeAll(async () => {
      stand = await openStand(kind, await openRealEngine(kind))
      scorer = openScorer(readWeights(MODEL_FILE))
    }, TASK_MS)
    afterAll(() => stand.close())

    it.each(sources())(
      'are, through $name, what the engine drew, at the logprobs that the scorer gives',
      async ({ name, isStreamed, task }) => {
        const rollout = await stand.run({ ...task, num_samples: SAMPLES })
        expectTrainable(rollout.sessions)
        checkAgainstWire(rollout)
        for (const { records } of rollout.sessions) expect(records.map(({ streamed }) => streamed)).toEqual(records.map(() => isStreamed))
        const found = account(rollout, scorer, 1)
        expectAgreement(found)
        // Several turns in one trace: a later turn is scored with the earlier ones before it.
        expect(found.trainedTurns).toBeGreaterThan(found.traces)
        mergedTokens += found.mergedTokens
        report(`${name}, ${kind}`, found)
      },
      2 * TASK_MS,
    )

    it('are enough to say so, in rows of several turns', () => {
      expect(mergedTokens).toBeGreaterThanOrEqual(ENOUGH_TOKENS)
    })
  })
}

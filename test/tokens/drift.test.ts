// Free sampling at high temperature: what decodes to a text that encodes to other ids breaks chains, and every break is told.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openScorer, type Scorer } from '../lib/scorer.ts'
import { readWeights } from '../lib/scorer-weights.ts'
import { checkChain, wireOf } from './conversations.ts'
import { report } from './report.ts'
import { account, checkAgainstWire, expectAgreement, expectCompleted, sum } from './rescoring.ts'
import { program } from './sources.ts'
import { MODEL_FILE, openRealEngine, openStand, type Rollout, type Stand, TASK_MS } from './stand.ts'

const [TURNS, TEMPERATURE, MAX_TOKENS] = [4, 1.5, 120]
const SESSIONS = 5

describe('free sampling at high temperature', { timeout: TASK_MS }, () => {
  let stand: Stand
  let scorer: Scorer
  let rollout: Rollout
  let told = ''
  beforeAll(async () => {
    stand = await openStand('vllm', await openRealEngine('vllm'))
    scorer = openScorer(readWeights(MODEL_FILE))
    const agent = program('chat-loop.ts', TURNS, TEMPERATURE, MAX_TOKENS)
    rollout = await stand.run({ instruction: 'Talk.', agent, num_samples: SESSIONS })
  }, TASK_MS)
  afterAll(() => stand.close())

  it('drifts, and every break of a chain is reported with its class and where it is', () => {
    expectCompleted(rollout.sessions)
    const chains = rollout.sessions.map((session) => checkChain(session, wireOf(session, rollout)))
    expect(sum(chains.map(({ continued, broken }) => continued + broken))).toBe(SESSIONS * (TURNS - 1))
    expect(sum(chains.map(({ broken }) => broken))).toBeGreaterThan(0)
    const causes = tally(rollout.sessions.map(({ stats }) => stats.forks_by_cause))
    expect(causes.get('D1') ?? 0, 'some text is turned into other ids').toBeGreaterThan(0)
    const counted = [...causes].map(([cause, count]) => `${count} ${cause}`).join(', ')
    told = `${sum(chains.map(({ broken }) => broken))} of ${SESSIONS * (TURNS - 1)} continuations break, each reported: ${counted}`
  })

  it('trains every token once all the same, each under the prompt it was drawn from', () => {
    checkAgainstWire(rollout)
    const found = account(rollout, scorer, 1)
    expect(found.trainedTokens).toBe(sum(rollout.wire.map(({ sampledIds }) => sampledIds.length)))
    expectAgreement(found)
    report(`free sampling at ${TEMPERATURE}, vllm`, found, told)
  })
})

function tally(counts: readonly Readonly<Record<string, number>>[]): ReadonlyMap<string, number> {
  const total = new Map<string, number>()
  for (const [name, count] of counts.flatMap((each) => Object.entries(each))) total.set(name, (total.get(name) ?? 0) + count)
  return total
}

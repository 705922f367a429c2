// The outcome table, written out a second time: whoever changes what an outcome means changes it in two places.
import { describe, expect, it } from 'vitest'
import { OUTCOMES } from '../../src/contract/outcome.ts'

describe('an outcome', () => {
  it.each([
    // name, wire status, class, graded, tokens trained, attempted again
    ['completed', 'COMPLETED', 'policy', 'yes', true, false],
    ['agent_error', 'COMPLETED', 'policy', 'yes', true, false],
    ['agent_timeout', 'TIMEOUT', 'policy', 'as-configured', true, false],
    ['context_exhausted', 'TIMEOUT', 'policy', 'as-configured', true, false],
    ['budget_exhausted', 'TIMEOUT', 'policy', 'as-configured', true, false],
    ['harness_error', 'ERROR', 'harness', 'no', false, true],
    ['init_error', 'ERROR', 'infra', 'no', false, true],
    ['runtime_error', 'ERROR', 'infra', 'no', false, true],
    ['upstream_error', 'ERROR', 'infra', 'no', false, true],
    ['interrupted', 'ERROR', 'infra', 'no', false, true],
    ['build_error', 'ERROR', 'infra', 'no', false, false],
    ['evaluator_error', 'ERROR', 'evaluator', 'no', false, false],
    ['evaluator_timeout', 'TIMEOUT', 'evaluator', 'no', false, false],
    ['cancelled', 'ERROR', 'cancelled', 'no', false, false],
  ] as const)('%s is %s for a trainer, to blame is %s, graded: %s, trained: %s, attempted again: %s', (outcome, status, ...rest) => {
    const [outcomeClass, graded, trained, retried] = rest
    expect(OUTCOMES[outcome]).toEqual({ status, class: outcomeClass, graded, trained, retried })
  })

  it('is one of these fourteen', () => {
    expect(Object.keys(OUTCOMES)).toHaveLength(14)
  })

  it('trains only what the policy did, and is attempted again only when the policy is not to blame', () => {
    for (const [name, rule] of Object.entries(OUTCOMES)) {
      expect([name, rule.trained]).toEqual([name, rule.class === 'policy'])
      expect([name, rule.trained && rule.retried]).toEqual([name, false])
    }
  })
})

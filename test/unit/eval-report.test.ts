// The report of an evaluation: the denominator is fixed, one session is one vote, and what is not the policy's fault stands apart.
import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../src/contract/outcome.ts'
import type { Dataset } from '../../src/eval/dataset.ts'
import { planEval } from '../../src/eval/plan.ts'
import { reportEval, type Vote } from '../../src/eval/report.ts'
import { describeEval } from '../../src/eval/report-text.ts'

const dataset: Dataset = {
  name: 'set',
  sha256: 'abc',
  tasks: ['one', 'two', 'three'].map((name) => ({ name, request: { task_id: name } })),
}
const options = { samples: 2, seedBase: 0, run: '' }
const plan = planEval(dataset, options)

const vote = (outcome: Outcome, status: string, reward: number | null): Vote => ({
  session: `s-${outcome}`,
  status,
  outcome,
  reward,
  error: null,
})
const passed = vote('completed', 'COMPLETED', 1)
const failed = vote('completed', 'COMPLETED', 0)

function report(votes: readonly (readonly Vote[])[], more: { readonly threshold?: number; readonly ks?: readonly number[] } = {}) {
  return reportEval(dataset, plan, options, { ks: [1, 2], threshold: 1, ...more }, new Map(votes.map((cast, at) => [at, cast])))
}

describe('every sample of every task counts', () => {
  it('as its reward, or as 0', () => {
    const found = report([
      [passed, failed],
      [passed, passed],
      [failed, failed],
    ])
    expect(found.pass_at_k).toMatchObject([
      { k: 1, value: 0.5 },
      { k: 2, value: 2 / 3 },
    ])
    expect(found).toMatchObject({ sessions: 6, mean_reward: 0.5, failures_not_of_the_policy: 0, classes: { policy: 6 } })
  })

  it.each([
    ['that timed out, whatever its grade', vote('agent_timeout', 'TIMEOUT', 1), 'policy'],
    ['whose sandbox failed', vote('init_error', 'ERROR', null), 'infra'],
    ['whose grader failed', vote('evaluator_error', 'ERROR', null), 'evaluator'],
    ['whose CLI crashed', vote('harness_error', 'ERROR', null), 'harness'],
    ['that was cancelled', vote('cancelled', 'ERROR', null), 'cancelled'],
    ['that has no grade', vote('completed', 'COMPLETED', null), 'policy'],
    ['that has no outcome', { ...passed, outcome: null, status: 'RUNNING', reward: null }, 'missing'],
  ] as const)('a session %s is a failure', (_, lost, of) => {
    const found = report([
      [lost, passed],
      [passed, passed],
      [passed, passed],
    ])
    expect([found.sessions, found.pass_at_k[0]?.value, found.mean_reward]).toEqual([6, 5 / 6, 5 / 6])
    expect(found.classes[of]).toBe(of === 'policy' ? 6 : 1)
    expect(found.failures_not_of_the_policy).toBe(of === 'policy' ? 0 : 1)
  })

  it('also those of a task that the node told nothing of', () => {
    const found = report([[passed, passed], [passed]])
    expect(found).toMatchObject({ sessions: 6, mean_reward: 0.5, outcomes: { completed: 3, missing: 3 }, classes: { missing: 3 } })
    expect(found.tasks[2]?.samples).toMatchObject([{ session_id: null, success: false }, { session_id: null }])
  })

  it('once: more sessions than samples add no vote', () => {
    expect(
      report([
        [failed, failed, passed],
        [failed, failed],
        [failed, failed],
      ]).mean_reward,
    ).toBe(0)
  })
})

it('a success is a reward at the threshold or above', () => {
  const half = vote('completed', 'COMPLETED', 0.5)
  const votes = [
    [half, failed],
    [half, passed],
    [failed, failed],
  ]
  expect(report(votes).tasks.map(({ successes }) => successes)).toEqual([0, 1, 0])
  expect(report(votes, { threshold: 0.5 }).tasks.map(({ successes }) => successes)).toEqual([1, 2, 0])
  expect(report(votes).mean_reward).toBe(2 / 6)
})

it('samples are known by their seeds', () => {
  const [first] = report([]).tasks
  const base = plan.tasks[0]?.seedBase ?? Number.NaN
  expect(first?.samples.map(({ seed }) => seed)).toEqual([base, base + 1])
})

it('is told to a person with what is not the policy’s apart', () => {
  const text = describeEval(
    report([
      [passed, vote('init_error', 'ERROR', null)],
      [passed, failed],
      [failed, failed],
    ]),
  )
  expect(text).toContain('set: 3 tasks × 2 samples = 6 sessions')
  expect(text).toMatch(/pass@1 +33\.3 % +\[ *\d+\.\d %, +\d+\.\d %\]/)
  expect(text).toContain('outcomes: completed 5, init_error 1')
  expect(text).toContain('not the policy’s, and counted as 0: infra 1')
  expect(text).toMatch(/^two +1\/2 +0\.5$/m)
})

// What an evaluation found: every sample of every task has one vote, and one that did not come to a grade is a failure.
import { OUTCOMES, type Outcome, type OutcomeClass } from '../contract/outcome.ts'
import type { Dataset } from './dataset.ts'
import { passAtK, wilsonInterval } from './pass-at-k.ts'
import type { EvalOptions, EvalPlan } from './plan.ts'

/** One session as it ended. */
export type Vote = {
  readonly session: string
  readonly status: string
  readonly outcome: string | null
  readonly reward: number | null
  readonly error: string | null
}

export type Scoring = {
  readonly ks: readonly number[]
  /** A reward of this or more is a success. */
  readonly threshold: number
}

/** `missing`: the node told of no such session. */
type VoteClass = OutcomeClass | 'missing'

type Sample = {
  readonly session_id: string | null
  readonly seed: number
  readonly outcome: string
  readonly class: VoteClass
  /** What counts: 0 for whatever did not end COMPLETED with a grade. */
  readonly reward: number
  readonly success: boolean
  readonly error: string | null
}

type TaskReport = {
  readonly name: string
  readonly task_id: string
  readonly successes: number
  readonly mean_reward: number
  readonly samples: readonly Sample[]
}

export type EvalReport = {
  readonly schema_version: 1
  readonly dataset: { readonly name: string; readonly sha256: string; readonly tasks: number }
  readonly run: { readonly name: string; readonly digest: string; readonly samples: number; readonly seed_base: number }
  readonly threshold: number
  /** The denominator: tasks × samples, whatever became of them. */
  readonly sessions: number
  readonly pass_at_k: readonly { readonly k: number; readonly value: number; readonly low: number; readonly high: number }[]
  readonly interval: string
  readonly mean_reward: number
  readonly outcomes: Readonly<Record<string, number>>
  readonly classes: Readonly<Record<VoteClass, number>>
  /** Failures that say nothing of the policy; they count as 0 like any other. */
  readonly failures_not_of_the_policy: number
  readonly tasks: readonly TaskReport[]
}

const INTERVAL = "Wilson's score interval over tasks, 95 %"

/** `votes` by position; a task without an entry has no votes. */
export function reportEval(
  dataset: Dataset,
  plan: EvalPlan,
  options: EvalOptions,
  scoring: Scoring,
  votes: ReadonlyMap<number, readonly Vote[]>,
): EvalReport {
  const tasks = plan.tasks.map(({ position, name, id, seedBase }): TaskReport => {
    const cast = votes.get(position) ?? []
    const samples = Array.from({ length: options.samples }, (_, i) => count(cast[i], seedBase + i, scoring.threshold))
    return {
      name,
      task_id: id,
      successes: samples.filter(({ success }) => success).length,
      mean_reward: mean(samples.map(({ reward }) => reward)),
      samples,
    }
  })
  const samples = tasks.flatMap((task) => task.samples)
  const classes = { policy: 0, harness: 0, infra: 0, evaluator: 0, cancelled: 0, missing: 0 }
  const outcomes = new Map<string, number>()
  for (const sample of samples) {
    classes[sample.class] += 1
    outcomes.set(sample.outcome, (outcomes.get(sample.outcome) ?? 0) + 1)
  }
  return {
    schema_version: 1,
    dataset: { name: dataset.name, sha256: dataset.sha256, tasks: tasks.length },
    run: { name: options.run, digest: plan.digest, samples: options.samples, seed_base: options.seedBase },
    threshold: scoring.threshold,
    sessions: samples.length,
    pass_at_k: scoring.ks.map((k) => {
      const value = mean(tasks.map(({ successes }) => passAtK(options.samples, successes, k)))
      return { k, value, ...wilsonInterval(value, tasks.length) }
    }),
    interval: INTERVAL,
    mean_reward: mean(samples.map(({ reward }) => reward)),
    outcomes: Object.fromEntries([...outcomes].sort(([a], [b]) => a.localeCompare(b))),
    classes,
    failures_not_of_the_policy: samples.length - classes.policy,
    tasks,
  }
}

function count(vote: Vote | undefined, seed: number, threshold: number): Sample {
  if (vote === undefined)
    return { session_id: null, seed, outcome: 'missing', class: 'missing', reward: 0, success: false, error: 'the node told of no session' }
  const { session, status, outcome, error } = vote
  const isGraded = status === 'COMPLETED' && vote.reward !== null
  const reward = isGraded && vote.reward !== null ? vote.reward : 0
  return {
    session_id: session,
    seed,
    outcome: outcome ?? 'missing',
    class: outcome !== null && isOutcome(outcome) ? OUTCOMES[outcome].class : 'missing',
    reward,
    success: isGraded && reward >= threshold,
    error,
  }
}

function isOutcome(name: string): name is Outcome {
  return Object.hasOwn(OUTCOMES, name)
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}

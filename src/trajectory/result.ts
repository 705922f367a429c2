// A session's final result: the built trajectory under the outcome table, the evaluation and the reward policy.
import { OUTCOMES, type Outcome } from '../contract/outcome.ts'
import type { SessionResult, SessionSummary, Trace, Trajectory } from '../contract/result.ts'
import { resultsAskedFor } from '../contract/result-form.ts'
import { purposeOf } from '../contract/task.ts'
import { SCHEMA_VERSION } from '../contract/wire/version.ts'
import type { Evaluation } from '../evaluators/evaluator.ts'
import { maskRow, recount, trainedTokensOf, weighRows } from './accounting.ts'
import { hoist } from './assemble.ts'
import { parseRewards, type RewardConfig } from './config.ts'
import { isObject } from './conversation.ts'
import type { ResultFacts } from './facts.ts'
import { packSession, unpackTrajectory } from './pack.ts'
import { assignRewards, type Grades, type RowReward } from './rewards.ts'
import { splitTiming } from './timing.ts'

export type Finished = { readonly payload: ArrayBuffer; readonly summary: SessionSummary }

const DEFAULT_REWARDS: RewardConfig = { reward_policy: 'broadcast', reward_discount: 1, rollout_weight: 'rows', parser_filter: true }

/**
 * Writes the result. `packed` is a built trajectory, or null when there is none. An evaluation that failed, or whose rewards do not fit
 * the rows, makes a graded outcome an evaluator error: nothing is trained on a reward that was not given.
 */
export function finishResult(packed: ArrayBuffer | null, facts: ResultFacts): Finished {
  const built = packed === null ? emptyTrajectory(facts) : unpackTrajectory(packed)
  const config = rewardConfigOf(built)
  const graded = grade(built.traces, facts, config)
  const rule = OUTCOMES[graded.outcome]
  const isEvaluation = purposeOf(facts.taskMetadata) === 'evaluation'
  const told = resultsAskedFor(facts.taskMetadata)

  const masked = new Map<string, number>()
  const mask = (trace: Trace, reason: string): Trace => {
    masked.set(reason, (masked.get(reason) ?? 0) + trainedTokensOf(trace))
    return maskRow(trace, reason)
  }
  const rewarded = built.traces.map((trace, at): Trace => {
    if (!rule.trained) return { ...mask(trace, graded.outcome), reward: null }
    const row = graded.rows[at] ?? { reward: null, isMasked: false }
    const kept = isEvaluation ? mask(trace, 'evaluation') : row.isMasked ? mask(trace, 'reward_policy') : trace
    return filterUnparsed(withTurnRewards({ ...kept, reward: row.reward }, row), config)
  })
  const traces = weighRows(rewarded, config.rollout_weight)
  const trainedTokens = traces.reduce((sum, trace) => sum + trainedTokensOf(trace), 0)
  const reward = rule.trained ? graded.reward : null
  const error = graded.error ?? (rule.status === 'COMPLETED' && trainedTokens === 0 && !isEvaluation ? noTrace(built) : null)
  // Polar's readers train nothing of a session that has an error: what an agent failed of is told by its `agent_result` alone.
  const isToTrain = rule.status === 'COMPLETED' && trainedTokens > 0
  const failure = error === null || isToTrain ? {} : { error }
  const timing = splitTiming(facts.timing)
  const stats = isObject(built.metadata.reconstruction_stats) ? built.metadata.reconstruction_stats : {}

  const trajectory: Trajectory = {
    status: rule.status,
    metadata: {
      ...built.metadata,
      ...hoist(facts.taskMetadata),
      task_metadata: facts.taskMetadata,
      reconstruction_stats: recount(stats, traces, masked),
      agent_result: facts.agentResult,
      evaluation: evaluationMetadata(facts),
      outcome: graded.outcome,
      error_class: rule.class,
    },
    traces,
    ...failure,
  }
  const result: SessionResult = {
    session_id: facts.session,
    task_id: facts.task,
    status: rule.status,
    trajectory,
    timing: timing.polar,
    node_id: facts.node,
    ...failure,
    metadata: {
      ...facts.taskMetadata,
      polar_node: {
        schema_version: SCHEMA_VERSION,
        attempt: facts.attempt,
        outcome: graded.outcome,
        outcome_class: rule.class,
        reward,
        calls: facts.calls,
        trained_tokens: trainedTokens,
        ...(isEvaluation ? { purpose: 'evaluation' } : {}),
        ...(told === null ? {} : { results: told }),
        ...(facts.budget === undefined ? {} : { budget: facts.budget }),
        ...(facts.agentResult.isolation === undefined ? {} : { isolation: facts.agentResult.isolation }),
        ...(Object.keys(timing.own).length === 0 ? {} : { timing: timing.own }),
      },
    },
  }
  const summary: SessionSummary = {
    outcome: graded.outcome,
    outcomeClass: rule.class,
    status: rule.status,
    reward,
    error,
    calls: facts.calls,
    model: facts.model,
    traces: traces.length,
    capturedTokens: typeof stats.captured_tokens === 'number' ? stats.captured_tokens : 0,
    trainedTokens,
    usable: rule.status === 'COMPLETED' && trainedTokens > 0,
    retryable: rule.retried && facts.isFinal !== true,
    timing: facts.timing,
  }
  return { payload: packSession(result), summary }
}

/** The result of a session that never ran: cancelled before dispatch, or lost with its gateway. */
export function emptyResult(facts: ResultFacts): Finished {
  return finishResult(null, facts)
}

type Graded = {
  readonly outcome: Outcome
  readonly error: string | null
  readonly reward: number | null
  readonly rows: readonly RowReward[]
}

function grade(traces: readonly Trace[], facts: ResultFacts, config: RewardConfig): Graded {
  const { outcome, error, evaluation } = facts
  if (!OUTCOMES[outcome].trained) return { outcome, error, reward: null, rows: [] }
  if (evaluation?.type === 'failed') return { outcome: 'evaluator_error', error: error ?? evaluation.error, reward: null, rows: [] }
  const grades = gradesOf(evaluation)
  const rewards = assignRewards(traces, grades, config)
  if (!rewards.ok) return { outcome: 'evaluator_error', error: rewards.error, reward: null, rows: [] }
  return { outcome, error, reward: grades.outcome ?? mean(grades.traceRewards), rows: rewards.rows }
}

function gradesOf(evaluation: (Evaluation & { readonly type: 'graded' }) | null): Grades {
  if (evaluation === null) return { outcome: null, traceRewards: null, segmentRewards: null }
  const { segment_rewards: segments } = evaluation.metadata
  const isList = Array.isArray(segments) && segments.every((reward) => typeof reward === 'number')
  return { outcome: evaluation.outcomeReward, traceRewards: evaluation.traceRewards, segmentRewards: isList ? segments : null }
}

function evaluationMetadata({ evaluation, evaluator }: ResultFacts) {
  if (evaluation === null) return null
  if (evaluation.type === 'failed')
    return { strategy: evaluator, outcome_reward: null, trace_rewards: null, error: evaluation.error, log: evaluation.log }
  return { ...evaluation.metadata, strategy: evaluator, outcome_reward: evaluation.outcomeReward, trace_rewards: evaluation.traceRewards }
}

/** Polar's rule for rows with an unparsed tool call: reward 0, still trained, the original kept. */
function filterUnparsed(trace: Trace, config: RewardConfig): Trace {
  if (!config.parser_filter || trace.metadata.unparsed_tool_call !== true || trace.reward === null) return trace
  const filter = { reason: 'unparsed_tool_call', original_reward: trace.reward }
  return { ...trace, reward: 0, metadata: { ...trace.metadata, training_filter: filter } }
}

function withTurnRewards(trace: Trace, row: RowReward): Trace {
  return row.turnRewards === undefined ? trace : { ...trace, metadata: { ...trace.metadata, turn_rewards: row.turnRewards } }
}

function rewardConfigOf(built: Trajectory): RewardConfig {
  const parsed = parseRewards(built.metadata.builder_config ?? {})
  // The build has read the same keys; a trajectory that no builder wrote has none.
  return parsed.ok ? parsed.config : DEFAULT_REWARDS
}

/** A session that ended well but taught nothing is told apart from an empty success. */
function noTrace(built: Trajectory): string {
  const findings = Array.isArray(built.metadata.findings) ? built.metadata.findings.filter(isObject) : []
  const finding = findings.find(({ code }) => code === 'all_calls_aux' || code === 'no_turns' || code === 'no_trainable_call')
  return `no trainable trace${typeof finding?.detail === 'string' ? `: ${finding.detail}` : ''}`
}

function emptyTrajectory(facts: ResultFacts): Trajectory {
  const metadata = {
    session_id: facts.session,
    task_id: facts.task,
    attempt: facts.attempt,
    record_count: facts.calls,
    trace_count: 0,
    findings: facts.calls === 0 ? [{ code: 'no_turns', detail: 'the agent made no model call' }] : [],
  }
  return { status: 'ERROR', metadata, traces: [] }
}

function mean(values: readonly number[] | null): number | null {
  return values === null || values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length
}

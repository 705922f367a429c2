// What a session's calls were made into: rows, and how they were made.
import { z } from 'zod'
import { trace } from './trace.ts'
import { count, jsonObject, outcome, reward, terminalStatus } from './words.ts'

const tokensByReason = z.record(z.string(), count)

export const reconstructionStats = z
  .object({
    chains_total: count,
    chains_reconstructed_full: count,
    chains_reconstructed_truncated: count,
    completions_total: count,
    completions_merged: count,
    merge_ratio: z.number().describe('trained calls per trained row; 1: nothing was merged'),
    delivered_fraction: z.number().describe('of the answers, those that reached the agent'),
    forks_by_cause: z.record(z.string(), count),
    captured_tokens: count.describe('sampled tokens of all calls'),
    trained_tokens: count,
    masked_tokens_by_reason: tokensByReason,
    untrained_calls_by_reason: tokensByReason,
    unreported_context_share: z.number(),
  })
  .partial()
  .meta({ id: 'ReconstructionStats', description: "Polar's counters, then this node's." })

const agentResult = z
  .object({
    status: z.string().describe('completed, failed or timeout'),
    return_code: z.int().nullable(),
    signal: z.string().nullable(),
    error: z.string(),
    timeout_source: z.string().describe('agent or session'),
    timeout_stage: z.string().describe('setup, exec or postprocess'),
    isolation: z.string().describe('how the agent was kept apart, where the runtime says'),
    runtime_notes: z.array(z.unknown()),
  })
  .partial()

const evaluation = z
  .looseObject({
    strategy: z.string().nullable(),
    outcome_reward: reward.nullable(),
    trace_rewards: z.array(reward).nullable().describe('one for each row, in order'),
    error: z.string(),
    log: z.string(),
  })
  .partial()
  .describe('and what the evaluator says of its grade')

export const trajectoryMetadata = z
  .object({
    builder: z.string(),
    builder_config: jsonObject,
    splice: z
      .union([z.string(), z.boolean()])
      .describe('how prefix_merging bridges a history that was tokenized otherwise than it was sampled'),
    session_id: z.string(),
    task_id: z.string(),
    attempt: count,
    api_type: z.string().nullable().describe("the first call's dialect"),
    model_requested: z.string().nullable(),
    model_used: z.string().nullable(),
    record_count: count.describe('calls of the session'),
    trace_count: count,
    task_metadata: jsonObject,
    reconstruction_stats: reconstructionStats,
    reward_policy: z.string(),
    agent_result: agentResult,
    evaluation: evaluation.nullable(),
    outcome,
    error_class: z.string().describe('who is to blame: policy, harness, infra, evaluator or cancelled'),
    edges: z.array(z.unknown()).describe('how calls continue one another'),
    untrained: z.array(z.unknown()).describe('calls that are not trained, with the reason'),
    findings: z.array(z.object({ code: z.string(), detail: z.string() })),
    diagnostics: z.array(z.unknown()).describe('what the model boundary dropped, moved or put back, by code'),
    schema_version: z.number().describe("of these builders' keys; raised when one changes its meaning"),
    group_id: z.unknown(),
    policy_version: z.unknown(),
    rollout_step: z.unknown(),
  })
  .partial()
  .meta({ id: 'TrajectoryMetadata', description: 'How the rows came to be. A builder may add to it.' })

export const trajectory = z
  .object({ status: terminalStatus, metadata: trajectoryMetadata, traces: z.array(trace), error: z.string().optional() })
  .meta({ id: 'Trajectory', description: 'The rows of one session.' })

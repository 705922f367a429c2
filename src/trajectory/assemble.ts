// One build from calls to a checked trajectory: the builder's rows, what every row and trajectory must carry, and the invariants.

import { API_TYPES } from '../contract/call.ts'
import type { Trajectory } from '../contract/result.ts'
import type { StrategySpec } from '../contract/task.ts'
import { trainedTokensOf, weighRows } from './accounting.ts'
import type { Builder, BuilderInput, BuilderOutput } from './builder.ts'
import { parseRewards } from './config.ts'
import { describeViolation, findViolation } from './invariants.ts'
import { buildPrefixMerging } from './prefix-merging.ts'

/** Of the metadata written here; raised when a key changes its meaning. */
const SCHEMA_VERSION = 1
/** Task metadata that Polar's trainers look for beside the rows. */
const HOISTED = ['group_id', 'policy_version', 'rollout_step'] as const

export type Built =
  | { readonly ok: true; readonly trajectory: Trajectory; readonly trainableTokens: number; readonly capturedTokens: number }
  | { readonly ok: false; readonly error: string }

/**
 * Builds and checks. An error of the builder, its own fault or a broken invariant, is a build error that names its cause.
 * `capturedTokens` counts sampled tokens. A session without calls gives a trajectory without traces and status ERROR, as in Polar.
 */
export function assemble(input: BuilderInput, spec: StrategySpec, builder: Builder): Built {
  const rewards = parseRewards(spec.config)
  if (!rewards.ok) return { ok: false, error: rewards.error }
  let output: BuilderOutput
  try {
    output = builder(input, spec.config)
    const isPolar = builder === buildPrefixMerging && output.metadata.splice === 'polar'
    const violation = findViolation(input.calls, output.traces, isPolar ? 'polar' : 'strict')
    if (violation !== null) return { ok: false, error: `builder ${spec.strategy}: ${describeViolation(violation)}` }
  } catch (error) {
    return { ok: false, error: `builder ${spec.strategy} failed: ${error instanceof Error ? error.message : String(error)}` }
  }

  const own = {
    session_id: input.sessionId,
    task_id: input.taskId,
    attempt: input.attempt,
    ...hoist(input.taskMetadata),
  }
  const named = output.traces.map((trace, at) => ({
    ...trace,
    metadata: { ...trace.metadata, ...own, trace_index: at, trace_count: output.traces.length },
  }))
  const traces = weighRows(named, rewards.config.rollout_weight)
  const capturedTokens = input.calls.reduce((sum, call) => sum + call.sampledIds.length, 0)
  const metadata = {
    builder: spec.strategy,
    ...output.metadata,
    ...own,
    ...modelsOf(input),
    record_count: input.calls.length,
    trace_count: traces.length,
    task_metadata: input.taskMetadata,
    builder_config: spec.config,
    reward_policy: rewards.config.reward_policy,
    schema_version: SCHEMA_VERSION,
  }
  const isEmpty = input.calls.length === 0
  const trajectory: Trajectory = {
    status: isEmpty ? 'ERROR' : 'COMPLETED',
    metadata,
    traces,
    ...(isEmpty ? { error: 'no completions' } : {}),
  }
  return { ok: true, trajectory, trainableTokens: traces.reduce((sum, trace) => sum + trainedTokensOf(trace), 0), capturedTokens }
}

export function hoist(taskMetadata: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(HOISTED.filter((key) => key in taskMetadata).map((key) => [key, taskMetadata[key]]))
}

/** Polar names the first call's dialect and models for the whole session. */
function modelsOf({ calls }: BuilderInput) {
  const first = calls.toSorted((a, b) => a.record.sequence - b.record.sequence)[0]?.record
  if (first === undefined) return { api_type: null, model_requested: null, model_used: null }
  return { api_type: API_TYPES[first.dialect], model_requested: first.modelRequested, model_used: first.modelServed }
}

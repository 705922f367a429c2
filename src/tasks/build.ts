// The task that turns a sealed session's tokens and records into a packed trajectory.
import { readCalls } from '../tokens/reader.ts'
import { assemble } from '../trajectory/assemble.ts'
import type { BuilderCall } from '../trajectory/builder.ts'
import { packCompletions, sealedPart } from '../trajectory/completions.ts'
import { packTrajectory } from '../trajectory/pack.ts'
import { findBuilder } from '../trajectory/registry.ts'
import type { BuildAnswer, BuildTask } from './protocol.ts'

export async function buildTrajectory(task: BuildTask): Promise<BuildAnswer> {
  const completions = task.calls.length === 0 ? null : packCompletions(sealedPart(task))
  const found = await findBuilder(task.strategy.strategy, task.customs)
  if (!found.ok) return { ...found, completions }
  const tokens = readCalls(task.reference)
  if (tokens.length !== task.calls.length)
    return { ok: false, error: `${task.calls.length} records for the tokens of ${tokens.length} calls`, completions }
  const calls = task.calls.flatMap((record, at): BuilderCall[] => {
    const read = tokens[at]
    return read === undefined ? [] : [{ record, ...read }]
  })
  const { session, task: taskId, attempt, messages, taskMetadata } = task
  const built = assemble({ sessionId: session, taskId, attempt, calls, messages, taskMetadata }, task.strategy, found.builder)
  if (!built.ok) return { ...built, completions }
  const { trajectory, trainableTokens, capturedTokens } = built
  return { ok: true, payload: packTrajectory(trajectory), traces: trajectory.traces.length, trainableTokens, capturedTokens, completions }
}

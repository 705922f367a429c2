// What a session says of itself in its result: how it ended, by whose word, and what is shown to Polar's readers for that.
import type { GatewayId } from '../../contract/ids.ts'
import { OUTCOMES } from '../../contract/outcome.ts'
import type { BudgetUse } from '../../contract/session-budget.ts'
import type { ResultFacts } from '../../trajectory/facts.ts'
import type { SessionSpec } from '../gateway/protocol.ts'
import type { SessionEffect } from './phases.ts'

export function factsOf(
  spec: SessionSpec,
  node: GatewayId,
  effect: Extract<SessionEffect, { type: 'finish' }>,
  budget: BudgetUse | null,
): ResultFacts {
  const { outcome, error, isFinal } = effect
  const exit = effect.ended?.exit ?? null
  // Polar's readers train a session that timed out only where it was the agent's own budget that ran out.
  const { status, trained } = OUTCOMES[outcome]
  const isTimeout = status === 'TIMEOUT' && trained
  const isStoppedEarly = effect.cancelled === 'stopped early: enough usable sessions'
  return {
    session: spec.session,
    task: spec.task,
    attempt: spec.attempt,
    node,
    outcome,
    error,
    isFinal,
    timing: effect.timing,
    // As for sessions that were stopped before they were dispatched, so that a trainer reads one kind of mark.
    taskMetadata: isStoppedEarly ? { ...spec.request.metadata, early_stop_cancelled: true, fully_masked: true } : spec.request.metadata,
    agentResult: {
      status: outcome === 'completed' ? 'completed' : isTimeout ? 'timeout' : 'failed',
      return_code: exit?.type === 'exited' ? exit.code : null,
      signal: exit?.type === 'signalled' ? exit.signal : null,
      ...(error === null ? {} : { error }),
      ...(isTimeout ? { timeout_source: 'agent', timeout_stage: 'exec' } : {}),
      runtime_notes: effect.notes,
    },
    evaluation: effect.evaluation,
    evaluator: spec.kind === 'capture' && effect.evaluation !== null ? 'client' : (spec.request.evaluator?.strategy ?? null),
    calls: effect.calls,
    ...(budget === null ? {} : { budget }),
    model: effect.model,
  }
}

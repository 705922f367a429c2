// How a session ended, and what follows from it: the one table that decides status, mask, reward and retry.

/** Polar's session statuses, in the order in which a session passes them. */
export type SessionStatus =
  | 'REGISTERED'
  | 'INITIALIZING'
  | 'READY'
  | 'RUNNING'
  | 'POST_RUN'
  | 'BUILDING'
  | 'EVALUATING'
  | 'COMPLETED'
  | 'ERROR'
  | 'TIMEOUT'

export type TerminalStatus = 'COMPLETED' | 'ERROR' | 'TIMEOUT'

export type Outcome =
  | 'completed'
  | 'agent_error'
  | 'agent_timeout'
  | 'context_exhausted'
  | 'budget_exhausted'
  | 'harness_error'
  | 'init_error'
  | 'runtime_error'
  | 'upstream_error'
  | 'interrupted'
  | 'build_error'
  | 'evaluator_error'
  | 'evaluator_timeout'
  | 'cancelled'

/** Who is to blame. Only `policy` may train. */
export type OutcomeClass = 'policy' | 'harness' | 'infra' | 'evaluator' | 'cancelled'

export type OutcomeRule = {
  readonly status: TerminalStatus
  readonly class: OutcomeClass
  /** Whether an evaluator is asked: always, as the task configures, or never. */
  readonly graded: 'yes' | 'as-configured' | 'no'
  /** Whether sampled tokens keep their loss mask. */
  readonly trained: boolean
  /** Whether a new attempt is made while `max_attempts` allows it and another could end otherwise. */
  readonly retried: boolean
}

const rule = (
  status: TerminalStatus,
  outcomeClass: OutcomeClass,
  graded: OutcomeRule['graded'],
  trained: boolean,
  retried: boolean,
): OutcomeRule => ({ status, class: outcomeClass, graded, trained, retried })

export const OUTCOMES: { readonly [K in Outcome]: OutcomeRule } = {
  completed: rule('COMPLETED', 'policy', 'yes', true, false),
  agent_error: rule('COMPLETED', 'policy', 'yes', true, false),
  agent_timeout: rule('TIMEOUT', 'policy', 'as-configured', true, false),
  context_exhausted: rule('TIMEOUT', 'policy', 'as-configured', true, false),
  budget_exhausted: rule('TIMEOUT', 'policy', 'as-configured', true, false),
  harness_error: rule('ERROR', 'harness', 'no', false, true),
  init_error: rule('ERROR', 'infra', 'no', false, true),
  runtime_error: rule('ERROR', 'infra', 'no', false, true),
  upstream_error: rule('ERROR', 'infra', 'no', false, true),
  interrupted: rule('ERROR', 'infra', 'no', false, true),
  build_error: rule('ERROR', 'infra', 'no', false, false),
  evaluator_error: rule('ERROR', 'evaluator', 'no', false, false),
  evaluator_timeout: rule('TIMEOUT', 'evaluator', 'no', false, false),
  cancelled: rule('ERROR', 'cancelled', 'no', false, false),
}

/** Polar's own words where it was asked for, since its clients look for them; any other reason is told. */
export function cancelledError(reason: string): string {
  return reason === 'cancelled by the trainer' || reason === 'deleted' ? 'session cancelled' : `session cancelled: ${reason}`
}

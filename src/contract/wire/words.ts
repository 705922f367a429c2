// Words and measures that many messages share.
import { z } from 'zod'
import type { SessionStatus, TerminalStatus } from '../outcome.ts'
import type { TaskStatus } from '../task.ts'

/** Ten words where Polar has them all; `DISPATCHING` and `CANCELLED` are not among them. */
export const sessionStatus = z.enum({
  REGISTERED: 'REGISTERED',
  INITIALIZING: 'INITIALIZING',
  READY: 'READY',
  RUNNING: 'RUNNING',
  POST_RUN: 'POST_RUN',
  BUILDING: 'BUILDING',
  EVALUATING: 'EVALUATING',
  COMPLETED: 'COMPLETED',
  ERROR: 'ERROR',
  TIMEOUT: 'TIMEOUT',
} satisfies { readonly [S in SessionStatus]: S })

export const terminalStatus = z.enum({ COMPLETED: 'COMPLETED', ERROR: 'ERROR', TIMEOUT: 'TIMEOUT' } satisfies {
  readonly [S in TerminalStatus]: S
})

export const taskState = z.enum({
  running: 'running',
  cancelling: 'cancelling',
  cancelled: 'cancelled',
  completed: 'completed',
  failed: 'failed',
} satisfies { readonly [S in TaskStatus]: S })

export const deliveryState = z.enum(['none', 'pending', 'delivered', 'dead']).describe('of the callback; `none`: the task has none')

export const count = z.int().nonnegative()
export const jsonObject = z.record(z.string(), z.unknown())
export const unixSeconds = z.number().describe('seconds since 1970')
export const milliseconds = z.number().nonnegative()
export const reward = z.number().describe('finite')
/** A string and no enumeration: later versions may know more of them. */
export const outcome = z
  .string()
  .describe(
    'how it ended: completed, agent_error, agent_timeout, context_exhausted, budget_exhausted, harness_error, init_error, runtime_error, upstream_error, interrupted, build_error, evaluator_error, evaluator_timeout or cancelled',
  )

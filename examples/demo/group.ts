// One group of samples as the trainer got it: a row per session, and whether it has anything to teach.
import { OUTCOMES, type Outcome } from '../../src/contract/outcome.ts'
import type { Callback, Trace } from './listener.ts'

type Row = {
  readonly session_id: string
  readonly outcome: string
  readonly reward: number | null
  readonly calls: number
  readonly traces: number
  readonly tokens: number
  readonly trained_tokens: number
}

export type Group = {
  readonly rows: readonly Row[]
  /** Rewards that are all alike give every sample the advantage 0: the group is no gradient. A session that was not graded has none. */
  readonly teaches: boolean
  /** Of a session that was right, after several turns; null when none was. */
  readonly solution: Trace | null
  /** What no policy may be blamed for. */
  readonly problems: readonly string[]
}

export function readGroup({ result, idempotencyKey }: Callback): Group {
  const rows = result.results.map((session): Row => {
    const { traces } = session.trajectory
    const own = session.metadata.polar_node
    return {
      session_id: session.session_id,
      outcome: own?.outcome ?? session.status,
      reward: own?.reward ?? null,
      calls: own?.calls ?? 0,
      traces: traces.length,
      tokens: sum(traces.map((trace) => trace.prompt_ids.length + trace.response_ids.length)),
      trained_tokens: sum(traces.map((trace) => sum(trace.loss_mask))),
    }
  })
  const solved = rows.findIndex(({ reward, calls }) => reward === 1 && calls > 1)
  return {
    rows,
    teaches: new Set(rows.map(({ reward }) => reward).filter((reward) => reward !== null)).size > 1,
    solution: result.results[solved]?.trajectory.traces[0] ?? null,
    problems: [
      ...(result.status === 'completed' ? [] : [`task ${result.task_id} ended ${result.status}`]),
      ...rows.filter(({ outcome }) => !isOfPolicy(outcome)).map((row) => `session ${row.session_id} ended ${row.outcome}`),
      ...rows.filter((row) => row.trained_tokens === 0).map((row) => `session ${row.session_id} has no token to train on`),
      ...(idempotencyKey === '' ? [`the callback of ${result.task_id} had no idempotency key`] : []),
    ],
  }
}

export function groupLines({ rows }: Group): readonly string[] {
  const lines = rows.map((row) => {
    const numbers = [row.calls, row.traces, row.tokens, row.trained_tokens].map((n) => String(n).padStart(7))
    return `  ${row.session_id.padEnd(46)} ${row.outcome.padEnd(17)}${String(row.reward ?? '–').padStart(6)}${numbers.join('')}`
  })
  return ['  session                                        outcome          reward  calls traces tokens trained', ...lines]
}

function isOfPolicy(outcome: string): boolean {
  return Object.hasOwn(OUTCOMES, outcome) && OUTCOMES[outcome as Outcome].class === 'policy' // it is one of its keys
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

// What the doctor reads of a session's result: outcome, calls, trained rows, and the edges where a token chain broke.
import { z } from 'zod'

const windowSchema = z.object({
  start: z.number(),
  common: z.array(z.number()),
  earlier: z.array(z.number()),
  later: z.array(z.number()),
})

const edgeSchema = z.object({
  kind: z.enum(['extends', 'retry_of', 'rewrites', 'compaction_of', 'subagent_of', 'aux']),
  call_id: z.string().nullable(),
  of: z.string().nullable(),
  drift: z
    .object({
      class: z.enum(['D1', 'D2', 'D4', 'D5', 'D7', 'D8', 'D9', 'D11', 'D12', 'D17', 'unclassified']),
      index: z.number().nullable(),
      reason: z.string(),
      window: windowSchema.nullable(),
    })
    .nullish(),
})

/** Of a task's state as the control API gives it. A session that never ran has a trajectory without edges. */
export const taskResultsSchema = z.object({
  results: z.array(
    z.object({
      session_id: z.string(),
      error: z.string().nullish(),
      trajectory: z.object({
        traces: z.array(
          z.object({
            loss_mask: z.array(z.number()),
            metadata: z.object({ turns: z.array(z.object({ trained: z.boolean() })).default([]) }),
          }),
        ),
        metadata: z.object({
          /** Also tells what an agent failed of whose session is trained. */
          agent_result: z.object({ error: z.string().nullish() }).default({}),
          edges: z.array(edgeSchema).default([]),
          findings: z.array(z.object({ code: z.string(), detail: z.string() })).default([]),
        }),
      }),
      metadata: z.object({ polar_node: z.object({ outcome: z.string(), calls: z.number() }) }),
    }),
  ),
})

export type DriftWindow = z.infer<typeof windowSchema>
export type Edge = z.infer<typeof edgeSchema>

export type SessionReading = {
  readonly session: string
  /** As the user knows it. */
  readonly task: string
  readonly outcome: string
  readonly error: string | null
  readonly calls: number
  readonly trainedCalls: number
  /** Rows that train a token. */
  readonly rows: number
  readonly edges: readonly Edge[]
  readonly findings: readonly { readonly code: string; readonly detail: string }[]
}

export function readSessions(task: string, { results }: z.infer<typeof taskResultsSchema>): readonly SessionReading[] {
  return results.map(({ session_id, error, trajectory, metadata }) => {
    const trained = trajectory.traces.filter(({ loss_mask }) => loss_mask.includes(1))
    return {
      session: session_id,
      task,
      outcome: metadata.polar_node.outcome,
      error: error ?? trajectory.metadata.agent_result.error ?? null,
      calls: metadata.polar_node.calls,
      trainedCalls: trained.reduce((sum, { metadata: { turns } }) => sum + turns.filter((turn) => turn.trained).length, 0),
      rows: trained.length,
      edges: trajectory.metadata.edges,
      findings: trajectory.metadata.findings,
    }
  })
}

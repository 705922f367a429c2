// The calls of a session that runs, packed for whoever looks at them: copied here, and written by the thread's CPU pool.
import type { Boundary } from '../../proxy/boundary.ts'
import type { CpuPool } from '../../tasks/pool.ts'
import type { CompletionsReply, SessionSpec } from './protocol.ts'

export type ReadCalls = (spec: SessionSpec, from: number, limit: number) => Promise<CompletionsReply>

/** Copying holds up the agents of this thread: more is read in several parts. */
const MAX_CALLS = 64
const MAX_TEXT = 4 * 2 ** 20
const PACK_MS = 30_000

export function openCallReader(boundary: Pick<Boundary, 'callsOf'>, cpu: CpuPool): ReadCalls {
  return async ({ session, task, request }, from, limit) => {
    const part = boundary.callsOf(session, { from, limit: Math.min(limit, MAX_CALLS), maxText: MAX_TEXT })
    if (part === null) return { type: 'none' }
    const settled = await cpu.run('packCompletions', { session, task, taskMetadata: request.metadata, ...part }, { timeoutMs: PACK_MS })
    if (!settled.ok) return { type: 'failed', detail: `${settled.error}: ${settled.detail}` }
    return { type: 'packed', packed: settled.value.packed }
  }
}

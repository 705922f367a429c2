// Which replica is asked next for a place, and what a caller is told when none gave one.
import type { ReplicaId } from '../../contract/ids.ts'
import { type Failure, failure } from '../failure.ts'
import type { Acquired } from './protocol.ts'

/** What the choice looks at of a replica. */
export type Choosable = {
  readonly replica: { readonly id: ReplicaId; readonly limits: { readonly inFlight: number } }
  readonly isServing: boolean
  /** Calls that hold or await a place. */
  readonly outstanding: number
  /** Sessions whose prefixes it holds. */
  readonly sessions: number
}

export type Refusal = Extract<Acquired, { type: 'refused' }>

/** The best of those that were not asked; null when all were. `avoid`: replicas this call just found unreachable; they come last. */
export function nextOf<M extends Choosable>(
  members: Iterable<M>,
  asked: ReadonlySet<M>,
  pinned: M | undefined,
  avoid: ReadonlySet<ReplicaId>,
): M | null {
  let best: M | null = null
  let bestRank: readonly number[] = []
  for (const member of members) {
    if (asked.has(member)) continue
    const rank = [
      avoid.has(member.replica.id) ? 1 : 0,
      // Nobody waits for a probe while somebody serves.
      member.isServing ? 0 : 1,
      // A free replica beats waiting for the warm one; among free or among busy ones the warm one wins.
      member.outstanding < member.replica.limits.inFlight ? 0 : 1,
      member === pinned ? 0 : 1,
      // A session stays where its first call went: what counts is who lives there, not who calls at this moment.
      member.sessions,
      member.outstanding,
    ]
    if (best === null || compareRanks(rank, bestRank) < 0) {
      best = member
      bestRank = rank
    }
  }
  return best
}

/** What the caller is told when nobody served it: waiting helps when somebody is merely busy. */
export function failureOf(refusals: readonly Refusal[]): Failure {
  const busy = refusals.filter(({ reason }) => reason === 'full' || reason === 'paused')
  if (busy.length > 0) return failure('overloaded', 'every inference server is busy; try again later', { retryAfterMs: soonest(busy) })
  const down = refusals.filter(({ reason }) => reason === 'down')
  if (down.length > 0)
    return failure('engine-unreachable', 'no inference server can be reached; try again later', { retryAfterMs: soonest(down) })
  const [first] = refusals
  if (first !== undefined) return failure('not-trainable', first.detail)
  return failure('engine-unreachable', 'there is no inference server; try again later', { retryAfterMs: NONE_RETRY_MS })
}

/** Servers can be added while the node runs. */
const NONE_RETRY_MS = 1_000

function soonest(refusals: readonly Refusal[]): number {
  return Math.min(...refusals.map(({ retryAfterMs }) => retryAfterMs))
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

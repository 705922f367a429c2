// What is kept of calls for those who look at them: needed by nobody, so it has only the room that everything else leaves free.
import type { SessionId } from '../../contract/ids.ts'
import { emptyTable, insert, lookUp, remove, type Table } from '../table.ts'

export type KeptCompletions = {
  readonly bySession: Table<SessionId, ArrayBuffer>
  /** Oldest first. */
  readonly order: readonly SessionId[]
  readonly bytes: number
}

export const NO_COMPLETIONS: KeptCompletions = { bySession: emptyTable(), order: [], bytes: 0 }

/** In place of what the session had before; null: it has none now. */
export function keepCompletions(kept: KeptCompletions, session: SessionId, completions: ArrayBuffer | null): KeptCompletions {
  const rest = dropCompletions(kept, session)
  if (completions === null) return rest
  return {
    bySession: insert(rest.bySession, session, completions),
    order: [...rest.order, session],
    bytes: rest.bytes + completions.byteLength,
  }
}

export function dropCompletions(kept: KeptCompletions, session: SessionId): KeptCompletions {
  const known = lookUp(kept.bySession, session)
  if (known === undefined) return kept
  return {
    bySession: remove(kept.bySession, session),
    order: kept.order.filter((other) => other !== session),
    bytes: kept.bytes - known.byteLength,
  }
}

/** Drops the oldest until the rest has room in so many bytes. */
export function fitCompletions(kept: KeptCompletions, bytes: number): KeptCompletions {
  let next = kept
  for (const session of kept.order) {
    if (next.bytes <= bytes) break
    next = dropCompletions(next, session)
  }
  return next
}

/** A copy: what an answer carries may be transferred to another thread, the original stays. */
export function readCompletions(kept: KeptCompletions, session: SessionId): ArrayBuffer | null {
  return lookUp(kept.bySession, session)?.slice(0) ?? null
}

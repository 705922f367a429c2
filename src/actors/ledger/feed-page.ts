// One read of the feed: its rows from a reader's place on, filled in with what the ledger keeps of them.
import { unreachable } from '../../kernel/unreachable.ts'
import { lookUp } from '../table.ts'
import { type FeedRow, rowsAfter } from './feed.ts'
import type { FeedEntry, FeedPage, LedgerCommand } from './protocol.ts'
import type { LedgerState } from './state.ts'

type ReadFeed = Extract<LedgerCommand, { readonly type: 'read-feed' }>

export function readFeed(state: LedgerState, { after, types, limit }: ReadFeed): FeedPage {
  const { feed, identity } = state
  const placeAt = (sequence: number) => ({ ledger: identity, sequence })
  if (after === 'latest') return { entries: [], next: placeAt(feed.last), missed: false, startsOver: false }
  const startsOver = after !== 'oldest' && (after.ledger !== identity || after.sequence > feed.last)
  const from = after === 'oldest' || startsOver ? 0 : after.sequence
  const missed = startsOver || from < feed.lost
  const entries: FeedEntry[] = []
  for (const row of rowsAfter(feed, from)) {
    const entry = types.includes(row.type) ? entryOf(state, row) : null
    if (entry === null) continue
    entries.push(entry)
    if (entries.length === limit) return { entries, next: placeAt(row.sequence), missed, startsOver }
  }
  return { entries, next: placeAt(feed.last), missed, startsOver }
}

/** Never null for a row of the feed: it leaves with what it names. */
function entryOf(state: LedgerState, row: FeedRow): FeedEntry | null {
  const { sequence } = row
  switch (row.type) {
    case 'session': {
      const result = lookUp(state.results, row.session)
      if (result === undefined) return null
      const { task, attempt, summary, payload } = result
      const name = lookUp(state.tasks, task)?.name ?? task
      return { type: 'session', sequence, session: row.session, task: name, attempt, summary, bytes: payload.byteLength }
    }
    case 'task': {
      const task = lookUp(state.tasks, row.task)
      return task?.ended == null ? null : { type: 'task', sequence, task: row.task, status: task.ended, delivery: task.delivery }
    }
    default:
      return unreachable(row)
  }
}

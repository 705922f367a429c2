// A trainer that follows the feed while the day goes on, and what it must have read at the end of it.
import type { FeedCursor, FeedEntry, FeedPage, LedgerCommand } from '../../../src/actors/ledger/protocol.ts'
import type { Address } from '../../../src/kernel/address.ts'
import type { Kernel } from '../../../src/kernel/kernel.ts'
import type { Day } from './simulation.ts'

const ASK_MS = 30_000
/** Small, so that a day has pages. */
const PAGE = 7

export type FeedReader = {
  /** Up to what is there now. */
  read(): Promise<void>
  readonly entries: readonly FeedEntry[]
}

export function openFeedReader(kernel: Pick<Kernel, 'ask'>, ledger: Address<LedgerCommand>): FeedReader {
  const entries: FeedEntry[] = []
  let after: FeedCursor | 'oldest' = 'oldest'
  return {
    entries,
    async read() {
      for (;;) {
        const from: FeedCursor | 'oldest' = after
        const page = await kernel.ask<LedgerCommand, FeedPage>(
          ledger,
          (ask) => ({ type: 'read-feed', after: from, types: ['session', 'task'], limit: PAGE, ask }),
          ASK_MS,
        )
        // It asks again at its next look.
        if (!page.ok) return
        if (page.value.missed || page.value.startsOver) throw new Error('nothing is dropped on a day, and the reader was always there')
        entries.push(...page.value.entries)
        after = page.value.next
        if (page.value.entries.length < PAGE) return
      }
    },
  }
}

/** What was read while the day went on: a result that another attempt replaced later would stand here with the wrong attempt, or twice. */
export function feedHasEveryEndOnce({ views, captures, results, feed }: Day): readonly string[] {
  const found: string[] = []
  const places = new Map<string, number>()
  for (const [place, entry] of feed.entries()) {
    const name = entry.type === 'session' ? `session ${entry.session}` : `task ${entry.task}`
    if (places.has(name)) found.push(`${name} is in the feed twice`)
    places.set(name, place)
    if (entry.type !== 'session') continue
    const stands = results.get(entry.session)?.attempt
    if (entry.attempt !== stands) found.push(`${name} is in the feed with attempt ${entry.attempt}, and ${stands} stands`)
  }
  for (const { task, sessions } of views.values()) {
    const end = places.get(`task ${task}`)
    if (end === undefined) found.push(`the end of task ${task} is not in the feed`)
    for (const { session } of sessions) {
      const place = places.get(`session ${session}`)
      if (place === undefined) found.push(`session ${session} is not in the feed`)
      else if (end !== undefined && place > end) found.push(`session ${session} is in the feed behind the end of its task`)
    }
  }
  for (const { session, summary } of captures.values()) {
    if (summary !== null && !places.has(`session ${session}`)) found.push(`session ${session}, which was by itself, is not in the feed`)
  }
  return found
}

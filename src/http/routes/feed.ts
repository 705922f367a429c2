// The feed of results over HTTP: pages by cursor, and readers who wait for the next entry.
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { FeedCursor, FeedEntry, FeedPage, LedgerCommand } from '../../actors/ledger/protocol.ts'
import { feedPage } from '../../contract/wire/feed.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { RouteContext } from '../control-api.ts'
import { refuse } from '../errors.ts'
import { operation } from '../operation.ts'
import { fieldProblems } from '../problems.ts'

const LEDGER_DEADLINE_MS = 10_000
const CURSOR = /^([A-Za-z0-9]{1,64})-(\d{1,15})$/
const TYPES: readonly FeedEntry['type'][] = ['session', 'task']

const feedQuery = z.object({
  after: z
    .string()
    .refine((text) => text === 'latest' || CURSOR.test(text), 'must be a cursor of this feed, or `latest`')
    .optional()
    .describe('a cursor; `latest`: only what comes from now on; absent: from the oldest that is kept'),
  limit: z.coerce.number().int().min(1).max(1_000).default(200),
  wait_seconds: z.coerce.number().min(0).max(60).default(0).describe('how long to wait for an entry when there is none yet'),
  types: z
    .string()
    .regex(/^(session|task)(,(session|task))*$/, 'must be session, task, or both with a comma between')
    .default('session,task'),
})

export function feedRoutes(app: FastifyInstance, context: RouteContext): void {
  const { kernel, ledger, feedWaiters } = context

  const feed = operation({
    tag: 'results',
    summary: 'Results and ended tasks in the order in which they became final',
    description:
      'For a trainer that was away: it keeps `next` and asks with it as `after`. What is no longer kept is told by `missed`, a cursor of an earlier process of the node by `start_over`.',
    query: feedQuery,
    answer: feedPage,
    errors: ['invalid'],
  })
  app.get('/feed', feed, async ({ query }, reply) => {
    const parsed = feedQuery.safeParse(query)
    if (!parsed.success) return refuse(reply, 'invalid', fieldProblems('query', parsed.error.issues, query))
    const { limit, wait_seconds: waitSeconds } = parsed.data
    const untilMs = kernel.clock.nowMs() + waitSeconds * 1_000
    const types = TYPES.filter((type) => parsed.data.types.split(',').includes(type))
    const first = await read(placeOf(parsed.data.after), types, limit)
    if (first === null) return refuse(reply, 'unavailable')
    if (waitSeconds === 0 || hasNews(first)) return reply.send(pageJson(first))

    const waiter = feedWaiters.enter(types)
    if (waiter === null) return refuse(reply.header('retry-after', '1'), 'unavailable', 'as many readers as allowed wait for the feed')
    reply.raw.on('close', waiter.leave)
    // Its client may be gone since the first look.
    if (reply.raw.destroyed) waiter.leave()
    try {
      let page = first
      // It has a place only now: what came since the first look woke nobody.
      do {
        const next = await read(page.next, types, limit)
        if (next === null) return refuse(reply, 'unavailable')
        page = next
      } while (!hasNews(page) && (await waiter.news(untilMs)))
      return reply.raw.destroyed ? reply.hijack() : reply.send(pageJson(page))
    } finally {
      waiter.leave()
    }
  })

  async function read(
    after: FeedCursor | 'oldest' | 'latest',
    types: readonly FeedEntry['type'][],
    limit: number,
  ): Promise<FeedPage | null> {
    const answer = await kernel.ask<LedgerCommand, FeedPage>(
      ledger,
      (ask) => ({ type: 'read-feed', after, types, limit, ask }),
      LEDGER_DEADLINE_MS,
    )
    return answer.ok ? answer.value : null
  }
}

function hasNews({ entries, missed, startsOver }: FeedPage): boolean {
  return entries.length > 0 || missed || startsOver
}

function placeOf(after: string | undefined): FeedCursor | 'oldest' | 'latest' {
  if (after === undefined) return 'oldest'
  if (after === 'latest') return 'latest'
  const [, ledger = '', sequence = ''] = CURSOR.exec(after) ?? []
  return { ledger, sequence: Number(sequence) }
}

function pageJson({ entries, next, missed, startsOver }: FeedPage): z.input<typeof feedPage> {
  const cursorAt = (sequence: number) => `${next.ledger}-${sequence}`
  return {
    entries: entries.map((entry) => entryJson(entry, cursorAt(entry.sequence))),
    next: cursorAt(next.sequence),
    missed,
    start_over: startsOver,
  }
}

function entryJson(entry: FeedEntry, cursor: string): z.input<typeof feedPage>['entries'][number] {
  switch (entry.type) {
    case 'session': {
      const { session, task, attempt, bytes, summary } = entry
      const { status, outcome, reward, traces } = summary
      const href = `/sessions/${session}/result`
      return { type: 'session', cursor, session_id: session, task_id: task, status, outcome, reward, attempt, traces, bytes, href }
    }
    case 'task': {
      const { task, status, delivery } = entry
      return { type: 'task', cursor, task_id: task, status, delivery: delivery ?? 'none', href: `/rollout/task/${task}` }
    }
    default:
      return unreachable(entry)
  }
}

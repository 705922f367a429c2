// The feed over HTTP: pages by cursor, readers who wait, and what a reader is told who was away too long.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type ControlApi, openControlApi } from '../../src/http/control-api.ts'
import { openControl, TOKEN, task } from './control-world.ts'

type Row = {
  readonly type: 'session' | 'task'
  readonly cursor: string
  readonly task_id: string
  readonly session_id?: string
  readonly href: string
}

let control: Awaited<ReturnType<typeof openControl>>
beforeEach(async () => {
  control = await openControl()
  control.startGateway(20)
})
afterEach(() => control.close())

const feed = (query = '') => control.call('GET', `/feed${query}`)
const names = (rows: readonly Row[]) => rows.map((row) => row.session_id ?? row.task_id)

async function submit(id: string, overrides: Record<string, unknown> = {}): Promise<readonly string[]> {
  const before = new Set(control.held.keys())
  const { body } = await control.call('POST', '/rollout/task/submit', task(id, overrides))
  expect(body).toEqual({ task_id: id, status: 'running' })
  const samples = Number(overrides.num_samples ?? 1)
  await vi.waitUntil(() => control.held.size === before.size + samples, { timeout: 20_000, interval: 1 })
  return [...control.held.keys()].filter((session) => !before.has(session))
}

async function finish(session: string | undefined): Promise<void> {
  const held = [...control.held.keys()].find((each) => each === session)
  if (held === undefined) throw new Error(`${session} is not held`)
  await control.finish(held, 'completed')
}

/** A task of one session that has ended. */
async function done(id: string): Promise<string> {
  const [session = ''] = await submit(id)
  await finish(session)
  await vi.waitUntil(async () => names((await feed()).body.entries).includes(id), { timeout: 20_000, interval: 1 })
  return session
}

/** Reads of the feed by the ledger; a reader who waits has read it twice. */
function countReads(): () => number {
  let reads = 0
  control.kernel.inspect(({ message }) => {
    // Of any actor.
    if ((message as { readonly type?: string }).type === 'read-feed') reads += 1
  })
  return () => reads
}

describe('GET /feed', () => {
  it('has each session when it has ended, and the task behind its sessions, with where to read them', async () => {
    const [first, second] = await submit('t', { num_samples: 2, callback_url: 'http://127.0.0.1:9000/cb' })
    expect((await feed()).body).toMatchObject({ entries: [], missed: false, start_over: false })
    await finish(second)
    await vi.waitUntil(async () => (await feed()).body.entries.length === 1, { timeout: 20_000, interval: 1 })
    await finish(first)
    await vi.waitUntil(async () => (await feed()).body.entries.length === 3, { timeout: 20_000, interval: 1 })
    await vi.waitUntil(async () => (await feed()).body.entries[2].delivery === 'delivered', { timeout: 20_000, interval: 1 })
    const { entries, next } = (await feed()).body
    expect(entries).toEqual([
      ...[second, first].map((session) => ({
        type: 'session',
        cursor: expect.any(String),
        session_id: session,
        task_id: 't',
        status: 'COMPLETED',
        outcome: 'completed',
        reward: null,
        attempt: 1,
        traces: 0,
        bytes: expect.any(Number),
        href: `/sessions/${session}/result`,
      })),
      { type: 'task', cursor: next, task_id: 't', status: 'completed', delivery: 'delivered', href: '/rollout/task/t' },
    ])
    for (const { href } of entries) expect((await control.call('GET', href)).status).toBe(200)
  })

  it('goes on behind any cursor it gave, however small the pages', async () => {
    const sessions = [await done('a'), await done('b'), await done('c')]
    const seen: Row[] = []
    let after = ''
    for (;;) {
      const { entries, next } = (await feed(`?limit=1${after}`)).body
      if (entries.length === 0) break
      seen.push(...entries)
      after = `&after=${next}`
    }
    expect(names(seen)).toEqual([sessions[0], 'a', sessions[1], 'b', sessions[2], 'c'])
    expect(names((await feed(`?after=${seen[3]?.cursor}`)).body.entries)).toEqual([sessions[2], 'c'])
    expect(names((await feed('?types=task')).body.entries)).toEqual(['a', 'b', 'c'])
    expect(names((await feed('?types=task,session&limit=2')).body.entries)).toEqual([sessions[0], 'a'])
  })

  it('begins now for a reader who wants only what comes', async () => {
    await done('a')
    const { entries, next } = (await feed('?after=latest')).body
    expect(entries).toEqual([])
    const session = await done('b')
    expect(names((await feed(`?after=${next}`)).body.entries)).toEqual([session, 'b'])
  })

  it('starts over for a cursor of an earlier process, and says so', async () => {
    await done('a')
    const { body } = await feed('?after=0123abcd-1&wait_seconds=60')
    expect(body).toMatchObject({ start_over: true, missed: true })
    expect(names(body.entries)).toContain('a')
    expect((await feed(`?after=${body.next}`)).body).toMatchObject({ entries: [], start_over: false, missed: false })
  })

  it.each([
    ['after', 'yesterday'],
    ['after', 'b-'],
    ['limit', '0'],
    ['limit', '1001'],
    ['wait_seconds', '61'],
    ['wait_seconds', '-1'],
    ['types', 'token'],
    ['types', ''],
  ])('refuses %s=%s', async (name, value) => {
    const { status, body } = await feed(`?${name}=${value}`)
    expect([status, body.detail[0].loc]).toEqual([422, ['query', name]])
  })
})

describe('a reader who waits', () => {
  it('is answered with the entry when it comes, not before and with nothing of another type', async () => {
    const [session, other] = await submit('t', { num_samples: 2 })
    const waiting = { session: feed('?wait_seconds=60'), task: feed('?wait_seconds=60&types=task') }
    let isTaskTold = false
    void waiting.task.then(() => {
      isTaskTold = true
    })
    await finish(session)
    expect(names((await waiting.session).body.entries)).toEqual([session])
    expect(isTaskTold).toBe(false)
    await finish(other)
    expect(names((await waiting.task).body.entries)).toEqual(['t'])
  })

  it('is answered with nothing when its time is over, and goes on from there', async () => {
    await done('a')
    const { next } = (await feed()).body
    const { status, body } = await feed(`?after=${next}&wait_seconds=0.01`)
    expect([status, body]).toEqual([200, { entries: [], next, missed: false, start_over: false }])
  })

  it('has not asked the ledger between two entries', async () => {
    const reads = countReads()
    const waiting = feed('?wait_seconds=60')
    await vi.waitUntil(() => reads() === 2, { timeout: 20_000, interval: 1 })
    const [session] = await submit('t')
    expect(reads()).toBe(2)
    await finish(session)
    await waiting
    expect(reads()).toBe(3)
  })
})

describe('a reader who waits, on a real port,', () => {
  let api: ControlApi
  beforeEach(async () => {
    api = await openControlApi(control.options)
  })
  afterEach(() => api.close())

  const wait = (signal?: AbortSignal) =>
    fetch(`${api.url}/feed?wait_seconds=60`, { headers: { authorization: `Bearer ${TOKEN}` }, ...(signal === undefined ? {} : { signal }) })

  it('is one of a bounded number, and gives its place back when it leaves', async () => {
    const controller = new AbortController()
    const reads = countReads()
    const waiting = Array.from({ length: 4 }, () => wait(controller.signal).catch(() => null))
    await vi.waitUntil(() => reads() === 8, { timeout: 20_000, interval: 5 })
    const refused = await feed('?wait_seconds=60')
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
    expect((await feed()).status).toBe(200)
    controller.abort()
    await Promise.all(waiting)
    await vi.waitUntil(async () => (await feed('?wait_seconds=0.01')).status === 200, { timeout: 20_000, interval: 5 })
  })

  it('does not hold up the end of the node', async () => {
    const reads = countReads()
    const waiting = Array.from({ length: 4 }, () => wait().catch(() => null))
    await vi.waitUntil(() => reads() === 8, { timeout: 20_000, interval: 5 })
    await api.close()
    await Promise.all(waiting)
  })
})

// Running a plan against a node that is told what to answer: how many tasks at a time, what is sent again, and when it gives up.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openJournal } from '../../src/eval/journal.ts'
import type { PlannedTask } from '../../src/eval/plan.ts'
import { type EvalControl, openBell, runEval } from '../../src/eval/run.ts'

const tasks = (count: number): readonly PlannedTask[] =>
  Array.from({ length: count }, (_, position) => ({
    position,
    name: `t${position}`,
    id: `id-${position}`,
    seedBase: 0,
    request: { task_id: `id-${position}` },
  }))

const row = { session_id: 's', status: 'COMPLETED', outcome: 'completed', reward: 1, error: null }
const ended = { status: 200, body: { status: 'completed', sessions: [row] }, detail: '' }
const running = { status: 200, body: { status: 'running', sessions: [] }, detail: '' }
const accepted = { status: 200, body: {}, detail: '' }
const unknown = { status: 404, body: { detail: 'no task' }, detail: '404: no task' }

type Reply = Awaited<ReturnType<EvalControl['get']>>

/** Answers in order, the last one for ever. */
function node(submits: readonly Reply[], looks: readonly Reply[]) {
  const asked = { submits: [] as unknown[], looks: 0 }
  const next = (replies: readonly Reply[], at: number): Reply => replies[Math.min(at, replies.length - 1)] ?? accepted
  const control: EvalControl = {
    async post(_, body) {
      asked.submits.push(body)
      return next(submits, asked.submits.length - 1)
    },
    async get() {
      asked.looks += 1
      return next(looks, asked.looks - 1)
    },
  }
  return { asked, control }
}

async function run(control: EvalControl, count: number, more: { readonly signal?: AbortSignal; readonly concurrency?: number } = {}) {
  const found: (readonly [string, number])[] = []
  const ran = await runEval(control, tasks(count), openBell(new Set()), {
    concurrency: 2,
    pollMs: () => 1,
    signal: new AbortController().signal,
    ended: async ({ name }, votes) => void found.push([name, votes.length]),
    ...more,
  })
  return { ran, found }
}

describe('running a plan', () => {
  it('submits each task once, and looks until it has ended', async () => {
    const { asked, control } = node([accepted], [running, running, ended])
    const { ran, found } = await run(control, 3)
    expect(ran).toEqual({ ok: true })
    expect(asked.submits).toEqual(tasks(3).map(({ request }) => request))
    expect(found.map(([name]) => name).toSorted()).toEqual(['t0', 't1', 't2'])
  })

  it('has no more tasks at a time than it may', async () => {
    let [open, most] = [0, 0]
    const control: EvalControl = {
      async post() {
        open += 1
        most = Math.max(most, open)
        return accepted
      },
      async get() {
        await new Promise(setImmediate)
        open -= 1
        return ended
      },
    }
    await run(control, 20, { concurrency: 3 })
    expect([open, most]).toEqual([0, 3])
  })

  it('submits again what a node that was started again does not know', async () => {
    const { asked, control } = node([accepted], [running, unknown, ended])
    expect((await run(control, 1)).ran).toEqual({ ok: true })
    expect(asked.submits).toHaveLength(2)
  })

  it('and gives up on a node that never knows it', async () => {
    const { ran } = await run(node([accepted], [unknown]).control, 1)
    expect(ran).toEqual({ ok: false, isRefusal: false, problem: 'the node forgot task t0 (id-0) 3 times' })
  })

  it.each([422, 409, 401])('ends with the first task that is refused for good (%i), and starts no other', async (status) => {
    const { asked, control } = node([{ status, body: {}, detail: 'why' }], [ended])
    const { ran } = await run(control, 5, { concurrency: 1 })
    expect(ran).toEqual({ ok: false, isRefusal: true, problem: 'task t0 was not accepted: why' })
    expect(asked.submits).toHaveLength(1)
  })

  it('takes what answers 404 to a submit for no node', async () => {
    const { ran } = await run(node([unknown], [ended]).control, 1)
    expect(ran).toEqual({ ok: false, isRefusal: false, problem: 'task t0 was not accepted: 404: no task' })
  })

  it('ends when the node can no longer be read', async () => {
    const { ran } = await run(node([accepted], [running, { status: 0, body: null, detail: 'no answer' }]).control, 1)
    expect(ran).toEqual({ ok: false, isRefusal: false, problem: 'task t0 can no longer be read: no answer' })
  })

  it('stops waiting when it is interrupted', async () => {
    const interrupted = new AbortController()
    const waiting = run(node([accepted], [running]).control, 2, { signal: interrupted.signal })
    interrupted.abort(new Error('SIGINT'))
    await expect(waiting).rejects.toThrow('SIGINT')
  })
})

describe('a bell', () => {
  const never = new AbortController().signal
  it('wakes who waits, and who comes after it rang', async () => {
    const bell = openBell(new Set(['a']))
    const waiting = bell.wait('a', 60_000, never)
    bell.ring('a')
    await waiting
    const others = [bell.wait('a', 60_000, never), bell.wait('b', 60_000, never)]
    bell.ringAll()
    await Promise.all(others)
    bell.ring('a')
    await bell.wait('a', 60_000, never)
  })

  it('keeps nothing of tasks that are not its own', async () => {
    const bell = openBell(new Set(['a']))
    bell.ring('b')
    const waited = bell.wait('b', 60_000, AbortSignal.timeout(1))
    await expect(waited).rejects.toThrow()
  })
})

describe('the journal', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'polar-journal-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  const vote = { session: 's', status: 'COMPLETED', outcome: 'completed', reward: 1, error: null }

  it('tells the same run what it knows, a cut-off line aside, and another run nothing', async () => {
    const file = join(folder, 'r.json.partial')
    const first = await openJournal(file, 'digest')
    await first.add(2, [vote])
    writeFileSync(file, `${readFileSync(file, 'utf8')}{"position":3,"vo`)
    const second = await openJournal(file, 'digest')
    expect([...second.votes]).toEqual([[2, [vote]]])
    await second.add(3, [])
    expect([...(await openJournal(file, 'digest')).votes.keys()]).toEqual([2, 3])
    expect([...(await openJournal(file, 'other')).votes]).toEqual([])
    expect([...(await openJournal(file, 'digest')).votes]).toEqual([])
  })
})

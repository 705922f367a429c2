// CPU tasks on real worker threads over real token memory.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type CpuPool, openCpuPool, openInlineCpu } from '../../src/tasks/pool.ts'
import type { BuildTask } from '../../src/tasks/protocol.ts'
import { openArena } from '../../src/tokens/arena.ts'
import type { ResultFacts } from '../../src/trajectory/facts.ts'
import { unpackTrajectory } from '../../src/trajectory/pack.ts'
import { SESSION, type ToyCall, toyCall, toyRow } from '../unit/trajectory-calls.ts'

const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}-builder.ts`, import.meta.url))
const CUSTOMS = Object.fromEntries(
  ['endless', 'exiting', 'hungry', 'throwing', 'unloadable', 'inventing', 'last-call'].map((name) => [name, fixture(name)]),
)
const CALLS: readonly ToyCall[] = [
  { p: [1, 2], r: [5, 9] },
  { p: [1, 2, 5, 9, 3], r: [6, 9], record: { promptMessages: [0, 1, 2], responseMessage: 1 } },
]
const DEADLINE = { timeoutMs: 20_000 }

let arena: ReturnType<typeof openArena>
let pool: CpuPool

beforeEach(() => {
  arena = openArena({ maxSlabs: 2, slabTokens: 1_024, blockTokens: 16 })
})
// One pool for all: whatever a test does to its thread, the next one must find it working.
beforeAll(() => {
  pool = openCpuPool({ threads: 1, maxQueue: 8, maxHeapMb: 64 })
})
afterAll(() => pool.close())

function buildTask(strategy: string, config: Readonly<Record<string, unknown>> = {}): BuildTask {
  const session = arena.openSession()
  const calls = CALLS.map(toyCall)
  for (const { promptIds, sampledIds, logprobs } of calls) session.append({ promptIds, sampledIds, logprobs })
  return {
    session: SESSION,
    task: taskId('task-1'),
    attempt: 1,
    strategy: { strategy, config },
    reference: session.lease(),
    calls: calls.map(({ record }) => record),
    messages: ['{"role":"user","content":"a"}', '{"role":"assistant","content":"b"}', '{"role":"user","content":"c"}'],
    taskMetadata: {},
    customs: CUSTOMS,
  }
}

const FACTS: ResultFacts = {
  session: knownSessionId(SESSION),
  task: taskId('task-1'),
  attempt: 1,
  node: 'gw-0',
  outcome: 'completed',
  error: null,
  timing: { run_ms: 5 },
  taskMetadata: {},
  agentResult: { status: 'completed' },
  evaluation: { type: 'graded', outcomeReward: 1, traceRewards: null, metadata: {} },
  evaluator: 'session_completed',
  calls: 2,
  model: null,
}

describe('the CPU pool', () => {
  it('builds, finishes and renders a session whose tokens lie in slabs, like the inline one', async () => {
    const inline = openInlineCpu()
    const rendered: string[] = []
    for (const cpu of [pool, inline]) {
      const built = await cpu.run('buildTrajectory', buildTask('prefix_merging'), DEADLINE)
      if (!built.ok || !built.value.ok) throw new Error(JSON.stringify(built))
      expect(built.value).toMatchObject({ traces: 1, trainableTokens: 4, capturedTokens: 4 })
      expect(unpackTrajectory(built.value.payload).traces.map(toyRow)).toEqual([
        { prompt: [1, 2], resp: [5, 9, 3, 6, 9], mask: [1, 1, 0, 1, 1] },
      ])
      const finished = await cpu.run(
        'finishSession',
        { payload: built.value.payload, facts: FACTS },
        { ...DEADLINE, transfer: [built.value.payload] },
      )
      if (!finished.ok) throw new Error(finished.detail)
      expect(finished.value.summary).toMatchObject({ reward: 1, usable: true, trainedTokens: 4 })
      const session = await cpu.run('renderSession', { payload: finished.value.payload, results: null }, DEADLINE)
      const task = await cpu.run(
        'renderTask',
        { head: { task_id: 'task-1', status: 'completed' }, payloads: [finished.value.payload] },
        DEADLINE,
      )
      if (!session.ok || !task.ok) throw new Error('not rendered')
      expect(JSON.parse(text(task.value.bytes))).toEqual({
        task_id: 'task-1',
        status: 'completed',
        results: [JSON.parse(text(session.value.bytes))],
        result_paths: [],
      })
      rendered.push(text(task.value.bytes))
    }
    expect(rendered[0]).toBe(rendered[1])
  })

  it('moves a payload named in transfer instead of copying it', async () => {
    const built = await pool.run('buildTrajectory', buildTask('per_request'), DEADLINE)
    if (!built.ok || !built.value.ok) throw new Error(JSON.stringify(built))
    await pool.run('finishSession', { payload: built.value.payload, facts: FACTS }, { ...DEADLINE, transfer: [built.value.payload] })
    expect(built.value.payload.byteLength).toBe(0)
  })

  it("runs the operator's builder with its own configuration", async () => {
    const built = await pool.run('buildTrajectory', buildTask('last-call', { flavour: 'plain' }), DEADLINE)
    if (!built.ok || !built.value.ok) throw new Error(JSON.stringify(built))
    const { traces, metadata } = unpackTrajectory(built.value.payload)
    expect(traces.map(toyRow)).toEqual([{ prompt: [1, 2, 5, 9, 3], resp: [6, 9], mask: [1, 1] }])
    expect(metadata).toMatchObject({ builder: 'last-call', flavour: 'plain' })
  })

  it.each([
    ['throwing', /builder throwing failed: no rows today/],
    ['unloadable', /does not load: broken while loading/],
    ['inventing', /builder inventing: invariant tokens-as-sampled is broken in row 0, call msg_a/],
    ['missing', /'missing' is unknown/],
  ])('a %s builder is a build error', async (strategy, error) => {
    expect(await pool.run('buildTrajectory', buildTask(strategy), DEADLINE)).toMatchObject({
      ok: true,
      value: { ok: false, error: expect.stringMatching(error) },
    })
  })

  it('TH-02 kills the thread of an endless builder, settles it as a timeout and goes on', async () => {
    const endless = pool.run('buildTrajectory', buildTask('endless'), { timeoutMs: 1_500 })
    const waiting = pool.run('buildTrajectory', buildTask('prefix_merging'), DEADLINE)
    expect(await endless).toMatchObject({ ok: false, error: 'timeout', detail: expect.stringContaining('1500 ms') })
    expect(await waiting).toMatchObject({ ok: true, value: { ok: true } })
  })

  it.each(['exiting', 'hungry'])('TH-02 settles the task of an %s builder as crashed and goes on', async (strategy) => {
    const crashing = pool.run('buildTrajectory', buildTask(strategy), DEADLINE)
    const waiting = Array.from({ length: 3 }, () => pool.run('buildTrajectory', buildTask('prefix_merging'), DEADLINE))
    expect(await crashing).toMatchObject({ ok: false, error: 'crashed' })
    for (const settled of await Promise.all(waiting)) expect(settled).toMatchObject({ ok: true, value: { ok: true } })
  })

  it('refuses one task more than it may hold', async () => {
    const small = openCpuPool({ threads: 1, maxQueue: 1 })
    const held = [buildTask('endless'), buildTask('endless')].map((task) => small.run('buildTrajectory', task, DEADLINE))
    expect(await small.run('buildTrajectory', buildTask('prefix_merging'), DEADLINE)).toMatchObject({ ok: false, error: 'queue-full' })
    await small.close()
    expect(await Promise.all(held)).toMatchObject([{ error: 'closed' }, { error: 'closed' }])
    expect(await small.run('buildTrajectory', buildTask('prefix_merging'), DEADLINE)).toMatchObject({ ok: false, error: 'closed' })
    await small.close()
  })

  it('takes new tasks again once earlier ones have settled', async () => {
    const small = openCpuPool({ threads: 1, maxQueue: 0 })
    for (let round = 0; round < 3; round++)
      expect(await small.run('buildTrajectory', buildTask('per_request'), DEADLINE)).toMatchObject({ ok: true })
    await small.close()
  })
})

const text = (bytes: ArrayBuffer): string => Buffer.from(bytes).toString('utf8')

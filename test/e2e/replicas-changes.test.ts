// Inference servers added and removed by the operator while sessions run: nobody loses a call, and READY waits when none is left.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openStand, type ReplicaNode, type Row, type Stand, sessionsOf } from '../lib/replica-node.ts'

let stand: Stand
beforeEach(() => {
  stand = openStand()
})
afterEach(() => stand.close())

/** One call; its answer is printed, and a refusal is the end. */
const TELLING = `exec '${process.execPath}' -e '
  fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer " + process.env.OPENAI_API_KEY, "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hello of " + process.env.SESSION_ID }] }),
  }).then(async (reply) => {
    console.error(reply.status, await reply.text())
    process.exitCode = reply.ok ? 0 : 1
  })
'`

const endings = (rows: readonly Row[]): unknown => rows.map(({ outcome, error, attempt }) => [outcome, error, attempt])
const wellEnded = (sessions: number): unknown => Array(sessions).fill(['completed', null, 1])
const all = (node: ReplicaNode, status: string): Promise<unknown> =>
  vi.waitUntil(async () => (await node.rows()).every((row) => row.status === status), { timeout: 60_000, interval: 50 })

describe('polar engines', () => {
  it('adds a server under load and removes the one that all sessions were on, and none of them notices', async () => {
    const old = await stand.openEngine()
    const node = await stand.serve([{ id: 'old', url: old.url, max_in_flight: 2 }])
    await node.submit(8, 60)
    await vi.waitUntil(async () => sessionsOf(old, await node.rows()).length === 8, { timeout: 60_000, interval: 20 })

    const young = await stand.openEngine({ shape: 'sglang' })
    const added = await node.engines('add', young.url, '--engine', 'sglang', '--id', 'young', '--max-in-flight', '8')
    expect(added).toMatchObject({ code: 0, stdout: 'replica young added to g; it serves when its probe is answered\n' })
    await vi.waitUntil(async () => sessionsOf(young, await node.rows()).length > 0, { timeout: 60_000, interval: 20 })
    const removed = await node.engines('remove', 'old', '--gateway', 'g', '--json')
    expect([removed.code, JSON.parse(removed.stdout)]).toEqual([0, { id: 'old', state: 'removing', gateways: ['g'] }])
    await node.until((rows) => rows.map(({ id }) => id).join() === 'young')
    const seen = old.requests().length
    // Nothing goes there any more, so nobody misses it.
    await old.close()

    const rows = await node.finished()
    expect(endings(rows)).toEqual(wellEnded(8))
    expect(old.requests()).toHaveLength(seen)
    expect(sessionsOf(young, rows)).toHaveLength(8)
  }, 120_000)

  it('lists what each gateway has, in words and as JSON, and says what it will not do', async () => {
    const engine = await stand.openEngine({ dataParallelRanks: 2 })
    const node = await stand.serve([{ id: 'gpu', url: engine.url, max_in_flight: 24, data_parallel_ranks: 3 }])
    await node.until((rows) => rows.every(({ state }) => state !== 'unprobed'))
    const { code, stdout } = await node.engines()
    expect(code).toBe(0)
    const line = (rank: number) => `  replica gpu@${rank}  ${engine.url} rank ${rank}  up, train  in flight 0/8, waiting 0  131072 tokens`
    const down = `  replica gpu@2  ${engine.url} rank 2  down, unknown  in flight 0/8, waiting 0  (probe generation: 400 data_parallel_rank 2`
    expect(stdout.split('\n')).toEqual(['gateway g', ...[line(0), line(1), down].map((part) => expect.stringContaining(part)), ''])
    expect((await node.engines('list', '-g', 'g', '--json')).stdout).toBe(`${await (await node.control('/gateways/g/replicas')).text()}\n`)
    expect((await node.engines('list', '--json')).stdout).toBe(`${await (await node.control('/replicas')).text()}\n`)

    const port = new URL(engine.url).port
    expect(await node.engines('remove', 'nothing')).toMatchObject({ code: 1, stderr: 'polar: 404: g: there is no replica nothing\n' })
    expect(await node.engines('remove', 'gpu@1')).toMatchObject({
      code: 1,
      stderr: 'polar: 409: g: gpu@1 is a part of replica gpu: remove that\n',
    })
    expect(await node.engines('add', `http://127.0.0.1:${port}/v1`, '--engine', 'vllm')).toMatchObject({
      code: 1,
      stderr: `polar: 409: g: ${engine.url} is replica gpu already\n`,
    })
    expect(await node.engines('add', 'nowhere', '--engine', 'vllm')).toMatchObject({ code: 2, stderr: expect.stringContaining('body.url') })
    expect(await node.engines('list', '-g', 'h')).toMatchObject({ code: 1, stderr: 'polar: 404: no gateway h; there are g\n' })
  }, 120_000)

  it('holds sessions in READY after the last server was removed, until there is one again', async () => {
    const engine = await stand.openEngine()
    const node = await stand.serve([{ id: 'gpu', url: engine.url }])
    await node.until((rows) => rows.every(({ state }) => state === 'up'))
    expect((await node.engines('remove', 'gpu')).code).toBe(0)
    await node.submit(2, 2)
    await all(node, 'READY')
    expect(await (await fetch(`http://127.0.0.1:${node.serving.modelPort}/health`)).json()).toMatchObject({ replicas: { total: 0, up: 0 } })
    expect((await node.engines()).stdout).toBe('gateway g\n  no replicas: sessions wait until one is added\n')
    expect((await node.engines('add', engine.url, '--engine', 'vllm', '--id', 'gpu')).code).toBe(0)
    expect(endings(await node.finished())).toEqual(wellEnded(2))
  }, 120_000)

  it('leaves training sessions with the reason why, when what is left cannot train', async () => {
    const [training, evaluating] = [await stand.openEngine(), await stand.openEngine({ faults: [{ fault: 'missing-token-ids' }] })]
    const node = await stand.serve([
      { id: 'training', url: training.url },
      { id: 'evaluating', url: evaluating.url },
    ])
    await node.until((rows) => rows.every(({ state }) => state === 'up'))
    expect((await node.replicas()).map(({ id, tier }) => [id, tier])).toEqual([
      ['training', 'train'],
      ['evaluating', 'eval'],
    ])
    await node.submit(1, 2)
    expect(endings(await node.finished())).toEqual(wellEnded(1))
    expect((await node.engines('remove', 'training')).code).toBe(0)
    await node.submitCommand(TELLING, 1, 'after')
    expect((await node.finished('after')).map(({ outcome }) => outcome)).toEqual(['upstream_error'])
    expect(node.printed()).toMatch(/403 .*replica evaluating cannot serve training sessions: ids-missing/)
    // The engine was asked by nobody but the probe.
    expect(sessionsOf(evaluating, [...(await node.rows()), ...(await node.rows('after'))])).toEqual([])
  }, 120_000)
})

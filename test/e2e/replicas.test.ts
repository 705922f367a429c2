import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { root, type Serving, startServing } from '../lib/polar-process.ts'

const cleanup: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanup.splice(0).reverse()) await clean()
})

async function openNode(
  replicas: number,
  inFlight: number,
  shape: 'vllm' | 'sglang' = 'vllm',
): Promise<{ readonly engines: readonly ScriptedEngine[]; readonly node: Serving }> {
  const engines: ScriptedEngine[] = []
  for (let index = 0; index < replicas; index += 1) {
    const engine = await openScriptedEngine({ generator: { words: [3, 8] }, model: 'policy', shape, latency: { ttftMs: 20 } })
    engines.push(engine)
    cleanup.push(() => engine.close())
  }
  return {
    engines,
    node: await serveInFrontOf(
      engines.map(({ url }) => url),
      inFlight,
      shape,
    ),
  }
}

async function serveInFrontOf(urls: readonly string[], inFlight: number, engine: 'vllm' | 'sglang' = 'vllm'): Promise<Serving> {
  const folder = mkdtempSync(join(tmpdir(), 'polar-replicas-'))
  cleanup.push(async () => rmSync(folder, { recursive: true, force: true }))
  const config = join(folder, 'polar.yaml')
  const listed = urls.map((url, index) => ({ id: `gpu${index}`, url, max_in_flight: inFlight }))
  writeFileSync(
    config,
    JSON.stringify({
      rollout: { port: 0 },
      gateway: {
        nodes: [{ id: 'g', port: 0, model_served: 'policy', inference: { engine }, max_init_workers: 8, max_run_workers: 8 }],
      },
      polar_node: { data_dir: join(folder, 'data'), replicas: { g: listed } },
    }),
  )
  const node = await startServing(config)
  cleanup.push(() => node.stop())
  return node
}

const AGENT = join(root, 'test/threads/fixtures/chat-agent.ts')
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((closed) => server.close(closed))
  return port
}

type Result = {
  readonly session_id: string
  readonly trajectory: { readonly traces: readonly { readonly response_ids: readonly number[]; readonly loss_mask: readonly number[] }[] }
}

type Row = {
  readonly session_id: string
  readonly status: string
  readonly attempt: number
  readonly outcome: string | null
  readonly error: string | null
}

function control(node: Serving, path: string, body?: unknown): Promise<Response> {
  const headers = { authorization: `Bearer ${node.token}`, 'content-type': 'application/json' }
  return fetch(node.url + path, body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) })
}

async function submit(node: Serving, sessions: number, calls: number): Promise<void> {
  const reply = await control(node, '/rollout/task/submit', {
    task_id: 't',
    instruction: 'x',
    num_samples: sessions,
    runtime: { backend: 'local' },
    agent: { harness: 'shell', custom_shell: { command: `exec '${process.execPath}' '${AGENT}' ${calls} 5` } },
    evaluator: { strategy: 'session_completed' },
  })
  expect(reply.status).toBe(200)
}

async function rowsOf(node: Serving): Promise<readonly Row[]> {
  const { sessions } = (await (await control(node, '/tasks/t/sessions')).json()) as { readonly sessions: readonly Row[] }
  return sessions
}

async function finished(node: Serving): Promise<readonly Row[]> {
  return vi.waitUntil(
    async () => {
      const sessions = await rowsOf(node)
      return sessions.every(({ outcome }) => outcome !== null) ? sessions : null
    },
    { timeout: 60_000, interval: 50 },
  )
}

/** The sessions whose calls reached this engine; the agent tells its session in every prompt. */
function sessionsOf(engine: ScriptedEngine, rows: readonly Row[]): readonly string[] {
  const bodies = engine.requests().map(({ body }) => JSON.stringify(body))
  return rows.map(({ session_id }) => session_id).filter((id) => bodies.some((body) => body.includes(id)))
}

describe('inference servers behind the proxy pool', () => {
  it('serves eight sessions from eight replicas, each session from one', async () => {
    const { engines, node } = await openNode(8, 2)
    await submit(node, 8, 4)
    const rows = await finished(node)
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(8).fill('completed'))
    const holders = engines.map((engine) => sessionsOf(engine, rows))
    // Affinity: no session was seen by two engines; balance: none of the engines was left out.
    expect(holders.flat().toSorted()).toEqual(rows.map(({ session_id }) => session_id).toSorted())
    expect(holders.map((sessions) => sessions.length)).toEqual(Array(8).fill(1))
  }, 120_000)

  it('serves as many sessions from one endpoint that takes two calls at a time', async () => {
    const { engines, node } = await openNode(1, 2)
    await submit(node, 8, 4)
    const rows = await finished(node)
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(8).fill('completed'))
    // One more is the probe.
    expect(engines[0]?.requests()).toHaveLength(8 * 4 + 1)
  }, 120_000)

  it('trains what an engine in SGLang’s shape sampled', async () => {
    const { engines, node } = await openNode(1, 4, 'sglang')
    await submit(node, 2, 3)
    const rows = await finished(node)
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(2).fill('completed'))
    const { results } = (await (await control(node, '/rollout/task/t')).json()) as { readonly results: readonly Result[] }
    for (const { session_id, trajectory } of results) {
      const sampled = engines[0]?.requests().filter(({ body }) => JSON.stringify(body).includes(session_id)) ?? []
      const trained = trajectory.traces.flatMap(({ response_ids, loss_mask }) => response_ids.filter((_, at) => loss_mask[at] === 1))
      expect(trained).toEqual(sampled.flatMap(({ sampledIds }) => sampledIds))
    }
  }, 120_000)

  it('takes sessions elsewhere when their replica dies under them', async () => {
    const { engines, node } = await openNode(2, 8)
    await submit(node, 4, 40)
    const [dying, living] = engines
    await vi.waitUntil(() => (dying?.requests().length ?? 0) > 5, { timeout: 60_000, interval: 5 })
    await dying?.close()
    const rows = await finished(node)
    expect(rows.map(({ outcome, error }) => [outcome, error])).toEqual(Array(4).fill(['completed', null]))
    expect(living === undefined ? [] : sessionsOf(living, rows)).toHaveLength(4)
  }, 120_000)

  it('keeps sessions in READY while its engine is not up yet, and loses none of them to that', async () => {
    const port = await freePort()
    const node = await serveInFrontOf([`http://127.0.0.1:${port}`], 2)
    await submit(node, 2, 2)
    await vi.waitUntil(async () => (await rowsOf(node)).every(({ status }) => status === 'READY'), { timeout: 60_000, interval: 50 })
    const engine = await openScriptedEngine({ generator: { words: [3, 8] }, model: 'policy', port })
    cleanup.push(() => engine.close())
    expect((await finished(node)).map(({ outcome, attempt }) => [outcome, attempt])).toEqual(Array(2).fill(['completed', 1]))
  }, 120_000)
})

// A real node of two gateways whose trainer pauses inference while sessions run: nothing reaches the engine, and no agent notices.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { startServing } from '../lib/polar-process.ts'
import { openReplicaNode, openStand, type ReplicaNode, type Stand } from '../lib/replica-node.ts'

const SESSIONS = 6
const WAIT = { timeout: 60_000, interval: 20 }

let stand: Stand
let engine: ScriptedEngine
let node: ReplicaNode

beforeEach(async () => {
  stand = openStand()
  engine = await stand.openEngine({ latency: { ttftMs: 10 } })
  const folder = mkdtempSync(join(tmpdir(), 'polar-pause-'))
  stand.keep(async () => rmSync(folder, { recursive: true, force: true }))
  const config = join(folder, 'polar.yaml')
  const gateway = (id: string) => ({
    id,
    port: 0,
    model_served: 'policy',
    inference: { engine: 'vllm', base_url: engine.url },
    max_init_workers: 4,
    max_run_workers: SESSIONS / 2,
  })
  writeFileSync(
    config,
    JSON.stringify({
      rollout: { port: 0 },
      gateway: { nodes: [gateway('g'), gateway('h')] },
      polar_node: { data_dir: join(folder, 'data') },
    }),
  )
  const serving = await startServing(config)
  stand.keep(() => serving.stop())
  node = openReplicaNode(serving, join(folder, 'data', 'logs'))
  await node.submit(SESSIONS, 40)
  await vi.waitUntil(async () => (await inference('status')).body.inflight > 0 && engine.requests().length > 3 * SESSIONS, WAIT)
})
afterEach(() => stand.close())

type Inference = {
  readonly paused: boolean
  readonly inflight: number
  readonly gateways: readonly {
    readonly node_id: string
    readonly paused: boolean
    readonly metadata: { readonly polar_node: { readonly waiting: number } }
  }[]
}

async function inference(what: string, path = ''): Promise<{ readonly status: number; readonly body: Inference }> {
  const reply = await node.control(`${path}/admin/inference/${what}`, what === 'status' ? 'GET' : 'POST')
  return { status: reply.status, body: (await reply.json()) as Inference }
}

const waiting = ({ gateways }: Inference): number => gateways.reduce((sum, { metadata }) => sum + metadata.polar_node.waiting, 0)

/** What is in flight stays so, as it does in an engine that is busy for long. */
async function freezeEngine(): Promise<() => Promise<unknown>> {
  await fetch(`${engine.url}/pause?mode=keep`, { method: 'POST' })
  return () => fetch(`${engine.url}/resume`, { method: 'POST' })
}

it('holds every new call, lets those in flight end, and all sessions complete after the resume', async () => {
  const thaw = await freezeEngine()
  await vi.waitUntil(async () => (await inference('status')).body.inflight === SESSIONS, WAIT)
  const pausing = inference('pause?timeout_seconds=60')
  await vi.waitUntil(async () => (await inference('status')).body.paused, WAIT)
  const asked = engine.requests().length
  await thaw()

  const paused = await pausing
  expect(paused).toMatchObject({
    status: 200,
    body: {
      paused: true,
      inflight: 0,
      gateways: [
        { node_id: 'g', paused: true },
        { node_id: 'h', paused: true },
      ],
    },
  })
  expect(engine.requests().every(({ status }) => status === 200)).toBe(true)
  // Every agent has had its answer and asks again.
  await vi.waitUntil(async () => waiting((await inference('status')).body) === SESSIONS, WAIT)
  expect(engine.requests()).toHaveLength(asked)

  // One gateway at a time, as Polar's clients do it.
  expect((await inference('resume', '/gateways/g')).body).toMatchObject({ paused: false })
  await vi.waitUntil(() => engine.requests().length > asked, WAIT)
  expect((await inference('status', '/gateways/h')).body).toMatchObject({ paused: true, inflight: 0 })
  // The node is paused when all of it is.
  expect((await inference('status')).body).toMatchObject({ paused: false, gateways: [{ paused: false }, { paused: true }] })
  expect((await inference('resume')).body).toMatchObject({ paused: false })
  expect((await node.finished()).map(({ outcome, error, attempt }) => [outcome, error, attempt])).toEqual(
    Array(SESSIONS).fill(['completed', null, 1]),
  )
}, 120_000)

it('holds nothing any more when the calls in flight do not end in time', async () => {
  const thaw = await freezeEngine()
  await vi.waitUntil(async () => (await inference('status')).body.inflight === SESSIONS, WAIT)
  expect((await inference('pause?timeout_seconds=0.05')).status).toBe(504)
  expect((await inference('pause?timeout_seconds=0.05', '/gateways/h')).status).toBe(504)
  expect((await inference('status')).body).toMatchObject({ paused: false, gateways: [{ paused: false }, { paused: false }] })
  await thaw()
  expect((await node.finished()).map(({ outcome, attempt }) => [outcome, attempt])).toEqual(Array(SESSIONS).fill(['completed', 1]))
}, 120_000)

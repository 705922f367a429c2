// An RL step's sessions at once: 1,024 of them, in 64 groups. All are heard of without polling, and the node needs little room for them.
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { authentication } from './client.ts'
import { type ContractNode, openContractNode, openTrainer, type Trainer } from './contract-node.ts'
import { type EventStream, openEventStream, type SentEvent } from './event-stream.ts'
import { sessionEvent, TERMINAL_STATUSES } from './schemas.ts'
import { parse } from './shape.ts'

const [TASKS, SAMPLES] = [64, 16]
const SESSIONS = TASKS * SAMPLES
/** From a fresh node to its peak, warming up included. A session that left 300 kB behind would show. */
const ROOM_MB = 384
/** Sessions are processes: a machine with much else to do takes its time. */
const STEP_MS = 600_000

let node: ContractNode
let trainer: Trainer
let events: EventStream
let counter: Counter

beforeAll(async () => {
  node = await openContractNode({
    nodes: [{ id: 'g', max_init_workers: 8, max_run_workers: 8, max_postrun_workers: 8 }],
    // The results of one step: what a trainer may still read is bounded, and all the rest has to go.
    keys: { limits: { kept_tasks: TASKS, kept_logs: 16, call_logs: 16 } },
    through: async (engineUrl) => {
      counter = await openCounter(engineUrl)
      return counter.url
    },
  })
  trainer = await openTrainer()
  events = await openEventStream(`${node.client.base}/events`, authentication(node.serving.token, 'bearer'))
})
afterAll(async () => {
  await events?.close()
  await node?.close()
  await counter?.close()
  await trainer?.close()
})

const residentMb = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${node.serving.child.pid}/status`, 'utf8'))?.[1]) / 1_024

it(
  'ends every session, asks its engine for no more than their calls, and needs little room',
  async () => {
    const startMb = residentMb()
    const ids = Array.from({ length: TASKS }, (_, index) => `group-${index}`)
    const keys = { num_samples: SAMPLES, callback_url: trainer.taskUrl }
    await Promise.all(ids.map((id) => node.client.submit(node.task(id, { keys }))))
    expect((await node.client.tasks({ limit: 1_000 })).map(({ task_id }) => task_id).toSorted()).toEqual(ids.toSorted())
    for (const id of ids) expect(await node.client.sessions(id)).toHaveLength(SAMPLES)

    // The trainer is told of every task, and does not ask before.
    let peakMb = 0
    await vi.waitUntil(
      () => {
        peakMb = Math.max(peakMb, residentMb())
        return trainer.tasks.length === TASKS
      },
      { timeout: STEP_MS, interval: 100 },
    )
    const results = trainer.tasks.flatMap((task) => task.results)
    expect(new Set(results.map(({ session_id }) => session_id)).size).toBe(SESSIONS)
    expect(results.filter(({ status, trajectory }) => status !== 'COMPLETED' || trajectory.traces.length !== 1)).toEqual([])
    const isEnded = ({ type, data }: SentEvent) =>
      type === 'session.state_changed' && TERMINAL_STATUSES.some((status) => status === parse(sessionEvent, data, 'event').status)
    await events.until((all) => all.filter(isEnded).length === SESSIONS)
    const rows = (await Promise.all(ids.map((id) => node.client.sessions(id)))).flat()
    expect(rows.filter(({ status }) => status === 'COMPLETED').length).toBe(SESSIONS)

    expect(counter.asked.chat).toBeGreaterThanOrEqual(SESSIONS)
    // A probe of what the engine tells is a chat request, too, and a call may be sent again.
    expect(counter.asked.chat).toBeLessThan(SESSIONS + 16)
    // Looks at the engine's health go by the clock, not by the session.
    expect(counter.asked.other).toBeLessThan(SESSIONS / 4)
    expect(peakMb - startMb).toBeLessThan(ROOM_MB)
  },
  STEP_MS + 120_000,
)

type Counter = { readonly url: string; readonly asked: { chat: number; other: number }; close(): Promise<void> }

/** Stands before the engine and counts what it is asked. */
async function openCounter(engineUrl: string): Promise<Counter> {
  const asked = { chat: 0, other: 0 }
  const server = createServer((incoming, response) => {
    asked[incoming.url === '/v1/chat/completions' ? 'chat' : 'other'] += 1
    const onward = request(`${engineUrl}${incoming.url}`, { method: incoming.method, headers: incoming.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo // a listening TCP server's address is no string
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    async close() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

// An RL step's sessions at once: 1,024 of them, in 64 groups. All are heard of without polling, and the node hardly grows with their number.
import { readFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { authentication } from './client.ts'
import { type ContractNode, openContractNode, openTrainer, type Trainer } from './contract-node.ts'
import { type EventStream, openEventStream } from './event-stream.ts'
import { sessionEvent, TERMINAL_STATUSES } from './schemas.ts'
import { parse } from './shape.ts'

/** The tasks of a batch, and the sessions of each. */
type Size = { readonly tasks: number; readonly samples: number }
const STEP: Size = { tasks: 64, samples: 16 }
/** A quarter of its sessions, all of one task; it also warms the node up. */
const SMALL: Size = { tasks: 1, samples: 256 }
/** Sessions are processes: a machine with much else to do takes its time. */
const BATCH_MS = 600_000

let node: ContractNode
let trainer: Trainer
let events: EventStream
let counter: Counter

beforeAll(async () => {
  node = await openContractNode({
    nodes: [{ id: 'g', max_init_workers: 8, max_run_workers: 8, max_postrun_workers: 8 }],
    // The results of one step: what a trainer may still read is bounded, and all the rest has to go.
    keys: { limits: { kept_tasks: STEP.tasks, kept_logs: 16, call_logs: 16 } },
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

type Batch = { readonly sessions: number; readonly peakMb: number; readonly asked: Readonly<Record<'chat' | 'other', number>> }

/** Submitted all at once; over when the trainer was told of every task, and not asked before. */
async function run(name: string, { tasks, samples }: Size): Promise<Batch> {
  const total = tasks * samples
  const [before, eventsBefore] = [{ ...counter.asked }, events.events.length]
  const ids = Array.from({ length: tasks }, (_, index) => `${name}-${index}`)
  const keys = { num_samples: samples, callback_url: trainer.taskUrl }
  await Promise.all(ids.map((id) => node.client.submit(node.task(id, { keys }))))
  const listed = await node.client.tasks({ limit: 1_000 })
  expect(listed.filter(({ task_id }) => ids.includes(task_id)).length).toBe(tasks)
  expect((await node.client.sessions(ids[0] ?? '')).length).toBe(samples)

  let peakMb = 0
  const told = await vi.waitUntil(
    () => {
      peakMb = Math.max(peakMb, residentMb())
      const mine = trainer.tasks.filter(({ task_id }) => ids.includes(task_id))
      return mine.length === tasks ? mine : null
    },
    { timeout: BATCH_MS, interval: 100 },
  )
  const results = told.flatMap((task) => task.results)
  expect(new Set(results.map(({ session_id }) => session_id)).size).toBe(total)
  expect(results.filter(({ status, trajectory }) => status !== 'COMPLETED' || trajectory.traces.length !== 1)).toEqual([])
  const isEnded = ({ type, data }: { readonly type: string; readonly data: unknown }) =>
    type === 'session.state_changed' && TERMINAL_STATUSES.some((status) => status === parse(sessionEvent, data, 'event').status)
  await events.until((all) => all.slice(eventsBefore).filter(isEnded).length === total)
  const rows = (await Promise.all(ids.map((id) => node.client.sessions(id)))).flat()
  expect(rows.filter(({ status }) => status === 'COMPLETED').length).toBe(total)
  return { sessions: total, peakMb, asked: { chat: counter.asked.chat - before.chat, other: counter.asked.other - before.other } }
}

const residentMb = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${node.serving.child.pid}/status`, 'utf8'))?.[1]) / 1_024

it(
  'ends every session of 64 groups at once, asks its engine for no more than their calls, and needs little more room than for a quarter of them',
  async () => {
    const startMb = residentMb()
    const small = await run('one', SMALL)
    const step = await run('groups', STEP)
    for (const { asked, sessions } of [small, step]) {
      expect(asked.chat).toBeGreaterThanOrEqual(sessions)
      // A probe of what the engine tells is a chat request, too, and a call may be sent again.
      expect(asked.chat).toBeLessThan(sessions + 16)
      // Looks at the engine's health go by the clock, not by the session.
      expect(asked.other).toBeLessThan(sessions / 4)
    }
    // What each session kept for good would come to four times as much.
    expect((step.peakMb - startMb) / (small.peakMb - startMb)).toBeLessThan(2.2)
  },
  2 * BATCH_MS,
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

import { readdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Serving } from '../lib/polar-process.ts'
import { openWorkplace, type Workplace } from '../lib/working-node.ts'

let work: Workplace
beforeEach(async () => {
  work = await openWorkplace({ max_init_workers: 1, max_run_workers: 1 })
})
afterEach(() => work.close())

type Event = Readonly<Record<string, unknown>>

/** Everything the node says from now on. */
function listen({ child }: Serving): readonly Event[] {
  const events: Event[] = []
  if (child.stdout === null) throw new Error('the node has no output')
  createInterface({ input: child.stdout }).on('line', (line) => events.push(JSON.parse(line)))
  return events
}

async function heard(events: readonly Event[], name: string, times = 1): Promise<void> {
  await vi.waitUntil(() => events.filter((event) => event.event === name).length >= times, { timeout: 20_000, interval: 10 })
}

async function isDraining({ url, token }: Serving): Promise<unknown> {
  const response = await fetch(`${url}/nodes`, { headers: { authorization: `Bearer ${token}` } })
  return ((await response.json()) as readonly Event[]).map((node) => node.draining)
}

describe('polar serve, told to stop while sessions run', () => {
  it('gives every session its end and every task its callback, says each step, and leaves nothing', async () => {
    const node = await work.start()
    await work.submit(node, 'long', 6)
    await work.submit(node, 'late', 1)
    await work.working(1)
    const events = listen(node)
    const gone = node.stop('SIGTERM')
    // The second step begins when the first is done: no task is admitted any more.
    await heard(events, 'drain-begun', 2)
    expect(await isDraining(node)).toEqual([true])
    // Nothing of the second task ran: its trainer hears of it while the first still works.
    await vi.waitUntil(() => work.callbacks.length === 1, { timeout: 60_000, interval: 20 })
    work.openGate()
    expect(await gone).toBe(0)

    expect(work.callbacks.map(({ task_id, status }) => [task_id, status])).toEqual([
      ['late', 'failed'],
      ['long', 'completed'],
    ])
    const [late, long] = work.callbacks
    expect(late?.results.map(({ trajectory }) => trajectory.error)).toEqual(['session cancelled: node is stopping'])
    const statuses = long?.results.map(({ status }) => status) ?? []
    // One ran, and two had been given their places in READY.
    expect(statuses.toSorted()).toEqual(['COMPLETED', 'COMPLETED', 'COMPLETED', 'ERROR', 'ERROR', 'ERROR'])
    const steps = events.filter(({ event }) => event === 'drain').map(({ step, name, ok }) => `${step} ${name} ${ok}`)
    expect(steps).toEqual(['1 admission true', '2 gateway g true', '3 sessions true', '4 callback true', '5 sandboxes true'])
    expect(events.filter(({ event }) => event === 'drain-begun')).toHaveLength(5)
    expect([work.processes(), work.sandboxes(), readdirSync(work.data).filter((name) => name.startsWith('lock'))]).toEqual([[], [], []])
  })

  it('stops at once at a second signal, outlives a third, and leaves nothing', async () => {
    const node = await work.start()
    await work.submit(node, 'endless', 4)
    await work.working(1)
    expect(work.processes().length).toBeGreaterThan(1)
    const events = listen(node)
    const gone = node.stop('SIGTERM')
    await heard(events, 'draining')
    node.child.kill('SIGINT')
    node.child.kill('SIGTERM')
    expect(await gone).toBe(0)
    await heard(events, 'stopped')
    expect(events.filter(({ event }) => event === 'drain')).toEqual([])
    expect([work.processes(), work.sandboxes()]).toEqual([[], []])
  })
})

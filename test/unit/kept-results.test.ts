// Reading results by themselves: a few at a time, once for all of its ranges, and within bounds.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { memoryLedger } from '../../src/actors/ledger/actor.ts'
import type { LedgerCommand, Recorded } from '../../src/actors/ledger/protocol.ts'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { openKeptResults } from '../../src/http/kept-results.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { request, summary } from '../model/rollout-server-world.ts'

let kernel: Kernel
let ledger: Address<LedgerCommand>
const SESSIONS = Array.from({ length: 12 }, (_, at) => knownSessionId(`s${at}`))

beforeEach(async () => {
  kernel = openKernel({ thread: threadId('control'), incarnation: 1, scheduler: openEventLoop(), random: cryptoRandom(), peers: 1 })
  ledger = kernel.spawn(memoryLedger({ maxKeptTasks: 10, maxBytes: 1 << 20, maxCallLogs: 10 }))
  const task = taskId('t')
  await tell((ask) => ({ type: 'record-task', key: task, task: request('t'), sessions: SESSIONS, ask }))
  for (const session of SESSIONS) {
    const payload = new ArrayBuffer(8)
    await tell((ask) => ({
      type: 'record-result',
      task,
      session,
      attempt: 1,
      summary: summary('completed'),
      payload,
      completions: null,
      ask,
    }))
  }
})
afterEach(() => kernel.close())

async function tell(make: Parameters<typeof kernel.ask<LedgerCommand, Recorded>>[1]): Promise<void> {
  expect(await kernel.ask<LedgerCommand, Recorded>(ledger, make, 20_000)).toEqual({ ok: true, value: { type: 'recorded' } })
}

/** A renderer that gives so many bytes, each as soon as it is let go. */
function openRenderer(bytes: number) {
  const held: (() => void)[] = []
  let rendered = 0
  let isOpen = false
  return {
    rendered: () => rendered,
    held: () => held.length,
    letGo(): void {
      isOpen = true
      for (const go of held.splice(0)) go()
    },
    async render(): Promise<Uint8Array> {
      rendered += 1
      if (!isOpen) await new Promise<void>((go) => held.push(go))
      return new Uint8Array(bytes)
    },
  }
}

describe('kept results', () => {
  it('are rendered once, however often they are read, and once for each form', async () => {
    const renderer = openRenderer(10)
    renderer.letGo()
    const results = openKeptResults({ kernel, ledger, render: renderer.render })
    for (let round = 0; round < 3; round += 1) {
      expect(await results.whole(SESSIONS[0]!, 'msgpack')).toMatchObject({ ok: true, attempt: 1 })
      await results.whole(SESSIONS[0]!, 'json')
    }
    expect(renderer.rendered()).toBe(2)
  })

  it('are forgotten when others take the room, those first that were not read for longest', async () => {
    const renderer = openRenderer(10 * 2 ** 20)
    renderer.letGo()
    const results = openKeptResults({ kernel, ledger, render: renderer.render })
    const read = (at: number) => results.whole(SESSIONS[at]!, 'json')
    for (const at of [0, 1, 2, 0, 3]) await read(at)
    expect(renderer.rendered()).toBe(4)
    await read(0)
    expect(renderer.rendered()).toBe(4)
    await read(1)
    expect(renderer.rendered()).toBe(5)
  })

  it('are in memory two at a time, and everyone has a turn', async () => {
    const renderer = openRenderer(1)
    const results = openKeptResults({ kernel, ledger, render: renderer.render })
    const reads = SESSIONS.map((session) => results.whole(session, 'json'))
    await vi.waitUntil(() => renderer.held() === 2, { interval: 1, timeout: 20_000 })
    expect(renderer.rendered()).toBe(2)
    renderer.letGo()
    expect((await Promise.all(reads)).map(({ ok }) => ok)).toEqual(SESSIONS.map(() => true))
  })

  it('are refused, not queued without end', async () => {
    const renderer = openRenderer(1)
    const results = openKeptResults({ kernel, ledger, render: renderer.render })
    const reads = Array.from({ length: 2 + 256 }, () => results.traces(SESSIONS[0]!, 'json', { offset: 0, limit: 1, maxBytes: 1 }))
    expect(await results.whole(SESSIONS[1]!, 'json')).toMatchObject({ ok: false, error: 'unavailable' })
    renderer.letGo()
    expect((await Promise.all(reads)).every(({ ok }) => ok)).toBe(true)
    expect(await results.whole(SESSIONS[1]!, 'json')).toMatchObject({ ok: true })
  })

  it('that cannot be rendered leave their place to others', async () => {
    const results = openKeptResults({
      kernel,
      ledger,
      render: async () => {
        throw new Error('the thread is gone')
      },
    })
    for (let round = 0; round < 5; round += 1) {
      expect(await results.whole(SESSIONS[0]!, 'json')).toMatchObject({ ok: false, error: 'unavailable' })
    }
    expect(await results.whole(knownSessionId('none'), 'json')).toMatchObject({ ok: false, error: 'missing' })
  })
})

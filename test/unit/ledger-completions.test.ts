// Completions in the ledger: kept with the result of their attempt, in the room that everything else leaves.
import { describe, expect, it } from 'vitest'
import type { LedgerCommand, Recorded, StoredResult } from '../../src/actors/ledger/protocol.ts'
import { emptyLedger, step } from '../../src/actors/ledger/state.ts'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Ask } from '../../src/kernel/ask.ts'
import { request, summary } from '../model/rollout-server-world.ts'

const RECORDED: Recorded = { type: 'recorded' }

function openLedger(maxBytes: number) {
  let state = emptyLedger({ maxKeptTasks: 100, maxBytes, maxCallLogs: 100 }, 'ledger-1')
  const tell = <R>(make: (ask: Ask<R>) => LedgerCommand): R => {
    const [next, [effect]] = step(state, make({ thread: threadId('test'), incarnation: 1, ask: 1 }))
    state = next
    return effect!.value as R // of the ask it answers
  }
  return {
    bytes: () => state.bytes + state.completions.bytes,
    result(id: string, bytes: number, completions: number | null, attempt = 1): Recorded {
      const task = request(id, { callback_url: 'http://127.0.0.1:9/' })
      const session = knownSessionId(`${id}-s`)
      tell<Recorded>((ask) => ({ type: 'record-task', key: taskId(id), task, sessions: [session], ask }))
      return tell<Recorded>((ask) => ({
        type: 'record-result',
        task: taskId(id),
        session,
        attempt,
        summary: summary('completed'),
        payload: new ArrayBuffer(bytes),
        completions: completions === null ? null : new Uint8Array(completions).fill(attempt).buffer,
        ask,
      }))
    },
    settle: (id: string, attempt: number) =>
      tell((ask) => ({
        type: 'settle-result',
        task: taskId(id),
        session: knownSessionId(`${id}-s`),
        attempt,
        summary: summary('interrupted'),
        payload: new ArrayBuffer(1),
        ask,
      })),
    deliver(id: string): void {
      tell<Recorded>((ask) => ({ type: 'record-task-ended', task: taskId(id), status: 'completed', ask }))
      tell<Recorded>((ask) => ({ type: 'record-delivery', task: taskId(id), state: 'delivered', detail: '', ask }))
    },
    completions: (id: string) => tell<ArrayBuffer | null>((ask) => ({ type: 'read-completions', session: knownSessionId(`${id}-s`), ask })),
    hasResult: (id: string) =>
      tell<StoredResult>((ask) => ({ type: 'read-result', session: knownSessionId(`${id}-s`), ask })).type === 'result',
  }
}

describe('completions', () => {
  it('are answered as a copy', () => {
    const ledger = openLedger(1_000)
    expect(ledger.result('a', 10, 20)).toEqual(RECORDED)
    const first = ledger.completions('a')
    structuredClone(first, { transfer: [first!] })
    expect(ledger.completions('a')?.byteLength).toBe(20)
    expect(ledger.completions('b')).toBeNull()
  })

  it('go with the attempt that stands', () => {
    const ledger = openLedger(1_000)
    ledger.result('a', 10, 20)
    ledger.result('a', 10, 30, 2)
    expect(new Uint8Array(ledger.completions('a')!)).toEqual(new Uint8Array(30).fill(2))
    expect(ledger.bytes()).toBe(40)
    ledger.settle('a', 3)
    expect(ledger.completions('a')).toBeNull()
    expect(ledger.bytes()).toBe(1)
  })

  it('give way to results, the oldest first, and drive no result out', () => {
    const ledger = openLedger(1_000)
    ledger.result('a', 100, 300)
    ledger.result('b', 100, 300)
    expect(ledger.result('c', 300, null)).toEqual(RECORDED)
    expect(['a', 'b'].map((id) => ledger.completions(id)?.byteLength)).toEqual([undefined, 300])
    expect(ledger.result('d', 400, null)).toEqual(RECORDED)
    expect(ledger.completions('b')).toBeNull()
    expect(['a', 'b', 'c', 'd'].map(ledger.hasResult)).toEqual([true, true, true, true])
  })

  it('are not kept where they do not fit, and the result is all the same', () => {
    const ledger = openLedger(1_000)
    ledger.result('a', 600, 100)
    ledger.deliver('a')
    expect(ledger.result('b', 100, 500)).toEqual(RECORDED)
    expect(ledger.hasResult('a')).toBe(true)
    expect(ledger.completions('b')).toBeNull()
    expect(ledger.bytes()).toBeLessThanOrEqual(1_000)
  })

  it('are gone with their task', () => {
    const ledger = openLedger(1_000)
    ledger.result('a', 600, 200)
    ledger.deliver('a')
    ledger.result('b', 900, null)
    expect([ledger.hasResult('a'), ledger.completions('a'), ledger.bytes()]).toEqual([false, null, 900])
  })
})

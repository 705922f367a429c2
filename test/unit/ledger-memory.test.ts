// The in-memory ledger: what it acknowledges it keeps until nobody needs it, and it says so when it cannot.
import { describe, expect, it } from 'vitest'
import type { LedgerCommand, Recorded, SettledResult, StoredResult } from '../../src/actors/ledger/protocol.ts'
import { emptyLedger, step } from '../../src/actors/ledger/state.ts'
import type { CallRecord } from '../../src/contract/call.ts'
import { callId, knownSessionId, taskId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Ask } from '../../src/kernel/ask.ts'
import { request, summary } from '../model/rollout-server-world.ts'

const LIMITS = { maxKeptTasks: 100, maxBytes: 1_000_000, maxCallLogs: 100 }
const RECORDED = { type: 'recorded' }

class Ledger {
  state
  #asks = 0
  constructor(limits: Partial<typeof LIMITS> = {}) {
    this.state = emptyLedger({ ...LIMITS, ...limits }, 'ledger-1')
  }
  tell<R>(make: (ask: Ask<R>) => LedgerCommand): R {
    this.#asks += 1
    const ask: Ask<R> = { thread: threadId('test'), incarnation: 1, ask: this.#asks }
    const [state, effects] = step(this.state, make(ask))
    this.state = state
    expect(effects.map((effect) => effect.ask)).toEqual([ask])
    return effects[0]!.value as R
  }
  task(id: string, sessions = [`${id}-s`], overrides: Record<string, unknown> = { callback_url: 'http://127.0.0.1:9/' }): Recorded {
    const task = request(id, overrides)
    return this.tell((ask) => ({ type: 'record-task', key: taskId(task.task_id), task, sessions: sessions.map(knownSessionId), ask }))
  }
  result(id: string, bytes: number | Uint8Array<ArrayBuffer> = 10, attempt = 1, session = `${id}-s`): Recorded {
    const payload = typeof bytes === 'number' ? new ArrayBuffer(bytes) : bytes.buffer
    const ended = summary('completed')
    return this.tell((ask) => ({
      type: 'record-result',
      task: taskId(id),
      session: knownSessionId(session),
      attempt,
      summary: ended,
      payload,
      completions: null,
      ask,
    }))
  }
  settle(id: string, attempt: number, session = `${id}-s`): SettledResult {
    const ended = summary('interrupted')
    return this.tell((ask) => ({
      type: 'settle-result',
      task: taskId(id),
      session: knownSessionId(session),
      attempt,
      summary: ended,
      payload: new ArrayBuffer(1),
      ask,
    }))
  }
  end(id: string, status: 'completed' | 'failed' = 'completed'): Recorded {
    return this.tell((ask) => ({ type: 'record-task-ended', task: taskId(id), status, ask }))
  }
  deliver(id: string, state: 'delivered' | 'dead' | 'pending'): Recorded {
    return this.tell((ask) => ({ type: 'record-delivery', task: taskId(id), state, detail: '', ask }))
  }
  read(session: string): StoredResult {
    return this.tell((ask) => ({ type: 'read-result', session: knownSessionId(session), ask }))
  }
  call(session: string, sequence: number, particulars: Partial<CallRecord> = {}): Recorded {
    return this.tell((ask) => ({ type: 'record-call', call: { ...call(session, sequence), ...particulars }, ask }))
  }
  calls(session: string): readonly number[] {
    return this.tell<readonly CallRecord[]>((ask) => ({ type: 'read-calls', session: knownSessionId(session), ask })).map(
      (found) => found.sequence,
    )
  }
  /** A task that ended with a result of `bytes`. */
  done(id: string, bytes: number, state: 'delivered' | 'dead' | 'pending') {
    expect(this.task(id)).toEqual(RECORDED)
    expect(this.result(id, bytes)).toEqual(RECORDED)
    expect(this.end(id)).toEqual(RECORDED)
    if (state !== 'pending') expect(this.deliver(id, state)).toEqual(RECORDED)
  }
}

function call(session: string, sequence: number): CallRecord {
  return {
    id: callId(String(sequence)),
    session: knownSessionId(session),
    attempt: 1,
    sequence,
    dialect: 'openai-chat',
    lineage: null,
    modelRequested: 'm',
    modelServed: 'm',
    engine: 'vllm',
    replica: null,
    streamed: false,
    status: 'ok',
    httpStatus: 200,
    finishReason: 'stop',
    delivery: 'yes',
    digest: '',
    retryOf: null,
    promptMessages: [0],
    responseMessage: 1,
    tools: null,
    toolCount: 0,
    maxTokensRequested: null,
    sampling: { temperature: null, topP: null, topK: null, seed: null, maxTokens: null },
    parameters: 0,
    logprobMode: 'raw',
    weightVersion: null,
    weightSpans: [],
    usage: null,
    captureError: null,
    diagnostics: [],
    startedAtMs: 0,
    durationMs: 0,
    error: null,
  }
}

describe('a result', () => {
  it('is answered as a copy of what was recorded', () => {
    const ledger = new Ledger()
    ledger.task('t')
    ledger.result('t', new Uint8Array([1, 2, 3]))
    const first = ledger.read('t-s')
    if (first.type !== 'result') throw new Error(first.type)
    expect([...new Uint8Array(first.payload)]).toEqual([1, 2, 3])
    new Uint8Array(first.payload).fill(9)
    first.payload.transfer()
    expect(ledger.read('t-s')).toMatchObject({ attempt: 1, payload: new Uint8Array([1, 2, 3]).buffer })
    expect(ledger.read('other')).toEqual({ type: 'no-result', session: 'other' })
  })

  it('is replaced by a later attempt, never by an earlier one, and never changes', () => {
    const ledger = new Ledger()
    ledger.task('t')
    expect(ledger.result('t', new Uint8Array([1]), 1)).toEqual(RECORDED)
    expect(ledger.result('t', new Uint8Array([1]), 1)).toEqual(RECORDED)
    expect(ledger.result('t', new Uint8Array([2]), 1)).toMatchObject({ type: 'refused', reason: 'conflict' })
    expect(ledger.result('t', new Uint8Array([3, 3]), 2)).toEqual(RECORDED)
    expect(ledger.result('t', new Uint8Array([1]), 1)).toMatchObject({ type: 'refused', reason: 'conflict' })
    expect(ledger.read('t-s')).toMatchObject({ attempt: 2, payload: new Uint8Array([3, 3]).buffer })
    expect(ledger.state.bytes).toBe(2)
    ledger.end('t')
    expect(ledger.result('t', 1, 3)).toMatchObject({ type: 'refused', reason: 'conflict' })
  })

  it('of a session that cannot report any more is the one it had recorded, if it had', () => {
    const ledger = new Ledger()
    ledger.task('t', ['a', 'b'])
    ledger.result('t', 3, 1, 'a')
    expect(ledger.settle('t', 1, 'a')).toEqual({ type: 'settled', summary: summary('completed') })
    expect(ledger.settle('t', 2, 'a')).toEqual({ type: 'settled', summary: summary('interrupted') })
    expect(ledger.settle('t', 1, 'b')).toEqual({ type: 'settled', summary: summary('interrupted') })
    expect(ledger.read('b')).toMatchObject({ type: 'result', attempt: 1 })
  })

  it('of an unknown task is refused', () => {
    expect(new Ledger().result('t')).toMatchObject({ type: 'refused', reason: 'conflict' })
  })
})

describe('a task', () => {
  it('may be recorded again with the same body, and not with another', () => {
    const ledger = new Ledger()
    expect(ledger.task('t', ['a'])).toEqual(RECORDED)
    expect(ledger.task('t', ['a'])).toEqual(RECORDED)
    // The first record was not acknowledged: the trainer submits again, and the sessions have new ids.
    expect(ledger.task('t', ['b'])).toEqual(RECORDED)
    expect(ledger.task('t', ['b'], {})).toMatchObject({ type: 'refused', reason: 'conflict' })
    ledger.result('t', 1, 1, 'b')
    expect(ledger.task('t', ['c'])).toMatchObject({ type: 'refused', reason: 'conflict' })
  })

  it('may not have a session of another, whatever became of that one', () => {
    const ledger = new Ledger()
    ledger.task('t', ['s'])
    expect(ledger.task('u', ['r', 's'])).toEqual({ type: 'refused', reason: 'conflict', detail: 'session s is recorded already' })
    ledger.result('t', 10, 1, 's')
    ledger.end('t')
    expect(ledger.task('u', ['s'])).toMatchObject({ type: 'refused', reason: 'conflict' })
    expect(ledger.task('u', ['r'])).toEqual(RECORDED)
  })

  it('ends once', () => {
    const ledger = new Ledger()
    expect(ledger.end('t')).toMatchObject({ type: 'refused', reason: 'conflict' })
    ledger.task('t')
    expect(ledger.end('t')).toEqual(RECORDED)
    expect(ledger.end('t')).toEqual(RECORDED)
    expect(ledger.end('t', 'failed')).toMatchObject({ type: 'refused', reason: 'conflict' })
  })
})

describe('what is kept', () => {
  const kept = (ledger: Ledger, ids: readonly string[]) => ids.filter((id) => ledger.read(`${id}-s`).type === 'result')

  it('is the newest delivered tasks, every undelivered one, and dead letters before delivered ones', () => {
    const ledger = new Ledger({ maxKeptTasks: 2 })
    ledger.done('dead', 1, 'dead')
    ledger.done('p', 1, 'pending')
    ledger.done('a', 1, 'delivered')
    ledger.done('b', 1, 'delivered')
    expect(kept(ledger, ['dead', 'p', 'a', 'b'])).toEqual(['dead', 'p', 'b'])
    ledger.done('dead2', 1, 'dead')
    ledger.done('dead3', 1, 'dead')
    expect(kept(ledger, ['dead', 'p', 'b', 'dead2', 'dead3'])).toEqual(['p', 'dead2', 'dead3'])
    ledger.deliver('p', 'delivered')
    expect(kept(ledger, ['p', 'dead2', 'dead3'])).toEqual(['dead2', 'dead3'])
  })

  it('of a task without a callback is as if it were delivered', () => {
    const ledger = new Ledger({ maxKeptTasks: 1 })
    for (const id of ['a', 'b']) {
      ledger.task(id, [`${id}-s`], {})
      ledger.result(id)
      ledger.end(id)
    }
    expect(kept(ledger, ['a', 'b'])).toEqual(['b'])
  })

  it('gives nothing away for a result that it could not hold if it were empty', () => {
    const ledger = new Ledger({ maxBytes: 100 })
    ledger.done('a', 40, 'delivered')
    ledger.task('c')
    expect(ledger.result('c', 101)).toMatchObject({ type: 'refused', reason: 'too-large' })
    expect(kept(ledger, ['a'])).toEqual(['a'])
  })

  it('stays within the bytes: delivered results give way, undelivered ones do not', () => {
    const ledger = new Ledger({ maxBytes: 100 })
    ledger.done('a', 40, 'delivered')
    ledger.done('p', 40, 'pending')
    ledger.task('c')
    expect(ledger.result('c', 50)).toEqual(RECORDED)
    expect(kept(ledger, ['a', 'p', 'c'])).toEqual(['p', 'c'])
    ledger.task('d')
    expect(ledger.result('d', 20)).toMatchObject({ type: 'refused', reason: 'full' })
    expect(ledger.state.bytes).toBe(90)
    ledger.deliver('p', 'delivered')
    expect(ledger.result('d', 20)).toEqual(RECORDED)
    expect(ledger.state.bytes).toBe(70)
  })
})

describe('call records', () => {
  it('are answered in the order in which they were recorded', () => {
    const ledger = new Ledger()
    ledger.task('t')
    for (const sequence of [1, 2, 3]) ledger.call('t-s', sequence)
    expect(ledger.calls('t-s')).toEqual([1, 2, 3])
    expect(ledger.calls('other')).toEqual([])
  })

  it('stand once although a call was recorded again, as they were recorded last', () => {
    const ledger = new Ledger()
    ledger.task('t')
    for (const sequence of [1, 2]) ledger.call('t-s', sequence)
    const mended = { ...call('t-s', 1), delivery: 'no' as const }
    ledger.tell<Recorded>((ask) => ({ type: 'record-call', call: mended, ask }))
    const read = ledger.tell<readonly CallRecord[]>((ask) => ({ type: 'read-calls', session: knownSessionId('t-s'), ask }))
    expect(read.map(({ sequence, delivery }) => [sequence, delivery])).toEqual([
      [1, 'no'],
      [2, call('t-s', 2).delivery],
    ])
  })

  it('are kept until the result is there, and for so many sessions afterwards', () => {
    const ledger = new Ledger({ maxCallLogs: 1 })
    for (const id of ['a', 'b', 'c']) {
      ledger.task(id)
      ledger.call(`${id}-s`, 1)
    }
    expect(['a', 'b', 'c'].map((id) => ledger.calls(`${id}-s`).length)).toEqual([1, 1, 1])
    ledger.result('a', 0)
    ledger.result('b', 0)
    expect(['a', 'b', 'c'].map((id) => ledger.calls(`${id}-s`).length)).toEqual([0, 1, 1])
  })

  it('of a session without a task are bounded too', () => {
    const ledger = new Ledger({ maxCallLogs: 2 })
    for (const session of ['x', 'y', 'z']) ledger.call(session, 1)
    expect(['x', 'y', 'z'].map((session) => ledger.calls(session).length)).toEqual([0, 1, 1])
  })

  it('are refused when nothing can give way', () => {
    const ledger = new Ledger({ maxBytes: 1_500 })
    ledger.task('t')
    expect(ledger.call('t-s', 1)).toEqual(RECORDED)
    expect(ledger.call('t-s', 2)).toMatchObject({ type: 'refused', reason: 'full' })
  })

  it.each([
    ['messages', { promptMessages: Array.from({ length: 2_000 }, () => 0) }],
    ['notes', { diagnostics: Array.from({ length: 64 }, () => ({ code: 'field-dropped', detail: 'x'.repeat(200) })) }],
  ])('are as large as their %s make them', (_name, particulars) => {
    const ledger = new Ledger({ maxBytes: 16_000 })
    ledger.task('t')
    expect(ledger.call('t-s', 1)).toEqual(RECORDED)
    expect(ledger.call('t-s', 2, particulars)).toMatchObject({ type: 'refused', reason: 'full' })
  })

  it('give their bytes back with their task', () => {
    const ledger = new Ledger({ maxKeptTasks: 0 })
    ledger.task('t')
    ledger.call('t-s', 1)
    ledger.result('t', 5)
    ledger.end('t')
    expect(ledger.state.bytes).toBeGreaterThan(0)
    ledger.deliver('t', 'delivered')
    expect([
      ledger.state.bytes,
      ledger.state.tasks.size,
      ledger.state.owners.size,
      ledger.state.calls.size,
      ledger.state.finishedLogs,
    ]).toEqual([0, 0, 0, 0, []])
  })
})

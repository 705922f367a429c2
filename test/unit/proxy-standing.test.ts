// A replica that comes out of a pause: it is asked how it stands, and grants nothing before it is known to be awake.
import { describe, expect, it } from 'vitest'
import { replicaId, sessionId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Engine } from '../../src/proxy/engines/engine.ts'
import { llamacpp } from '../../src/proxy/engines/llamacpp.ts'
import { readStanding } from '../../src/proxy/engines/standing.ts'
import { vllm } from '../../src/proxy/engines/vllm.ts'
import { openReplica, type ReplicaEffect, type ReplicaMessage, statusOf, step } from '../../src/proxy/pool/state.ts'

const LIMITS = { inFlight: 2, line: 1, downAfter: 1, probeBackoffMs: { first: 500, longest: 4_000 } }

function openUp(canBeAsked = true) {
  let [state] = openReplica(replicaId('r'), 'http://r', LIMITS, false, canBeAsked)
  const answers: string[] = []
  let callers = 0
  const send = (message: ReplicaMessage): readonly ReplicaEffect[] => {
    const [next, effects] = step(state, message)
    state = next
    for (const effect of effects) {
      if (effect.type === 'answer') answers.push(effect.acquired.type === 'granted' ? 'granted' : effect.acquired.reason)
    }
    return effects.filter(({ type }) => type !== 'answer')
  }
  const value = {
    type: 'serving',
    model: 'm',
    tier: 'train',
    maxModelLen: null,
    weightVersion: 'v1',
    logprobMode: 'raw',
    detail: null,
  } as const
  // What else a probe finds is no matter here.
  send({ type: 'probed', result: { ok: true, value: value as never } })
  return {
    send,
    answers,
    status: () => statusOf(state),
    call(): void {
      callers += 1
      const ask = { thread: threadId('t'), incarnation: 1, ask: callers }
      send({ type: 'acquire', session: sessionId('s'), ticket: callers, tier: 'train', ask })
    },
    stands: (pause: number, isAsleep: boolean, weightVersion: string | null) =>
      send({ type: 'asked', pause, result: { ok: true, value: { isAsleep, weightVersion } } }),
  }
}

describe('a replica after a pause', () => {
  it('serves when it has said that it is awake, of the weights that it has said', () => {
    const { send, answers, status, call, stands } = openUp()
    send({ type: 'pause' })
    expect(send({ type: 'resume' })).toEqual([{ type: 'ask', pause: 1 }])
    for (let caller = 0; caller < 4; caller += 1) call()
    // Two of them have places, one may wait for one.
    expect([answers, status().state]).toEqual([['full'], 'up'])
    stands(1, false, 'v2')
    expect([answers, status()]).toMatchObject([['full', 'granted', 'granted'], { weightVersion: 'v2', inFlight: 2, waiting: 1 }])
  })

  it('is asked again while it sleeps, and says so', () => {
    const { send, answers, status, call, stands } = openUp()
    send({ type: 'pause' })
    send({ type: 'resume' })
    call()
    expect(stands(1, true, 'v1')).toEqual([{ type: 'ask-after', pause: 1, delayMs: 500 }])
    expect([answers, status()]).toMatchObject([[], { state: 'up', detail: 'the engine sleeps' }])
    expect(send({ type: 'ask-due', pause: 1 })).toEqual([{ type: 'ask', pause: 1 }])
    stands(1, false, null)
    expect([answers, status()]).toMatchObject([['granted'], { detail: null, weightVersion: 'v1' }])
  })

  it('serves when nothing could be learned', () => {
    const { send, answers, call } = openUp()
    send({ type: 'pause' })
    send({ type: 'resume' })
    call()
    send({ type: 'asked', pause: 1, result: { ok: false, error: new Error('gone') } })
    expect(answers).toEqual(['granted'])
  })

  it('goes by no word of an earlier pause', () => {
    const { send, answers, call, stands, status } = openUp()
    send({ type: 'pause' })
    send({ type: 'resume' })
    send({ type: 'pause' })
    stands(1, false, 'v2')
    expect(status()).toMatchObject({ state: 'paused', weightVersion: 'v1' })
    send({ type: 'resume' })
    call()
    stands(1, false, 'v2')
    expect([send({ type: 'ask-due', pause: 1 }), answers]).toEqual([[], []])
    stands(2, false, 'v3')
    expect([answers, status().weightVersion]).toEqual([['granted'], 'v3'])
  })

  it('is not down for a call that broke while it was asked', () => {
    const { send, status, call } = openUp()
    call()
    send({ type: 'pause' })
    send({ type: 'resume' })
    send({ type: 'release', lease: 1, outcome: 'unreachable', weightVersion: null })
    expect(status().state).toBe('up')
  })

  it('serves at once when it cannot be asked', () => {
    const { send, answers, call } = openUp(false)
    send({ type: 'pause' })
    expect(send({ type: 'resume' })).toEqual([])
    call()
    expect(answers).toEqual(['granted'])
  })
})

describe('how a server stands', () => {
  const reply = (status: number, body: string) => ({ ok: true, response: { status, headers: {}, body: Buffer.from(body) } }) as const
  const stands = (answers: Readonly<Record<string, ReturnType<typeof reply>>>, engine: Engine = vllm) => {
    const asked: string[] = []
    const send = async ({ path }: { readonly path: string }) => {
      asked.push(path)
      return answers[path] ?? reply(404, '{}')
    }
    const connection = { send, close: async () => {} }
    return readStanding(engine, connection, new AbortController().signal).then((standing) => ({ ...standing, asked }))
  }

  it.each([
    [{ '/is_sleeping': reply(200, '{"is_sleeping":true}'), '/weight_info': reply(200, '{"weight_version":"v2"}') }, true, 'v2'],
    [{ '/is_sleeping': reply(200, '{"is_sleeping":false}'), '/weight_info': reply(200, '{"weight_version":7}') }, false, '7'],
    [{}, false, null],
    [{ '/is_sleeping': reply(500, '{"is_sleeping":true}'), '/weight_info': reply(200, 'no') }, false, null],
  ])('is read from what it says: %j', async (answers, isAsleep, weightVersion) => {
    expect(await stands(answers)).toMatchObject({ isAsleep, weightVersion })
  })

  it('is not asked of one that has no such routes', async () => {
    expect(await stands({}, llamacpp)).toEqual({ isAsleep: false, weightVersion: null, asked: [] })
  })
})

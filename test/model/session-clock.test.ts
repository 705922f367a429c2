// An agent's deadlines in virtual time with pauses at any moment: each passes when the time outside of pauses is used up, and never in one.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionEffect, SessionState } from '../../src/actors/session/phases.ts'
import type { Deadline, SessionMessage } from '../../src/actors/session/protocol.ts'
import { openSession, step } from '../../src/actors/session/state.ts'
import { sessionPolicy, sessionSpec } from '../lib/specs.ts'
import { opened, sandbox } from './session-machine.ts'

type Kind = 'agent' | 'capture'

const { budgets } = sessionPolicy
const held: SessionMessage = { type: 'calls-held', isHeld: true }
const released: SessionMessage = { type: 'calls-held', isHeld: false }

/** A session and its timers: each sends its deadline's word when its time has come. */
function liveSession(kind: Kind, changes: Partial<typeof budgets> = {}) {
  const policy = { ...sessionPolicy, budgets: { ...budgets, ...changes } }
  let state: SessionState = openSession(sessionSpec('s', { kind }), policy, 0)
  let nowMs = 0
  const timers = new Map<Deadline, number>()
  const ends: { readonly atMs: number; readonly deadline: Deadline | null }[] = []
  let passing: Deadline | null = null

  function perform(effect: SessionEffect): void {
    if (effect.type === 'arm') {
      expect(timers.has(effect.deadline), `${effect.deadline} is set once`).toBe(false)
      timers.set(effect.deadline, nowMs + effect.afterMs)
    }
    if (effect.type === 'disarm') timers.delete(effect.deadline)
    if (effect.type === 'kill-agent' || effect.type === 'seal') ends.push({ atMs: nowMs, deadline: passing })
  }
  function send(message: SessionMessage): void {
    const [next, effects] = step(state, message, nowMs, () => null)
    state = next
    for (const effect of effects) perform(effect)
  }
  function runTo(untilMs: number): void {
    for (;;) {
      const due = [...timers].filter(([, atMs]) => atMs <= untilMs).toSorted((a, b) => a[1] - b[1])[0]
      if (due === undefined) break
      timers.delete(due[0])
      nowMs = due[1]
      passing = due[0]
      send({ type: 'deadline-passed', of: due[0] })
      passing = null
    }
    nowMs = untilMs
  }
  function begin(): void {
    if (kind === 'capture') {
      send({ type: 'begin-capture' })
      return
    }
    send({ type: 'begin-init' })
    send({ type: 'sandbox-started', result: { ok: true, value: { ok: true, value: sandbox } } })
    send({ type: 'prepared', result: { ok: true, value: { ok: true, prepareMs: 1, setupMs: 1 } } })
    send({ type: 'begin-run' })
    send({ type: 'launched', result: { ok: true, value: { ok: true, value: undefined } } })
  }
  return {
    ends,
    timers,
    send,
    begin,
    advance: (byMs: number) => runTo(nowMs + byMs),
    nowMs: () => nowMs,
  }
}

type Live = ReturnType<typeof liveSession>

describe('the time of an agent', () => {
  it('does not run in a pause: a budget of 60 s with 600 s of pause in it ends when 60 s without one are over', () => {
    const session = liveSession('agent', { agentMs: 60_000 })
    session.begin()
    session.send(opened)
    session.advance(20_000)
    session.send(held)
    session.advance(600_000)
    session.send(released)
    session.advance(39_999)
    expect(session.ends).toEqual([])
    session.advance(1)
    expect(session.ends).toEqual([{ atMs: 660_000, deadline: 'agent' }])
  })

  it.each<[Deadline, Kind, number]>([
    ['first-call', 'agent', budgets.firstCallMs],
    ['idle', 'capture', budgets.captureIdleMs],
    ['agent', 'agent', budgets.agentMs],
    ['agent', 'capture', budgets.agentMs],
  ])('of %s of a session of kind %s begins with the resume, when it is opened in a pause', (deadline, kind, limitMs) => {
    const session = liveSession(kind)
    session.send(held)
    session.begin()
    if (deadline === 'agent') session.send(opened)
    session.advance(1_000_000)
    expect([session.ends, session.timers.size]).toEqual([[], 0])
    session.send(released)
    session.advance(limitMs)
    expect(session.ends).toEqual([{ atMs: 1_000_000 + limitMs, deadline }])
  })

  it('of INIT runs in a pause: it asks no model', () => {
    const session = liveSession('agent')
    session.send({ type: 'begin-init' })
    session.send(held)
    session.advance(budgets.initMs)
    expect(session.ends).toEqual([{ atMs: budgets.initMs, deadline: 'init' }])
  })

  it('is not cut by the word of a deadline that was on its way when the pause came', () => {
    const session = liveSession('agent')
    session.begin()
    session.send(opened)
    session.advance(budgets.agentMs - 1)
    session.send(held)
    session.send({ type: 'deadline-passed', of: 'agent' })
    expect(session.ends).toEqual([])
    session.send(released)
    session.advance(1)
    expect(session.ends).toEqual([{ atMs: budgets.agentMs, deadline: 'agent' }])
  })

  const wait = fc.record({ does: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 9_000 }) })
  const act = fc.constantFrom('hold' as const, 'release' as const, 'open' as const, 'close' as const).map((does) => ({ does, ms: 0 }))
  it.each<Kind>(['agent', 'capture'])('is the time outside of pauses, however those and its calls come: kind %s', (kind) => {
    fc.assert(
      fc.property(fc.array(fc.oneof(wait, act), { maxLength: 60, size: 'max' }), (moves) => {
        const session = liveSession(kind)
        session.begin()
        playAgainstModel(session, kind, moves)
      }),
      { numRuns: 300 },
    )
  })
})

type Move = { readonly does: 'wait' | 'hold' | 'release' | 'open' | 'close'; readonly ms: number }

/** The model: what is left of each deadline, taken away millisecond by millisecond of waiting outside of pauses. */
function playAgainstModel(session: Live, kind: Kind, moves: readonly Move[]): void {
  const left = new Map<Deadline, number>([['agent', budgets.agentMs]])
  left.set(kind === 'agent' ? 'first-call' : 'idle', kind === 'agent' ? budgets.firstCallMs : budgets.captureIdleMs)
  let isHeld = false
  let inFlight = 0
  for (const { does, ms } of moves) {
    switch (does) {
      case 'hold':
      case 'release':
        isHeld = does === 'hold'
        session.send(isHeld ? held : released)
        break
      case 'open':
        session.send(opened)
        inFlight += 1
        left.delete(kind === 'agent' ? 'first-call' : 'idle')
        break
      case 'close':
        if (inFlight === 0) break
        session.send({
          type: 'call-closed',
          call: 'c' as never,
          status: 'ok',
          model: { requested: 'm', used: 'm', dialect: 'openai-chat' },
          promptTokens: 1,
          sampledTokens: 1,
          contextExhausted: false,
        })
        inFlight -= 1
        if (kind === 'capture' && inFlight === 0) left.set('idle', budgets.captureIdleMs)
        break
      case 'wait': {
        const startedMs = session.nowMs()
        session.advance(ms)
        const [next] = isHeld ? [] : [...left].toSorted((a, b) => a[1] - b[1])
        if (next !== undefined && next[1] <= ms) {
          // Two that are due in one moment may come in either order.
          expect(session.ends.map(({ atMs }) => atMs)).toEqual([startedMs + next[1]])
          return
        }
        if (!isHeld) for (const [deadline, rest] of left) left.set(deadline, rest - ms)
        break
      }
    }
    expect(session.ends).toEqual([])
    expect([...session.timers.keys()].toSorted()).toEqual(isHeld ? [] : [...left.keys()].toSorted())
  }
}

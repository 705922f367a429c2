// One replica's leases, waiting line, health, pause and removal. Pure; actor.ts runs the effects.
import type { ReplicaId } from '../../contract/ids.ts'
import type { Settled } from '../../kernel/actor.ts'
import type { Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { ReplicaStatus } from '../boundary.ts'
import type { ProbeResult } from '../engines/probe.ts'
import type { Standing } from '../engines/standing.ts'
import type { Acquired, ReplicaCommand } from './protocol.ts'

export type ReplicaLimits = {
  /** This thread's share of what the replica may generate at once. */
  readonly inFlight: number
  /** How many may wait for a place. */
  readonly line: number
  /** Consecutive unreachable calls after which the replica is down. */
  readonly downAfter: number
  readonly probeBackoffMs: { readonly first: number; readonly longest: number }
}

type Waiter = { readonly ticket: number; readonly tier: 'train' | 'eval'; readonly ask: Ask<Acquired> }

type Health =
  | { readonly phase: 'unprobed' }
  | { readonly phase: 'up'; readonly tier: 'train' | 'eval'; readonly detail: string | null; readonly missed: number }
  | { readonly phase: 'down'; readonly detail: string; readonly failures: number }

export type ReplicaState = {
  readonly id: ReplicaId
  readonly url: string
  readonly limits: ReplicaLimits
  readonly health: Health
  readonly isPaused: boolean
  /** Whether it can be asked how it stands when a pause is over: it may sleep still, or have other weights. */
  readonly canBeAsked: boolean
  /** It is asked, and grants nothing until it is known to be awake; null: it is not. */
  readonly asking: Asking | null
  readonly pauses: number
  readonly isRemoved: boolean
  readonly weightVersion: string | null
  /** Ticket by lease. */
  readonly leases: ReadonlyMap<number, number>
  readonly waiting: readonly Waiter[]
  readonly nextLease: number
}

/** `pause`: the number of the pause that it came out of, by which late words are known. */
type Asking = { readonly pause: number; readonly isAsleep: boolean }

type ReplicaSignal =
  | { readonly type: 'probe-due' }
  | { readonly type: 'probed'; readonly result: Settled<ProbeResult> }
  | { readonly type: 'ask-due'; readonly pause: number }
  | { readonly type: 'asked'; readonly pause: number; readonly result: Settled<Standing> }

export type ReplicaMessage = ReplicaCommand | ReplicaSignal

export type ReplicaEffect =
  | { readonly type: 'answer'; readonly ask: Ask<Acquired>; readonly acquired: Acquired }
  | { readonly type: 'show'; readonly ask: Ask<ReplicaStatus>; readonly status: ReplicaStatus }
  | { readonly type: 'probe' }
  /** Before jitter. */
  | { readonly type: 'probe-after'; readonly delayMs: number }
  | { readonly type: 'ask'; readonly pause: number }
  | { readonly type: 'ask-after'; readonly pause: number; readonly delayMs: number }

type Step = readonly [ReplicaState, readonly ReplicaEffect[]]

/** How long a caller should stay away when the line is full. */
const FULL_RETRY_MS = 2_000

/** One that begins in a pause is first probed when that is over. */
export function openReplica(id: ReplicaId, url: string, limits: ReplicaLimits, isPaused = false, canBeAsked = false): Step {
  const state: ReplicaState = {
    id,
    url,
    limits,
    health: { phase: 'unprobed' },
    isPaused,
    canBeAsked,
    asking: null,
    pauses: isPaused ? 1 : 0,
    isRemoved: false,
    weightVersion: null,
    leases: new Map(),
    waiting: [],
    nextLease: 1,
  }
  return [state, [isPaused ? probeLater(limits) : { type: 'probe' }]]
}

export function step(state: ReplicaState, message: ReplicaMessage): Step {
  switch (message.type) {
    case 'acquire':
      return acquire(state, { ticket: message.ticket, tier: message.tier, ask: message.ask })
    case 'withdraw':
      return withdraw(state, message.ticket)
    case 'release':
      return release(state, message)
    case 'relieve':
      return relieve(state, message.count, message.tier)
    case 'remove':
      return grantWaiting({ ...state, isRemoved: true })
    case 'pause':
      return state.isPaused ? [state, []] : [{ ...state, isPaused: true, asking: null, pauses: state.pauses + 1 }, []]
    case 'resume':
      return resume(state)
    case 'ask-due':
      return state.asking?.pause === message.pause ? [state, [{ type: 'ask', pause: message.pause }]] : [state, []]
    case 'asked':
      return asked(state, message.pause, message.result)
    case 'read-replica':
      return [state, [{ type: 'show', ask: message.ask, status: statusOf(state) }]]
    case 'probe-due':
      if (state.health.phase === 'up' || state.isRemoved) return [state, []]
      // A sleeping engine is not unhealthy; it is asked again when it may answer.
      return [state, [state.isPaused ? probeLater(state.limits) : { type: 'probe' }]]
    case 'probed':
      return probed(state, message.result)
    default:
      return unreachable(message)
  }
}

export function isServing(state: ReplicaState): boolean {
  return !state.isRemoved && (state.health.phase === 'up' || state.isPaused)
}

export function statusOf(state: ReplicaState): ReplicaStatus {
  const { health } = state
  return {
    id: state.id,
    url: state.url,
    state: state.isRemoved ? 'removing' : state.isPaused ? 'paused' : health.phase,
    tier: health.phase === 'up' ? health.tier : 'unknown',
    inFlight: state.leases.size,
    waiting: state.waiting.length,
    weightVersion: state.weightVersion,
    detail: state.asking?.isAsleep === true ? 'the engine sleeps' : health.phase === 'unprobed' ? null : health.detail,
  }
}

function acquire(state: ReplicaState, waiter: Waiter): Step {
  const refusal = refusalOf(state, waiter)
  if (refusal !== null) return [state, [{ type: 'answer', ask: waiter.ask, acquired: refusal }]]
  const isFree = canGrant(state) && state.waiting.length === 0
  // Those for whom there are places wait for a word, not for a place.
  const soonServed = state.asking === null ? 0 : state.limits.inFlight - state.leases.size
  if (!isFree && state.waiting.length >= state.limits.line + soonServed) {
    const acquired: Acquired = state.isPaused
      ? { type: 'refused', reason: 'paused', retryAfterMs: FULL_RETRY_MS, detail: `replica ${state.id} is paused and its line is full` }
      : { type: 'refused', reason: 'full', retryAfterMs: FULL_RETRY_MS, detail: `replica ${state.id} is busy and its line is full` }
    return [state, [{ type: 'answer', ask: waiter.ask, acquired }]]
  }
  return grantWaiting({ ...state, waiting: [...state.waiting, waiter] })
}

function canGrant(state: ReplicaState): boolean {
  return (
    !state.isRemoved && state.health.phase === 'up' && !state.isPaused && state.asking === null && state.leases.size < state.limits.inFlight
  )
}

/** Why this replica will not serve this caller however long it waits. */
function refusalOf(state: ReplicaState, waiter: Waiter): Acquired | null {
  const { health } = state
  if (state.isRemoved) return { type: 'refused', reason: 'removed', retryAfterMs: 0, detail: `replica ${state.id} is removed` }
  // A sleeping engine is not unhealthy: who comes meanwhile waits for it.
  if (health.phase === 'down' && !state.isPaused) {
    const retryAfterMs = backoffMs(state.limits, health.failures)
    return { type: 'refused', reason: 'down', retryAfterMs, detail: `replica ${state.id} is down: ${health.detail}` }
  }
  if (health.phase === 'up' && health.tier === 'eval' && waiter.tier === 'train') {
    const detail = `replica ${state.id} cannot serve training sessions: ${health.detail ?? 'its tier is eval'}`
    return { type: 'refused', reason: 'not-trainable', retryAfterMs: 0, detail }
  }
  return null
}

/** Gives free places to the head of the line and refuses whom this replica can no longer serve. */
function grantWaiting(state: ReplicaState): Step {
  const effects: ReplicaEffect[] = []
  const leases = new Map(state.leases)
  let { nextLease } = state
  const waiting = state.waiting.filter((waiter) => {
    const refusal = refusalOf(state, waiter)
    if (refusal !== null) {
      effects.push({ type: 'answer', ask: waiter.ask, acquired: refusal })
      return false
    }
    if (!canGrant({ ...state, leases })) return true
    leases.set(nextLease, waiter.ticket)
    effects.push({ type: 'answer', ask: waiter.ask, acquired: { type: 'granted', lease: nextLease } })
    nextLease += 1
    return false
  })
  return [{ ...state, leases, waiting, nextLease }, effects]
}

/** One that is not up is probed anyway, which asks the same. */
function resume(state: ReplicaState): Step {
  if (!state.isPaused) return [state, []]
  const resumed: ReplicaState = { ...state, isPaused: false }
  if (!state.canBeAsked || state.health.phase !== 'up' || state.isRemoved) return grantWaiting(resumed)
  const { pauses: pause } = state
  return [{ ...resumed, asking: { pause, isAsleep: false } }, [{ type: 'ask', pause }]]
}

function asked(state: ReplicaState, pause: number, result: Settled<Standing>): Step {
  if (state.asking?.pause !== pause) return [state, []]
  if (result.ok && result.value.isAsleep) {
    const delayMs = state.limits.probeBackoffMs.first
    return [{ ...state, asking: { pause, isAsleep: true } }, [{ type: 'ask-after', pause, delayMs }]]
  }
  const weightVersion = result.ok ? result.value.weightVersion : null
  return grantWaiting({ ...state, asking: null, weightVersion: weightVersion ?? state.weightVersion })
}

function relieve(state: ReplicaState, count: number, tier: 'train' | 'eval'): Step {
  const leaving = state.waiting.filter((waiter) => tier === 'train' || waiter.tier === 'eval').slice(0, count)
  const acquired: Acquired = { type: 'refused', reason: 'moved', retryAfterMs: 0, detail: 'another replica has room' }
  return [
    { ...state, waiting: state.waiting.filter((waiter) => !leaving.includes(waiter)) },
    leaving.map(({ ask }) => ({ type: 'answer', ask, acquired })),
  ]
}

function withdraw(state: ReplicaState, ticket: number): Step {
  const left = state.waiting.find((waiter) => waiter.ticket === ticket)
  if (left !== undefined) {
    const acquired: Acquired = { type: 'refused', reason: 'full', retryAfterMs: 0, detail: 'withdrawn' }
    return [{ ...state, waiting: state.waiting.filter((waiter) => waiter !== left) }, [{ type: 'answer', ask: left.ask, acquired }]]
  }
  const held = [...state.leases].find(([, holder]) => holder === ticket)
  return held === undefined ? [state, []] : grantWaiting({ ...state, leases: without(state.leases, held[0]) })
}

function release(state: ReplicaState, message: Extract<ReplicaCommand, { type: 'release' }>): Step {
  // A lease given back twice, or after its withdrawal, is nobody's.
  if (!state.leases.has(message.lease)) return [state, []]
  const freed: ReplicaState = {
    ...state,
    leases: without(state.leases, message.lease),
    weightVersion: message.weightVersion ?? state.weightVersion,
  }
  const { health } = freed
  // A sleeping engine is not unhealthy.
  const isResting = freed.isPaused || freed.asking !== null
  if (freed.isRemoved || health.phase !== 'up' || message.outcome === 'cancelled' || (message.outcome === 'unreachable' && isResting))
    return grantWaiting(freed)
  if (message.outcome !== 'unreachable') return grantWaiting({ ...freed, health: { ...health, missed: 0 } })
  const missed = health.missed + 1
  if (missed < state.limits.downAfter) return grantWaiting({ ...freed, health: { ...health, missed } })
  return goDown(freed, `unreachable ${missed} times in a row`, 1)
}

function probed(state: ReplicaState, result: Settled<ProbeResult>): Step {
  if (state.health.phase === 'up' || state.isRemoved) return [state, []]
  const failures = state.health.phase === 'down' ? state.health.failures + 1 : 1
  if (!result.ok) return goDown(state, result.error.message, failures)
  if (result.value.type === 'unusable') return goDown(state, result.value.detail, failures)
  const { tier, detail, weightVersion } = result.value
  return grantWaiting({ ...state, health: { phase: 'up', tier, detail, missed: 0 }, weightVersion: weightVersion ?? state.weightVersion })
}

function goDown(state: ReplicaState, detail: string, failures: number): Step {
  const [down, effects] = grantWaiting({ ...state, health: { phase: 'down', detail, failures } })
  return [down, [...effects, { type: 'probe-after', delayMs: backoffMs(state.limits, failures) }]]
}

function probeLater({ probeBackoffMs }: ReplicaLimits): ReplicaEffect {
  return { type: 'probe-after', delayMs: probeBackoffMs.first }
}

function backoffMs({ probeBackoffMs: { first, longest } }: ReplicaLimits, failures: number): number {
  return Math.min(longest, first * 2 ** Math.min(failures - 1, 30))
}

function without(leases: ReadonlyMap<number, number>, lease: number): ReadonlyMap<number, number> {
  const left = new Map(leases)
  left.delete(lease)
  return left
}

// The time that counts against an agent: it stands still while a pause holds its model calls, and its deadlines with it.
import type { SessionEffect, SessionState, SessionStep } from './phases.ts'
import type { Deadline } from './protocol.ts'

/** Those that an agent can miss; INIT asks no model. */
type AgentDeadline = Exclude<Deadline, 'init'>

export type AgentClock = {
  /** Up to `runsSinceMs`, or in all while it stands. */
  readonly usedMs: number
  /** Null while it stands. */
  readonly runsSinceMs: number | null
  /** The deadlines that are set, by the time used at which they pass. */
  readonly ends: { readonly [deadline in AgentDeadline]?: number }
}

type Open = Exclude<SessionState, { phase: 'closed' }>

export function openClock(nowMs: number): AgentClock {
  return { usedMs: 0, runsSinceMs: nowMs, ends: {} }
}

function usedMs({ usedMs: before, runsSinceMs }: AgentClock, nowMs: number): number {
  return runsSinceMs === null ? before : before + nowMs - runsSinceMs
}

/** True of a deadline whose word was on its way when the clock was stopped; it is told again in its time. */
export function isAhead(clock: AgentClock, deadline: Deadline, nowMs: number): boolean {
  const end = deadline === 'init' ? undefined : clock.ends[deadline]
  return clock.runsSinceMs === null && end !== undefined && end > usedMs(clock, nowMs)
}

export function standStill(state: Open, nowMs: number): SessionStep {
  const { clock } = state
  if (clock.runsSinceMs === null) return [state, []]
  const stopped = deadlinesOf(clock).map(([deadline]): SessionEffect => ({ type: 'disarm', deadline }))
  return [{ ...state, clock: { ...clock, usedMs: usedMs(clock, nowMs), runsSinceMs: null } }, stopped]
}

export function runOn(state: Open, nowMs: number): SessionStep {
  const { clock } = state
  if (clock.runsSinceMs !== null) return [state, []]
  const left = deadlinesOf(clock).map(
    ([deadline, end]): SessionEffect => ({ type: 'arm', deadline, afterMs: Math.max(0, end - clock.usedMs) }),
  )
  return [{ ...state, clock: { ...clock, runsSinceMs: nowMs } }, left]
}

/** Keeps what a step sets and takes back of the agent's deadlines; none runs while the clock stands. */
export function kept([state, effects]: SessionStep, nowMs: number): SessionStep {
  if (state.phase === 'closed') return [state, effects]
  const { clock } = state
  const ends = { ...clock.ends }
  const run = effects.filter((effect) => {
    if ((effect.type !== 'arm' && effect.type !== 'disarm') || effect.deadline === 'init') return true
    if (effect.type === 'arm') ends[effect.deadline] = usedMs(clock, nowMs) + effect.afterMs
    else delete ends[effect.deadline]
    return clock.runsSinceMs !== null
  })
  return [{ ...state, clock: { ...clock, ends } }, run]
}

function deadlinesOf({ ends }: AgentClock): readonly (readonly [AgentDeadline, number])[] {
  return AGENT_DEADLINES.flatMap((deadline) => {
    const end = ends[deadline]
    return end === undefined ? [] : [[deadline, end] as const]
  })
}

const AGENT_DEADLINES: readonly AgentDeadline[] = ['agent', 'first-call', 'idle']

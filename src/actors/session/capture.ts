// A session whose agent was started elsewhere: its door opens at once; its owner's word, its budget, idleness or a cancel ends it.
import type { Evaluation } from '../../evaluators/evaluator.ts'
import {
  announcement,
  commonOf,
  type Ended,
  marked,
  type SessionEffect,
  type SessionState,
  type SessionStep,
  type Verdict,
} from './phases.ts'
import { roomVerdict } from './verdict.ts'

export type Capture = Extract<SessionState, { phase: 'capturing' }>

export function beginCapture(state: SessionState, nowMs: number): SessionStep {
  if (state.phase !== 'queued') return [state, []]
  const { agentMs, captureIdleMs } = state.policy.budgets
  const open: Capture = { ...state, phase: 'capturing', inFlight: 0, marks: marked(state, 'runBegan', nowMs) }
  return [
    open,
    [
      { type: 'open-door' },
      announcement(open, 'RUNNING'),
      { type: 'arm', deadline: 'agent', afterMs: agentMs },
      { type: 'arm', deadline: 'idle', afterMs: captureIdleMs },
    ],
  ]
}

/** Idle is who has no call in flight, however long the last one takes. */
export function countCall(state: Capture, change: 1 | -1): SessionStep {
  const next: Capture = { ...state, calls: state.calls + (change === 1 ? 1 : 0), inFlight: state.inFlight + change }
  const idle: SessionEffect[] = []
  // Facts that met a full mailbox may come late: a call may close before it opens, so this goes below zero and comes back.
  if (state.inFlight === 0) idle.push({ type: 'disarm', deadline: 'idle' })
  if (next.inFlight === 0) idle.push({ type: 'arm', deadline: 'idle', afterMs: state.policy.budgets.captureIdleMs })
  return [next, [...idle, announcement(next, 'RUNNING')]]
}

/** Its owner says that the agent is done. */
export function captureFinished(state: Capture, reward: number | null, nowMs: number): SessionStep {
  return leaveCapture(state, verdictOf(state, { outcome: 'completed', error: null }), reward, nowMs)
}

export function captureTimedOut(state: Capture, deadline: 'agent' | 'idle', nowMs: number): SessionStep {
  const { agentMs, captureIdleMs } = state.policy.budgets
  const error = deadline === 'agent' ? `the capture lasted longer than ${agentMs} ms` : `no model call for ${captureIdleMs} ms`
  return leaveCapture(state, verdictOf(state, { outcome: 'agent_timeout', error }), null, nowMs)
}

/** Nothing of it runs here: it is over as soon as its door is sealed. */
export function leaveCapture(state: Capture, verdict: Verdict, clientReward: number | null, nowMs: number): SessionStep {
  const common = { ...commonOf(state), marks: marked(state, 'agentGone', nowMs) }
  return [
    { ...common, phase: 'sealing', verdict, sandbox: null, ended: null, clientReward },
    [{ type: 'disarm', deadline: 'agent' }, { type: 'disarm', deadline: 'idle' }, { type: 'seal' }],
  ]
}

/** The reward that came with the end of a capture, in the place of an evaluator's. */
export function clientEvaluation({ clientReward, cancelled }: Ended): Evaluation | null {
  if (clientReward === null || cancelled !== null) return null
  return { type: 'graded', outcomeReward: clientReward, traceRewards: null, metadata: {} }
}

function verdictOf(state: Capture, otherwise: Verdict): Verdict {
  const room = roomVerdict(state)
  if (room !== null) return room
  return state.calls === 0 ? { outcome: 'harness_error', error: 'the session ended without a single model call' } : otherwise
}

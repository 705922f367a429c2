// One attempt of one session: its phase, budgets and outcome. Pure; actor.ts runs the effects.
import { cancelledError } from '../../contract/outcome.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { CancelReason, SessionSpec } from '../gateway/protocol.ts'
import type { AgentEnded, StartedSandbox } from '../sandbox/protocol.ts'
import { isAhead, kept, openClock, runOn, standStill } from './agent-clock.ts'
import { beginCapture, captureFinished, captureTimedOut, countCall, leaveCapture } from './capture.ts'
import {
  announcement,
  commonOf,
  type Live,
  marked,
  prefixed,
  type SessionEffect,
  type SessionPolicy,
  type SessionState,
  type SessionStep,
  type Verdict,
} from './phases.ts'
import { beginPostRun, built, evaluated, finish, finished, recorded, recordOf, report, sandboxesStopped, sealed } from './post-run.ts'
import type { Deadline, SessionMessage } from './protocol.ts'
import { type Judge, overridden, roomVerdict, verdictOf } from './verdict.ts'

export function openSession(spec: SessionSpec, policy: SessionPolicy, nowMs: number): SessionState {
  return {
    phase: 'queued',
    spec,
    policy,
    marks: { opened: nowMs },
    clock: openClock(nowMs),
    durations: {},
    calls: 0,
    model: null,
    contextExhausted: false,
    budgetSpent: null,
    cancelled: null,
  }
}

export function step(state: SessionState, message: SessionMessage, nowMs: number, judge: Judge): SessionStep {
  if (state.phase === 'closed') return [state, []]
  if (message.type === 'calls-held') return message.isHeld ? standStill(state, nowMs) : runOn(state, nowMs)
  return kept(proceed(state, message, nowMs, judge), nowMs)
}

type Event = Exclude<SessionMessage, { type: 'calls-held' }>

function proceed(state: Exclude<SessionState, { phase: 'closed' }>, message: Event, nowMs: number, judge: Judge): SessionStep {
  switch (message.type) {
    case 'begin-capture':
      return beginCapture(state, nowMs)
    case 'door-refused':
      if (state.phase !== 'capturing') return [state, []]
      return leaveCapture(state, { outcome: 'init_error', error: message.error }, null, nowMs)
    case 'finish-capture': {
      const isTaken = state.phase === 'capturing'
      const answer: SessionEffect = { type: 'answer-finish', ask: message.ask, isTaken }
      return isTaken ? prefixed(answer, captureFinished(state, message.reward, nowMs)) : [state, [answer]]
    }
    case 'read-access':
      return [state, [{ type: 'answer-access', ask: message.ask, isOpen: state.phase === 'capturing' }]]
    case 'begin-init':
      if (state.phase !== 'queued') return [state, []]
      return [
        { ...state, phase: 'starting', marks: marked(state, 'initBegan', nowMs) },
        [
          announcement(state, 'INITIALIZING'),
          { type: 'arm', deadline: 'init', afterMs: state.policy.budgets.initMs },
          { type: 'start-sandbox' },
        ],
      ]
    case 'sandbox-started': {
      if (state.phase !== 'starting') return [state, []]
      const { result } = message
      if (!result.ok)
        return abandon(state, null, { outcome: 'init_error', error: `the sandbox host did not answer: ${result.error}` }, nowMs)
      if (!result.value.ok)
        return abandon(state, null, { outcome: 'init_error', error: `the sandbox did not start: ${result.value.error.detail}` }, nowMs)
      const sandbox = result.value.value
      return [{ ...state, phase: 'preparing', sandbox, marks: marked(state, 'sandboxStarted', nowMs) }, [{ type: 'prepare', sandbox }]]
    }
    case 'prepared': {
      if (state.phase !== 'preparing') return [state, []]
      const { result } = message
      if (!result.ok) return abandon(state, state.sandbox, { outcome: 'init_error', error: result.error.message }, nowMs)
      if (!result.value.ok) {
        const outcome =
          result.value.blame === 'harness' ? 'harness_error' : result.value.blame === 'runtime' ? 'runtime_error' : 'init_error'
        const { detail: error, isFinal } = result.value
        return abandon(state, state.sandbox, { outcome, error, isFinal }, nowMs)
      }
      const { prepareMs, setupMs } = result.value
      const durations = { ...state.durations, prepare_ms: prepareMs, agent_setup_ms: setupMs }
      return [
        { ...state, phase: 'ready', durations, marks: marked(state, 'ready', nowMs) },
        [{ type: 'disarm', deadline: 'init' }, announcement(state, 'READY'), { type: 'tell-gateway', fact: 'session-prepared' }],
      ]
    }
    case 'begin-run':
      if (state.phase !== 'ready') return [state, []]
      return [
        { ...state, phase: 'launching', marks: marked(state, 'runBegan', nowMs) },
        [
          announcement(state, 'RUNNING'),
          { type: 'arm', deadline: 'agent', afterMs: state.policy.budgets.agentMs },
          { type: 'arm', deadline: 'first-call', afterMs: state.policy.budgets.firstCallMs },
          { type: 'launch', sandbox: state.sandbox },
        ],
      ]
    case 'launched': {
      if (state.phase !== 'launching') return [state, []]
      const { result } = message
      if (!result.ok)
        return abandon(state, state.sandbox, { outcome: 'runtime_error', error: `the sandbox host did not answer: ${result.error}` }, nowMs)
      if (!result.value.ok)
        return abandon(
          state,
          state.sandbox,
          { outcome: 'runtime_error', error: `the agent did not start: ${result.value.error.detail}` },
          nowMs,
        )
      return [{ ...state, phase: 'running' }, []]
    }
    case 'process-ended':
      return processEnded(state, message.ended, nowMs, judge)
    case 'call-opened': {
      if (state.phase === 'capturing') return countCall(state, 1)
      if (!isLive(state)) return [state, []]
      const next = { ...state, calls: state.calls + 1 }
      const first: readonly SessionEffect[] = state.calls === 0 ? [{ type: 'disarm', deadline: 'first-call' }] : []
      return [next, [...first, announcement(next, 'RUNNING')]]
    }
    case 'call-closed': {
      // An agent that made room and was answered again has got over it.
      const contextExhausted = message.contextExhausted || (state.contextExhausted && message.status !== 'ok')
      const next = { ...state, contextExhausted, model: message.model }
      if (next.phase === 'capturing') return countCall(next, -1)
      return [next, isLive(next) ? [announcement(next, 'RUNNING')] : []]
    }
    case 'budget-spent':
      // Who was told so has called, though nothing was counted as a call.
      return [{ ...state, budgetSpent: state.budgetSpent ?? message.sentence }, [{ type: 'disarm', deadline: 'first-call' }]]
    case 'deadline-passed':
      if (isAhead(state.clock, message.of, nowMs)) return [state, []]
      return deadlinePassed(state, message.of, nowMs)
    case 'cancel':
      return cancel(state, message.reason, nowMs)
    case 'agent-killed': {
      if (state.phase !== 'killing') return [state, []]
      // An agent that may still live would be graded while it acts: such a session is ours to answer for, not the policy's.
      const isDead = message.result.ok && message.result.value.ok
      const verdict = isDead ? state.verdict : overridden(state, { outcome: 'runtime_error', error: 'the agent could not be stopped' })
      return [{ ...state, phase: 'sealing', verdict, marks: marked(state, 'agentGone', nowMs) }, [{ type: 'seal' }]]
    }
    case 'sealed':
      return sealed(state, message, nowMs)
    case 'begin-post-run':
      return beginPostRun(state, nowMs)
    case 'built':
      return built(state, message, nowMs)
    case 'evaluated':
      return evaluated(state, message, nowMs)
    case 'finished':
      return finished(state, message, nowMs)
    case 'recorded':
      return recorded(state, message, nowMs)
    case 'sandboxes-stopped':
      return sandboxesStopped(state)
    case 'record-again':
      return state.phase === 'recording' ? [state, [recordOf(state)]] : [state, []]
    case 'report-again':
      return state.phase === 'reporting' ? report(state) : [state, []]
    default:
      return unreachable(message)
  }
}

function isLive(state: SessionState): state is Live {
  return state.phase === 'launching' || state.phase === 'running'
}

function processEnded(state: SessionState, ended: AgentEnded, nowMs: number, judge: Judge): SessionStep {
  // A kill that is under way makes the process end; its output still belongs to the result.
  if (state.phase === 'killing' || state.phase === 'sealing') return [{ ...state, ended: state.ended ?? ended }, []]
  if (!isLive(state)) return [state, []]
  return leaveRun(state, verdictOf(state, ended, judge), ended, nowMs)
}

function deadlinePassed(state: SessionState, deadline: Deadline, nowMs: number): SessionStep {
  if (state.phase === 'closed') return [state, []]
  const { budgets } = state.policy
  switch (deadline) {
    case 'init':
      if (state.phase !== 'starting' && state.phase !== 'preparing') return [state, []]
      return abandon(
        state,
        state.phase === 'preparing' ? state.sandbox : null,
        { outcome: 'init_error', error: `INIT took longer than ${budgets.initMs} ms` },
        nowMs,
      )
    case 'agent':
      if (state.phase === 'capturing') return captureTimedOut(state, 'agent', nowMs)
      if (!isLive(state)) return [state, []]
      return leaveRun(
        state,
        roomVerdict(state) ?? { outcome: 'agent_timeout', error: `the agent ran longer than ${budgets.agentMs} ms` },
        null,
        nowMs,
      )
    case 'first-call':
      if (!isLive(state) || state.calls > 0) return [state, []]
      return leaveRun(state, { outcome: 'harness_error', error: `no model call within ${budgets.firstCallMs} ms` }, null, nowMs)
    case 'idle':
      return state.phase === 'capturing' ? captureTimedOut(state, 'idle', nowMs) : [state, []]
    default:
      return unreachable(deadline)
  }
}

function cancel(state: SessionState, reason: CancelReason, nowMs: number): SessionStep {
  if (state.phase === 'closed') return [state, []]
  const verdict: Verdict = { outcome: 'cancelled', error: cancelledError(reason) }
  switch (state.phase) {
    case 'queued':
    case 'starting':
      return abandon({ ...state, cancelled: reason }, null, verdict, nowMs)
    case 'preparing':
    case 'ready':
      return abandon({ ...state, cancelled: reason }, state.sandbox, verdict, nowMs)
    case 'launching':
    case 'running':
      return leaveRun({ ...state, cancelled: reason }, verdict, null, nowMs)
    case 'capturing':
      return leaveCapture({ ...state, cancelled: reason }, verdict, null, nowMs)
    case 'evaluating':
      return prefixed({ type: 'withdraw-evaluation' }, finish({ ...state, verdict, cancelled: reason }, state.payload, null, nowMs))
    case 'killing':
    case 'sealing':
    case 'post-run-queued':
    case 'building':
      return [{ ...state, verdict, cancelled: reason }, []]
    case 'finishing':
    case 'recording':
    case 'stopping':
    case 'reporting':
      // The result is being written: the session ended before the cancel.
      return [state, []]
    default:
      return unreachable(state)
  }
}

/** Ends a session whose agent never acted. Its door may be open, so it passes through sealing all the same. */
function abandon(
  state: Exclude<SessionState, { phase: 'closed' }>,
  sandbox: StartedSandbox | null,
  verdict: Verdict,
  nowMs: number,
): SessionStep {
  const common = { ...commonOf(state), marks: marked(state, 'agentGone', nowMs) }
  return [
    { ...common, phase: 'sealing', verdict, sandbox, ended: null, clientReward: null },
    [
      { type: 'disarm', deadline: 'init' },
      { type: 'disarm', deadline: 'agent' },
      { type: 'disarm', deadline: 'first-call' },
      { type: 'seal' },
    ],
  ]
}

/** The agent may still have children: nothing is sealed or graded before its whole tree is gone. */
function leaveRun(state: Live, verdict: Verdict, ended: AgentEnded | null, nowMs: number): SessionStep {
  const common = { ...commonOf(state), marks: marked(state, 'agentEnded', nowMs) }
  return [
    { ...common, phase: 'killing', verdict, sandbox: state.sandbox, ended, clientReward: null },
    [
      { type: 'disarm', deadline: 'agent' },
      { type: 'disarm', deadline: 'first-call' },
      { type: 'kill-agent', sandbox: state.sandbox },
    ],
  ]
}

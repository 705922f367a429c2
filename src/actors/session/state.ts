// One attempt of one session: its phase, budgets and outcome. Pure; actor.ts runs the effects.
import { cancelledError } from '../../contract/outcome.ts'
import type { Evaluation } from '../../evaluators/evaluator.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { CancelReason, SessionSpec } from '../gateway/protocol.ts'
import type { AgentEnded, StartedSandbox } from '../sandbox/protocol.ts'
import { beginCapture, captureFinished, captureTimedOut, clientEvaluation, countCall, leaveCapture } from './capture.ts'
import {
  announcement,
  commonOf,
  type Ended,
  endedOf,
  type Live,
  marked,
  type SessionEffect,
  type SessionPolicy,
  type SessionState,
  type SessionStep,
  type Verdict,
} from './phases.ts'
import type { Deadline, SessionMessage } from './protocol.ts'
import { timingOf } from './timing.ts'
import { afterEvaluation, afterSeal, isGraded, type Judge, overridden, verdictOf } from './verdict.ts'

export function openSession(spec: SessionSpec, policy: SessionPolicy, nowMs: number): SessionState {
  return {
    phase: 'queued',
    spec,
    policy,
    marks: { opened: nowMs },
    durations: {},
    calls: 0,
    model: null,
    contextExhausted: false,
    cancelled: null,
  }
}

export function step(state: SessionState, message: SessionMessage, nowMs: number, judge: Judge): SessionStep {
  if (state.phase === 'closed') return [state, []]
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
    case 'deadline-passed':
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
    case 'sealed': {
      if (state.phase !== 'sealing') return [state, []]
      const sealed = message.result.ok ? message.result.value : null
      const verdict = message.result.ok
        ? afterSeal(state, sealed)
        : { outcome: 'runtime_error' as const, error: `the captured calls could not be sealed: ${message.result.error.message}` }
      return [
        { ...state, phase: 'post-run-queued', sealed, verdict: overridden(state, verdict), marks: marked(state, 'postRunQueued', nowMs) },
        [announcement(state, 'POST_RUN'), { type: 'tell-gateway', fact: 'session-left-run' }],
      ]
    }
    case 'begin-post-run': {
      if (state.phase !== 'post-run-queued') return [state, []]
      const begun = { ...state, marks: marked(state, 'postRunBegan', nowMs) }
      if (state.sealed === null) return finish(begun, null, null, nowMs)
      return [
        { ...begun, phase: 'building', marks: marked(begun, 'buildBegan', nowMs) },
        [announcement(state, 'BUILDING'), { type: 'build', sealed: state.sealed }],
      ]
    }
    case 'built':
      return built(state, message, nowMs)
    case 'evaluated': {
      if (state.phase !== 'evaluating') return [state, []]
      const { result } = message
      const durations = { ...state.durations, eval_ms: nowMs - (state.marks.evaluateBegan ?? nowMs) }
      const evaluation = result.ok && result.value.type !== 'timed-out' ? result.value : null
      const verdict = overridden(state, afterEvaluation(state, result))
      const finished = finish({ ...state, durations, verdict }, state.payload, evaluation, nowMs)
      return result.ok ? finished : prefixed({ type: 'withdraw-evaluation' }, finished)
    }
    case 'finished': {
      if (state.phase !== 'finishing') return [state, []]
      const { result } = message
      if (result.ok && result.value.type === 'finished') {
        const { payload, summary } = result.value
        const isStopped = state.spec.kind === 'capture'
        const record: SessionEffect = { type: 'record', payload, summary, isRetry: false }
        return [{ ...state, phase: 'recording', payload, summary, isStopped }, isStopped ? [record] : [record, { type: 'stop-sandboxes' }]]
      }
      // The result could not be made from what was built: a result without traces always can.
      const error = result.ok && result.value.type === 'build-failed' ? result.value.error : result.ok ? 'unexpected reply' : result.error
      const verdict = overridden(state, { outcome: 'build_error', error: `the result could not be made: ${error}` })
      return finish({ ...state, verdict }, null, null, nowMs)
    }
    case 'recorded': {
      if (state.phase !== 'recording') return [state, []]
      const { result } = message
      const refusal = result.ok && result.value.type === 'refused' ? result.value : null
      if (refusal?.reason === 'too-large' && state.verdict.outcome !== 'build_error') {
        const verdict = overridden(state, { outcome: 'build_error', error: refusal.detail })
        return finish({ ...state, verdict }, null, null, nowMs)
      }
      // Held until the ledger takes it: a result that is not recorded must not be reported. In a conflict the session was ended without us,
      // and nobody listens to its report any more.
      if (!result.ok || (refusal !== null && refusal.reason !== 'conflict')) {
        return [state, [{ type: 'record', payload: state.payload, summary: state.summary, isRetry: true }]]
      }
      if (state.isStopped) return [{ ...state, phase: 'reporting' }, [{ type: 'report', summary: state.summary }]]
      return [{ ...state, phase: 'stopping' }, []]
    }
    case 'sandboxes-stopped': {
      if (state.phase === 'recording') return [{ ...state, isStopped: true }, []]
      if (state.phase !== 'stopping') return [state, []]
      return [{ ...state, phase: 'reporting' }, [{ type: 'report', summary: state.summary }]]
    }
    case 'record-again':
      if (state.phase !== 'recording') return [state, []]
      return [state, [{ type: 'record', payload: state.payload, summary: state.summary, isRetry: false }]]
    case 'report-again':
      return state.phase === 'reporting' ? [state, [{ type: 'report', summary: state.summary }]] : [state, []]
    default:
      return unreachable(message)
  }
}

/** The shell calls this once rollout-server has accepted the report. */
export function reported(state: SessionState): SessionStep {
  return state.phase === 'reporting' ? [{ phase: 'closed' }, [{ type: 'close' }]] : [state, []]
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
        state.contextExhausted
          ? { outcome: 'context_exhausted', error: 'the conversation no longer fits the model’s context' }
          : { outcome: 'agent_timeout', error: `the agent ran longer than ${budgets.agentMs} ms` },
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

function built(state: SessionState, message: Extract<SessionMessage, { type: 'built' }>, nowMs: number): SessionStep {
  if (state.phase !== 'building' || state.sealed === null) return [state, []]
  const { result } = message
  const released: SessionEffect = { type: 'release-sealed' }
  const timed = { ...state, durations: { ...state.durations, build_ms: nowMs - (state.marks.buildBegan ?? nowMs) } }
  if (!result.ok || result.value.type !== 'built') {
    const error =
      result.ok && result.value.type === 'build-failed'
        ? result.value.error
        : result.ok
          ? 'unexpected reply'
          : `the builder gave ${result.error}`
    const verdict = overridden(state, { outcome: 'build_error', error: `the trajectory could not be built: ${error}` })
    return prefixed(released, finish({ ...timed, verdict }, null, null, nowMs))
  }
  const { payload, traces } = result.value
  if (!isGraded(state) || state.sandbox === null) return prefixed(released, finish(timed, payload, clientEvaluation(state), nowMs))
  return [
    { ...timed, phase: 'evaluating', payload, traces, marks: marked(timed, 'evaluateBegan', nowMs) },
    [
      released,
      announcement(state, 'EVALUATING'),
      {
        type: 'evaluate',
        sandbox: state.sandbox,
        outcome: state.verdict.outcome,
        exitCode: state.ended?.exit.type === 'exited' ? state.ended.exit.code : null,
        traces,
      },
    ],
  ]
}

function finish(state: Ended, payload: ArrayBuffer | null, evaluation: Evaluation | null, nowMs: number): SessionStep {
  return [
    { ...endedOf(state), phase: 'finishing', evaluation },
    [
      {
        type: 'finish',
        payload,
        outcome: state.verdict.outcome,
        error: state.verdict.error,
        isFinal: state.verdict.isFinal ?? false,
        evaluation,
        timing: timingOf(state, nowMs),
        ended: state.ended,
        notes: state.sandbox?.notes ?? [],
        calls: state.calls,
        cancelled: state.cancelled,
      },
    ],
  ]
}

function prefixed(first: SessionEffect, [state, effects]: SessionStep): SessionStep {
  return [state, [first, ...effects]]
}

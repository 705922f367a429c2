// From the seal to the report: the calls are built, graded, made durable and told, in this order and each once.
import type { Evaluation } from '../../evaluators/evaluator.ts'
import { clientEvaluation } from './capture.ts'
import { announcement, type Ended, endedOf, marked, prefixed, type SessionEffect, type SessionState, type SessionStep } from './phases.ts'
import type { SessionMessage } from './protocol.ts'
import { timingOf } from './timing.ts'
import { afterEvaluation, afterSeal, isGraded, overridden } from './verdict.ts'

type Told<T extends SessionMessage['type']> = Extract<SessionMessage, { readonly type: T }>

export function sealed(state: SessionState, { result }: Told<'sealed'>, nowMs: number): SessionStep {
  if (state.phase !== 'sealing') return [state, []]
  const calls = result.ok ? result.value : null
  const verdict = result.ok
    ? afterSeal(state, calls)
    : { outcome: 'runtime_error' as const, error: `the captured calls could not be sealed: ${result.error.message}` }
  return [
    {
      ...state,
      phase: 'post-run-queued',
      sealed: calls,
      verdict: overridden(state, verdict),
      marks: marked(state, 'postRunQueued', nowMs),
    },
    [announcement(state, 'POST_RUN'), { type: 'tell-gateway', fact: 'session-left-run' }],
  ]
}

export function beginPostRun(state: SessionState, nowMs: number): SessionStep {
  if (state.phase !== 'post-run-queued') return [state, []]
  const begun = { ...state, marks: marked(state, 'postRunBegan', nowMs) }
  if (state.sealed === null) return finish(begun, null, null, nowMs)
  return [
    { ...begun, phase: 'building', marks: marked(begun, 'buildBegan', nowMs) },
    [announcement(state, 'BUILDING'), { type: 'build', sealed: state.sealed }],
  ]
}

export function built(state: SessionState, { result }: Told<'built'>, nowMs: number): SessionStep {
  if (state.phase !== 'building' || state.sealed === null) return [state, []]
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

export function evaluated(state: SessionState, { result }: Told<'evaluated'>, nowMs: number): SessionStep {
  if (state.phase !== 'evaluating') return [state, []]
  const durations = { ...state.durations, eval_ms: nowMs - (state.marks.evaluateBegan ?? nowMs) }
  const evaluation = result.ok && result.value.type !== 'timed-out' ? result.value : null
  const verdict = overridden(state, afterEvaluation(state, result))
  const next = finish({ ...state, durations, verdict }, state.payload, evaluation, nowMs)
  return result.ok ? next : prefixed({ type: 'withdraw-evaluation' }, next)
}

export function finish(state: Ended, payload: ArrayBuffer | null, evaluation: Evaluation | null, nowMs: number): SessionStep {
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
        model: state.model,
        cancelled: state.cancelled,
      },
    ],
  ]
}

export function finished(state: SessionState, { result }: Told<'finished'>, nowMs: number): SessionStep {
  if (state.phase !== 'finishing') return [state, []]
  if (result.ok && result.value.type === 'finished') {
    const { payload, summary } = result.value
    // A capture has no sandbox to stop.
    const isStopped = state.spec.kind === 'capture'
    const next = { ...state, phase: 'recording' as const, payload, summary, isStopped }
    return [next, isStopped ? [recordOf(next)] : [recordOf(next), { type: 'stop-sandboxes' }]]
  }
  // The result could not be made from what was built: a result without traces always can.
  const error = result.ok && result.value.type === 'build-failed' ? result.value.error : result.ok ? 'unexpected reply' : result.error
  const verdict = overridden(state, { outcome: 'build_error', error: `the result could not be made: ${error}` })
  return finish({ ...state, verdict }, null, null, nowMs)
}

type Recording = Extract<SessionState, { phase: 'recording' }>

export function recordOf({ payload, summary }: Pick<Recording, 'payload' | 'summary'>, isRetry = false): SessionEffect {
  return { type: 'record', payload, summary, isRetry }
}

export function recorded(state: SessionState, { result }: Told<'recorded'>, nowMs: number): SessionStep {
  if (state.phase !== 'recording') return [state, []]
  const refusal = result.ok && result.value.type === 'refused' ? result.value : null
  if (refusal?.reason === 'too-large' && state.verdict.outcome !== 'build_error') {
    const verdict = overridden(state, { outcome: 'build_error', error: refusal.detail })
    return finish({ ...state, verdict }, null, null, nowMs)
  }
  // Held until the ledger takes it: a result that is not recorded must not be reported. In a conflict the session was ended without us,
  // and nobody listens to its report any more.
  if (!result.ok || (refusal !== null && refusal.reason !== 'conflict')) return [state, [recordOf(state, true)]]
  return state.isStopped ? report({ ...state, phase: 'reporting' }) : [{ ...state, phase: 'stopping' }, []]
}

export function sandboxesStopped(state: SessionState): SessionStep {
  if (state.phase === 'recording') return [{ ...state, isStopped: true }, []]
  return state.phase === 'stopping' ? report({ ...state, phase: 'reporting' }) : [state, []]
}

export function report(state: Extract<SessionState, { phase: 'reporting' }>): SessionStep {
  return [state, [{ type: 'report', summary: state.summary }]]
}

/** The shell calls this once rollout-server has accepted the report. */
export function reported(state: SessionState): SessionStep {
  return state.phase === 'reporting' ? [{ phase: 'closed' }, [{ type: 'close' }]] : [state, []]
}

// One session's state and every effect it has asked for, with the honest answer to each: what session models are played against.
import type { BuildReply } from '../../src/actors/builder/protocol.ts'
import type { SessionSpec } from '../../src/actors/gateway/protocol.ts'
import type { StartedSandbox } from '../../src/actors/sandbox/protocol.ts'
import type { SessionEffect, SessionState } from '../../src/actors/session/phases.ts'
import { reported } from '../../src/actors/session/post-run.ts'
import type { SessionMessage } from '../../src/actors/session/protocol.ts'
import { openSession, step } from '../../src/actors/session/state.ts'
import { sandboxId } from '../../src/contract/ids.ts'
import type { Outcome } from '../../src/contract/outcome.ts'
import type { SessionSummary } from '../../src/contract/result.ts'
import type { SealedCalls } from '../../src/proxy/boundary.ts'
import { sessionPolicy } from '../lib/specs.ts'

export const sandbox: StartedSandbox = { sandbox: sandboxId('box'), workdir: '/w', home: '/h', isolation: 'none', notes: [] }
export const sealed = (failures = 0): SealedCalls => ({
  calls: [],
  messages: [],
  tokens: { lease: 1, slabs: [], calls: [] },
  upstreamFailures: failures,
})
const summaryOf = (outcome: Outcome): SessionSummary => ({
  outcome,
  outcomeClass: 'policy',
  status: 'COMPLETED',
  reward: null,
  error: null,
  calls: 0,
  model: null,
  traces: 0,
  capturedTokens: 0,
  trainedTokens: 0,
  usable: false,
  retryable: false,
  timing: {},
})
const builtReply = (): BuildReply => ({
  type: 'built',
  payload: new ArrayBuffer(1),
  traces: 1,
  trainableTokens: 1,
  capturedTokens: 1,
  completions: null,
})

/** Holds the state, keeps every effect, and knows the honest answer to each. */
export function sessionMachine(spec: SessionSpec) {
  let state: SessionState = openSession(spec, sessionPolicy, 0)
  const effects: SessionEffect[] = []
  const open: SessionMessage[] = []

  function answerTo(effect: SessionEffect): SessionMessage | null {
    switch (effect.type) {
      case 'start-sandbox':
        return { type: 'sandbox-started', result: { ok: true, value: { ok: true, value: sandbox } } }
      case 'prepare':
        return { type: 'prepared', result: { ok: true, value: { ok: true, prepareMs: 1, setupMs: 1 } } }
      case 'launch':
        return { type: 'launched', result: { ok: true, value: { ok: true, value: undefined } } }
      case 'kill-agent':
        return { type: 'agent-killed', result: { ok: true, value: { ok: true, value: undefined } } }
      case 'seal':
        return { type: 'sealed', result: { ok: true, value: sealed() } }
      case 'build':
        return { type: 'built', result: { ok: true, value: builtReply() } }
      case 'evaluate':
        return {
          type: 'evaluated',
          result: { ok: true, value: { type: 'graded', outcomeReward: 1, traceRewards: null, metadata: {} } },
        }
      case 'finish':
        return {
          type: 'finished',
          result: { ok: true, value: { type: 'finished', payload: new ArrayBuffer(1), summary: summaryOf(effect.outcome) } },
        }
      case 'record':
        return effect.isRetry ? { type: 'record-again' } : { type: 'recorded', result: { ok: true, value: { type: 'recorded' } } }
      case 'stop-sandboxes':
        return { type: 'sandboxes-stopped', result: { ok: true, value: undefined } }
      case 'tell-gateway':
        return effect.fact === 'session-prepared' ? { type: 'begin-run' } : { type: 'begin-post-run' }
      default:
        return null
    }
  }

  return {
    effects,
    open,
    get state() {
      return state
    },
    send(message: SessionMessage): void {
      const [next, made] = step(state, message, 10, () => null)
      state = next
      for (const effect of made) {
        effects.push(effect)
        const answer = answerTo(effect)
        if (answer !== null) open.push(answer)
        if (effect.type === 'report') {
          const [closed, last] = reported(state)
          state = closed
          effects.push(...last)
        }
      }
    },
    /** Answers everything that is asked, in order, until nothing is left to say. */
    settle(): void {
      for (let message = open.shift(); message !== undefined; message = open.shift()) this.send(message)
    },
    count(type: SessionEffect['type']): number {
      return effects.filter((effect) => effect.type === type).length
    },
    outcome(): Outcome | null {
      const last = effects.findLast((effect) => effect.type === 'finish')
      return last?.type === 'finish' ? last.outcome : null
    },
  }
}

export type Machine = ReturnType<typeof sessionMachine>

export const opened: SessionMessage = { type: 'call-opened', call: 'c' as never, sequence: 1 }
export const spent: SessionMessage = { type: 'budget-spent', sentence: "the session's budget of 1 model call is used up" }
export const overflowed: Extract<SessionMessage, { type: 'call-closed' }> = {
  type: 'call-closed',
  call: 'c' as never,
  status: 'failed',
  model: { requested: 'm', used: 'm', dialect: 'openai-chat' },
  promptTokens: 0,
  sampledTokens: 0,
  contextExhausted: true,
}

// The rollout server's step with everything around it played by the test: ledger, gateways, outbox and clock.
import { expect } from 'vitest'
import type { CancelReason, GatewayLimits, SessionSpec } from '../../src/actors/gateway/protocol.ts'
import {
  emptyServer,
  type RolloutServerSignal,
  type ServerEffect,
  type ServerLimits,
  type ServerMessage,
} from '../../src/actors/rollout-server/entries.ts'
import { intake } from '../../src/actors/rollout-server/intake.ts'
import type {
  GatewayView,
  NodeEvent,
  RolloutServerCommand,
  SessionView,
  SubmitReply,
  SubmitSessionReply,
  TaskView,
} from '../../src/actors/rollout-server/protocol.ts'
import { step } from '../../src/actors/rollout-server/state.ts'
import { type GatewayId, gatewayId, type SessionId, taskId } from '../../src/contract/ids.ts'
import { OUTCOMES, type Outcome } from '../../src/contract/outcome.ts'
import type { SessionSummary } from '../../src/contract/result.ts'
import { type TaskRequest, taskRequestSchema } from '../../src/contract/task.ts'
import { threadId } from '../../src/kernel/address.ts'
import type { Ask } from '../../src/kernel/ask.ts'

const GATEWAY_LIMITS = {
  maxReadySessions: 4,
  maxInitWorkers: 4,
  maxRunWorkers: 2,
  maxPostrunWorkers: 4,
  maxGraderSandboxes: 2,
  maxCaptures: 4,
}

export function request(id: string, overrides: Record<string, unknown> = {}): TaskRequest {
  return taskRequestSchema.parse({ task_id: id, instruction: 'do it', agent: { harness: 'shell' }, ...overrides })
}

export function summary(outcome: Outcome, overrides: Partial<SessionSummary> = {}): SessionSummary {
  const rule = OUTCOMES[outcome]
  return {
    outcome,
    outcomeClass: rule.class,
    status: rule.status,
    reward: outcome === 'completed' ? 1 : null,
    error: rule.status === 'ERROR' ? outcome : null,
    calls: 2,
    model: null,
    traces: rule.status === 'ERROR' ? 0 : 1,
    capturedTokens: 10,
    trainedTokens: 5,
    usable: outcome === 'completed',
    retryable: rule.retried,
    timing: {},
    ...overrides,
  }
}

type Submission = Omit<Extract<RolloutServerCommand, { readonly type: 'submit-session' }>, 'type' | 'ask'>
type Pending<T extends ServerEffect['type']> = Extract<ServerEffect, { readonly type: T }>

export class ServerWorld {
  state
  nowMs = 0
  readonly events: NodeEvent[] = []
  readonly replies = new Map<number, unknown>()
  readonly records: Pending<'record-task'>[] = []
  readonly settles: Pending<'settle'>[] = []
  readonly ends: Pending<'record-end'>[] = []
  readonly delivers: Pending<'deliver'>[] = []
  readonly timers: { readonly dueMs: number; readonly message: RolloutServerSignal }[] = []
  readonly opened: { readonly gateway: GatewayId; readonly spec: SessionSpec }[] = []
  /** What each gateway holds, and how much room it has announced. */
  readonly held = new Map<GatewayId, Map<SessionId, SessionSpec>>()
  readonly credit = new Map<GatewayId, number>()
  readonly cancels: { readonly gateway: GatewayId; readonly session: SessionId; readonly reason: CancelReason }[] = []
  readonly reports: string[] = []
  /** What the ledger holds per session. */
  readonly results = new Map<SessionId, { readonly attempt: number; readonly summary: SessionSummary }>()
  /** How gateways answer `tell`, unless a test says otherwise. */
  offer: (gateway: GatewayId, what: 'open-session' | 'cancel-session') => 'accepted' | 'full' | 'stopped' = () => 'accepted'
  #asks = 0
  #starts = 0
  #uuids = 0

  constructor(limits: Partial<ServerLimits> = {}) {
    this.state = emptyServer({ maxAttempts: 2, maxAdmittedSessions: 10_000, maxKeptTasks: 1_000, ...limits })
  }

  send(message: ServerMessage) {
    const backlog: ServerMessage[] = [message]
    for (let next = backlog.shift(); next !== undefined; next = backlog.shift()) {
      const [state, effects] = step(this.state, next, { nowMs: this.nowMs, wallMs: 1_000_000 + this.nowMs })
      this.state = state
      for (const effect of effects) {
        const refusal = this.#run(effect)
        if (refusal !== null) backlog.push(refusal)
      }
    }
  }

  ask<R>(): { readonly ask: Ask<R>; readonly answer: () => R } {
    this.#asks += 1
    const id = this.#asks
    return {
      ask: { thread: threadId('test'), incarnation: 1, ask: id },
      answer: () => {
        if (!this.replies.has(id)) throw new Error(`ask ${id} is not answered`)
        return this.replies.get(id) as R
      },
    }
  }

  submit(body: TaskRequest): () => SubmitReply {
    const { ask, answer } = this.ask<SubmitReply>()
    this.#take({ type: 'submit', request: body, ask })
    return answer
  }

  /** One by itself, of an agent on any gateway unless it says otherwise. */
  submitSession(submission: Partial<Submission> = {}): () => SubmitSessionReply {
    const { ask, answer } = this.ask<SubmitSessionReply>()
    const any = { kind: 'agent', gateway: null, session: null, request: request('named'), resultUrl: null } as const
    this.#take({ type: 'submit-session', ...any, ...submission, ask })
    return answer
  }

  /** Submits it and lets the ledger record it. */
  openSession(submission: Partial<Submission> = {}): SessionView {
    const answer = this.submitSession(submission)
    this.answerRecord()
    const reply = answer()
    if (reply.type !== 'opened') throw new Error(`not opened: ${reply.type}`)
    return reply.view
  }

  /** Submits and lets the ledger record it. */
  accept(body: TaskRequest): SubmitReply {
    const answer = this.submit(body)
    this.answerRecord()
    return answer()
  }

  answerRecord(answer: Extract<RolloutServerSignal, { type: 'task-recorded' }>['answer'] = { ok: true, value: { type: 'recorded' } }) {
    const record = this.records.shift()
    if (record !== undefined) this.send({ type: 'task-recorded', task: record.task, answer })
  }

  answerSettle(works = true) {
    const settle = this.settles.shift()
    if (settle === undefined) return
    const { session, attempt, outcome } = settle.facts
    if (!works) return this.send({ type: 'settled', session, attempt, answer: { ok: false, error: 'deadline' } })
    const known = this.results.get(session)
    const standing = known?.attempt === attempt ? known.summary : summary(outcome, { error: settle.facts.error })
    this.results.set(session, { attempt, summary: standing })
    this.send({ type: 'settled', session, attempt, answer: { ok: true, value: { type: 'settled', summary: standing } } })
  }

  answerEnd(works = true) {
    const end = this.ends.shift()
    if (end === undefined) return
    this.send({
      type: 'end-recorded',
      task: end.task,
      answer: works ? { ok: true, value: { type: 'recorded' } } : { ok: false, error: 'full' },
    })
  }

  /** Answers every question to the ledger. */
  settleAll() {
    while (this.records.length + this.settles.length + this.ends.length > 0) {
      this.answerRecord()
      this.answerSettle()
      this.answerEnd()
    }
  }

  startGateway(name: string, demand = 0, limits: Partial<GatewayLimits> = {}): GatewayId {
    const gateway = gatewayId(name)
    this.held.set(gateway, new Map())
    this.credit.set(gateway, 0)
    this.#starts += 1
    const address = { thread: threadId(name), incarnation: this.#starts, actor: 1, share: 64 }
    this.send({
      type: 'gateway-started',
      gateway,
      address,
      url: `http://127.0.0.1/gateways/${name}`,
      limits: { ...GATEWAY_LIMITS, ...limits },
    })
    if (demand > 0) this.demand(gateway, demand)
    return gateway
  }

  demand(gateway: GatewayId, slots: number) {
    if (this.held.has(gateway)) this.credit.set(gateway, (this.credit.get(gateway) ?? 0) + slots)
    this.send({ type: 'demand', gateway, slots })
  }

  loseGateway(gateway: GatewayId) {
    this.held.delete(gateway)
    this.credit.delete(gateway)
    this.send({ type: 'gateway-lost', gateway })
  }

  finish(gateway: GatewayId, session: SessionId, ended: SessionSummary) {
    const spec = this.held.get(gateway)?.get(session)
    if (spec === undefined) throw new Error(`${gateway} does not hold ${session}`)
    this.held.get(gateway)?.delete(session)
    this.results.set(session, { attempt: spec.attempt, summary: ended })
    this.send({ type: 'session-finished', session, attempt: spec.attempt, summary: ended })
    return spec
  }

  advance(ms: number) {
    this.nowMs += ms
    for (;;) {
      const at = this.timers.findIndex((timer) => timer.dueMs <= this.nowMs)
      if (at === -1) return
      const [timer] = this.timers.splice(at, 1)
      if (timer !== undefined) this.send(timer.message)
    }
  }

  view(id: string): TaskView | null {
    const { ask, answer } = this.ask<TaskView | null>()
    this.send({ type: 'read-task', task: taskId(id), ask })
    return answer()
  }

  session(session: SessionId): SessionView | null {
    const { ask, answer } = this.ask<SessionView | null>()
    this.send({ type: 'read-session', session, ask })
    return answer()
  }

  cancelSession(session: SessionId): SessionView | null {
    const { ask, answer } = this.ask<SessionView | null>()
    this.send({ type: 'cancel-session', session, ask })
    return answer()
  }

  drain(gateway: GatewayId, type: 'drain-gateway' | 'enrol-gateway' = 'drain-gateway'): GatewayView | null {
    const { ask, answer } = this.ask<GatewayView | null>()
    this.send({ type, gateway, ask })
    return answer()
  }

  gateways(): readonly GatewayView[] {
    const { ask, answer } = this.ask<readonly GatewayView[]>()
    this.send({ type: 'list-gateways', ask })
    return answer()
  }

  cancel(id: string, registerIfMissing = false): TaskView | null {
    const { ask, answer } = this.ask<TaskView | null>()
    this.send({ type: 'cancel', task: taskId(id), registerIfMissing, ask })
    return answer()
  }

  #take(message: RolloutServerCommand) {
    this.send(
      intake(message, () => {
        this.#uuids += 1
        return `00000000-0000-4000-8000-${String(this.#uuids).padStart(12, '0')}`
      }),
    )
  }

  #run(effect: ServerEffect): RolloutServerSignal | null {
    switch (effect.type) {
      case 'reply':
        expect(this.replies.has(effect.ask.ask), 'an ask is answered once').toBe(false)
        this.replies.set(effect.ask.ask, effect.value)
        return null
      case 'publish':
        this.events.push(effect.event)
        return null
      case 'after':
        this.timers.push({ dueMs: this.nowMs + effect.delayMs, message: effect.message })
        return null
      case 'record-task':
        this.records.push(effect)
        return null
      case 'settle':
        this.settles.push(effect)
        return null
      case 'tell-session-ended':
        expect(this.results.get(effect.session)?.attempt, 'the result that stands').toBe(effect.attempt)
        return null
      case 'record-end':
        this.ends.push(effect)
        return null
      case 'deliver':
        if (effect.url !== null) this.delivers.push(effect)
        return null
      case 'report':
        this.reports.push(effect.detail)
        return null
      case 'open-session': {
        const { gateway, spec } = effect
        const offer = this.offer(gateway, 'open-session')
        if (offer !== 'accepted') return { type: 'dispatch-refused', session: spec.session, attempt: spec.attempt, gateway, offer }
        if (spec.kind === 'agent') {
          const credit = this.credit.get(gateway) ?? 0
          expect(credit, `${gateway} announced room for ${spec.session}`).toBeGreaterThan(0)
          this.credit.set(gateway, credit - 1)
        }
        this.opened.push({ gateway, spec })
        this.held.get(gateway)?.set(spec.session, spec)
        return null
      }
      case 'cancel-session': {
        const { gateway, session, attempt, reason } = effect
        const offer = this.offer(gateway, 'cancel-session')
        if (offer !== 'accepted') return { type: 'cancel-refused', session, attempt, gateway, offer }
        this.cancels.push({ gateway, session, reason })
        return null
      }
    }
  }
}

// A control plane without sockets: the real rollout server, ledger and API, with gateways that the test plays.
import '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { expect } from 'vitest'
import { callbackOutbox } from '../../src/actors/callback/actor.ts'
import type { CallbackMessage } from '../../src/actors/callback/state.ts'
import type { GatewayCommand, GatewaySnapshot, InferenceStatus, SessionSpec } from '../../src/actors/gateway/protocol.ts'
import { memoryLedger } from '../../src/actors/ledger/actor.ts'
import type { LedgerCommand, Recorded } from '../../src/actors/ledger/protocol.ts'
import { rolloutServer } from '../../src/actors/rollout-server/actor.ts'
import type { RolloutServerCommand } from '../../src/actors/rollout-server/protocol.ts'
import { gatewayId, type SessionId } from '../../src/contract/ids.ts'
import type { Outcome } from '../../src/contract/outcome.ts'
import { buildControlApi, type ControlApiOptions } from '../../src/http/control-api.ts'
import { openEventFeed } from '../../src/http/events.ts'
import { openFeedWaiters } from '../../src/http/feed-waiters.ts'
import { openCompletionsReader } from '../../src/http/kept-completions.ts'
import { openKeptResults } from '../../src/http/kept-results.ts'
import { deliveryRenderer, openResultReader } from '../../src/http/task-result.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openPauseGate } from '../../src/proxy/pool/pause-gate.ts'
import { openInferencePauses } from '../../src/threads/inference-pauses.ts'
import { openUpstream } from '../../src/threads/upstream.ts'
import { renderSession, toBytes } from '../../src/trajectory/render.ts'
import { renderCompletions } from '../../src/trajectory/render-completions.ts'
import { renderResult, renderTraces } from '../../src/trajectory/render-result.ts'
import { emptyResult, finishResult } from '../../src/trajectory/result.ts'
import { type AnswerCheck, openAnswerCheck } from '../lib/openapi-answers.ts'

export const TOKEN = 'a-token-of-the-test'
export const GATEWAY = gatewayId('g0')
const LIMITS = { maxReadySessions: 8, maxInitWorkers: 4, maxRunWorkers: 2, maxPostrunWorkers: 4, maxGraderSandboxes: 2, maxCaptures: 4 }

/** What an attempt leaves beside its facts: a packed trajectory, and its packed calls. */
type Left = { readonly built?: ArrayBuffer; readonly completions?: ArrayBuffer }

/** Of any of these worlds: they have the same routes. */
let documented: AnswerCheck | null = null

type Delivered = { readonly url: string; readonly key: string; readonly body: unknown }

export async function openControl(overrides: Partial<ControlApiOptions> = {}, maxAttempts = 1) {
  const scheduler = openEventLoop()
  const kernel = openKernel({ thread: threadId('control'), incarnation: 1, scheduler, random: cryptoRandom(), peers: 1 })
  const events = openEventFeed({ scheduler, boot: 'b', capacity: 100, maxReaders: 2, maxUnsentBytes: 1 << 20, beatMs: 15_000 })
  const feedWaiters = openFeedWaiters(scheduler, 4)
  const ledger: Address<LedgerCommand> = kernel.spawn(memoryLedger({ maxKeptTasks: 100, maxBytes: 1 << 26, maxCallLogs: 10 }))
  const readResult = openResultReader({
    kernel,
    ledger,
    renderResult: async (payload, told) => new Uint8Array(toBytes(renderSession(payload, told))),
  })
  const results = openKeptResults({
    kernel,
    ledger,
    render: async (payload, form, page) =>
      new Uint8Array(toBytes(page === null ? renderResult(payload, form) : renderTraces(payload, form, page))),
  })
  /** What the gateway answers of the calls of sessions that run. */
  const running = new Map<SessionId, ArrayBuffer>()

  const delivered: Delivered[] = []
  /** How it answers callbacks. */
  const trainer = { status: 200 }
  const reports: string[] = []
  const callback: Address<CallbackMessage> = kernel.spawn(
    callbackOutbox({
      limits: { perTarget: 4, maxAttempts: 3, backoffBaseMs: 1, backoffCapMs: 1, maxRetryAfterMs: 1, deadlineMs: 5_000, maxKept: 100 },
      transport: {
        async post(url, headers, body) {
          delivered.push({ url, key: headers['idempotency-key'] ?? '', body: JSON.parse(Buffer.from(body).toString()) })
          return { status: trainer.status, retryAfter: null }
        },
        close: async () => undefined,
      },
      render: deliveryRenderer(readResult),
      report: ({ task, detail }) => reports.push(`${task}: ${detail}`),
      ledger,
      rolloutServer: () => server,
    }),
  )
  const server: Address<RolloutServerCommand> = kernel.spawn(
    rolloutServer({
      limits: { maxAttempts, maxAdmittedSessions: 20, maxKeptTasks: 100 },
      ledger,
      callback,
      emptyResult,
      publish(event) {
        events.publish(event)
        feedWaiters.hear(event)
      },
      report: (detail) => reports.push(detail),
    }),
  )

  const held = new Map<SessionId, SessionSpec>()
  const calls = openPauseGate(scheduler, false, () => {})
  const isCapture = (session: SessionId): boolean => held.get(session)?.kind === 'capture'
  const gateway: Address<GatewayCommand> = kernel.spawn<GatewayCommand>({
    name: 'gateway',
    capacity: 64,
    create: (context) => ({
      receive(command) {
        if (command.type === 'open-session') held.set(command.spec.session, command.spec)
        if (command.type === 'cancel-session') void finish(command.session, 'cancelled')
        if (command.type === 'read-gateway') context.reply(command.ask, snapshot())
        if (command.type === 'read-inference') context.reply(command.ask, inference())
        if (command.type === 'resume-inference') {
          calls.resume()
          context.reply(command.ask, inference())
        }
        if (command.type === 'pause-inference') {
          const { ask } = command
          void calls.pause(command.timeoutMs).then((type) => context.reply(ask, { type, status: inference() }))
        }
        if (command.type === 'read-access') {
          const { session, ask } = command
          context.reply(ask, isCapture(session) ? { key: `key of ${session}`, basePath: `/s/${session}`, modelPort: 8081 } : null)
        }
        if (command.type === 'count-calls') context.reply(command.ask, held.has(command.session) ? 7 : 0)
        if (command.type === 'finish-capture') {
          context.reply(command.ask, isCapture(command.session))
          if (isCapture(command.session)) void finish(command.session, 'completed')
        }
        if (command.type === 'read-completions') {
          const packed = running.get(command.session)?.slice(0)
          context.reply(command.ask, packed === undefined ? { type: 'none' } : { type: 'packed', packed })
        }
      },
    }),
  })
  function inference(): InferenceStatus {
    return { gateway: GATEWAY, paused: calls.isPaused(), inFlight: calls.inFlight(), waiting: 0, replicas: [] }
  }
  function snapshot(): GatewaySnapshot {
    return {
      gateway: GATEWAY,
      modelPort: 8081,
      limits: LIMITS,
      metrics: {
        initQueueDepth: 1,
        initInflight: 2,
        readyDepth: 3,
        runInflight: 4,
        postrunQueueDepth: 5,
        postrunInflight: 6,
        arena: { allocatedBlocks: 0, freeBlocks: 0, leasedBlocks: 0, pressure: false },
      },
      sessions: [...held.values()].map((spec) => ({
        session: spec.session,
        task: spec.task,
        attempt: spec.attempt,
        status: 'RUNNING',
        ageMs: 1,
        idleMs: 1,
        calls: 7,
        model: { requested: 'gpt-5', used: 'policy', dialect: 'openai-chat' },
      })),
      replicas: [],
    }
  }
  /** What a session actor does at its end: the result becomes durable, then the server is told. */
  async function finish(session: SessionId, outcome: Outcome, left: Left = {}): Promise<void> {
    const spec = held.get(session)
    if (spec === undefined) throw new Error(`the gateway does not hold ${session}`)
    held.delete(session)
    const { payload, summary } = finishResult(left.built ?? null, {
      session,
      task: spec.task,
      attempt: spec.attempt,
      node: GATEWAY,
      outcome,
      error: null,
      timing: { e2e_ms: 5 },
      taskMetadata: spec.request.metadata,
      agentResult: {},
      evaluation: null,
      evaluator: null,
      calls: 3,
      model: null,
    })
    const recorded = await kernel.ask<LedgerCommand, Recorded>(
      ledger,
      (ask) => ({
        type: 'record-result',
        task: spec.key,
        session,
        attempt: spec.attempt,
        summary,
        payload,
        completions: left.completions ?? null,
        ask,
      }),
      1_000,
    )
    if (!recorded.ok || recorded.value.type !== 'recorded') throw new Error(`not recorded: ${JSON.stringify(recorded)}`)
    kernel.tell(server, { type: 'session-finished', session, attempt: spec.attempt, summary })
  }

  const options: ControlApiOptions = {
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    kernel,
    rolloutServer: server,
    ledger,
    callback,
    readGateway: async (id) => {
      const answer = await kernel.ask<GatewayCommand, GatewaySnapshot>(gateway, (ask) => ({ type: 'read-gateway', ask }), 20_000)
      return answer.ok && id === GATEWAY ? answer.value : null
    },
    askGateway: (id, make, deadlineMs = 20_000) =>
      id === GATEWAY ? kernel.ask(gateway, make, deadlineMs) : Promise.resolve({ ok: false, error: 'stopped' }),
    modelUrl: (gateway, port) => `http://${gateway}.example:${port}`,
    replicas: { add: async () => null, remove: async () => [] },
    inference: openInferencePauses([GATEWAY], (id, make, deadlineMs) => options.askGateway(id, make, deadlineMs)),
    upstream: openUpstream(scheduler),
    publicUrl: null,
    readResult,
    results,
    readCompletions: openCompletionsReader({
      kernel,
      ledger,
      askGateway: (id, make, deadlineMs) => options.askGateway(id, make, deadlineMs),
      render: async (packed, from, until) => ({ ...renderCompletions(packed, { from, until, maxBytes: 2_000 }), packed }),
    }),
    checkTask: (request) =>
      request.agent.harness === 'shell' ? [] : [{ path: ['agent', 'harness'], message: `unknown harness ${request.agent.harness}` }],
    events,
    feedWaiters,
    embeddedUrl: null,
    limits: { bodyBytes: 4_096, admittedSessions: 20 },
    log: null,
    ...overrides,
  }
  const app: FastifyInstance = buildControlApi(options)
  return {
    app,
    options,
    kernel,
    server,
    events,
    held,
    gateway,
    limits: LIMITS,
    /** The model calls of the gateway: those that a test says are in flight. */
    calls,
    running,
    delivered,
    trainer,
    reports,
    finish,
    startGateway(demand: number) {
      kernel.tell(server, {
        type: 'gateway-started',
        gateway: GATEWAY,
        address: gateway,
        url: 'http://127.0.0.1/gateways/g0',
        limits: LIMITS,
      })
      kernel.tell(server, { type: 'demand', gateway: GATEWAY, slots: demand })
    },
    async call(method: 'GET' | 'POST' | 'DELETE', url: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
      const reply = await app.inject({
        method,
        url,
        headers: { authorization: `Bearer ${TOKEN}`, ...headers },
        ...(body === undefined ? {} : { payload: body as object }),
      })
      const answered = reply.body === '' ? null : JSON.parse(reply.body)
      // Whatever a test is about, what it is answered must be what the document says.
      const answer = { status: reply.statusCode, contentType: String(reply.headers['content-type']), body: answered }
      documented ??= openAnswerCheck({ ...app.swagger() })
      expect(documented.problemOf(method, url, answer)).toBeNull()
      return { status: reply.statusCode, headers: reply.headers, body: answered }
    },
    async close() {
      events.close()
      await app.close()
      await kernel.close()
    },
  }
}

export function task(id: string, overrides: Record<string, unknown> = {}): Record<string, unknown> {
  return { task_id: id, instruction: 'do it', agent: { harness: 'shell' }, ...overrides }
}

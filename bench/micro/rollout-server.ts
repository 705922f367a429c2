// What the rollout server's step costs sessions from their submit to their end: in a big task each should cost what it costs in a small one.
import { bench, do_not_optimize, group } from 'mitata'
import { emptyServer, type ServerEffect, type ServerMessage } from '../../src/actors/rollout-server/entries.ts'
import { step } from '../../src/actors/rollout-server/state.ts'
import { gatewayId, type SessionId, sessionId, taskId } from '../../src/contract/ids.ts'
import type { SessionSummary } from '../../src/contract/result.ts'
import { taskRequestSchema } from '../../src/contract/task.ts'
import { threadId } from '../../src/kernel/address.ts'

const GATEWAYS = ['g0', 'g1', 'g2', 'g3'].map(gatewayId)
const DEMAND = 8
const SIZES = [128, 1_024, 4_096]
const STATUSES = ['INITIALIZING', 'READY', 'RUNNING', 'POST_RUN', 'BUILDING', 'EVALUATING'] as const
const NOW = { nowMs: 0, wallMs: 0 }
const ASK = { thread: threadId('bench'), incarnation: 1, ask: 1 }

export function registerRolloutServerBenches(): void {
  group('a task from submit to end, by its sessions', () => {
    for (const samples of SIZES) bench(`${samples} sessions`, () => do_not_optimize(run(1, samples)))
  })
  group('tasks of one session, submitted at once, by how many', () => {
    for (const tasks of SIZES) bench(`${tasks} tasks`, () => do_not_optimize(run(tasks, 1)))
  })
  group('a task cancelled while it waits, by its sessions', () => {
    for (const samples of SIZES) bench(`${samples} sessions waiting`, () => do_not_optimize(cancel(samples)))
  })
}

function run(tasks: number, samples: number): number {
  const server = openServer()
  for (const gateway of GATEWAYS) {
    const address = { thread: threadId(gateway), incarnation: 1, actor: 1, share: 64 }
    server.send({ type: 'gateway-started', gateway, address, url: '', limits: LIMITS })
  }
  server.submit(tasks, samples)
  const opened: SessionId[] = []
  for (let turn = 0; opened.length < tasks * samples; turn += 1) {
    const gateway = GATEWAYS[turn % GATEWAYS.length] ?? gatewayId('')
    for (const effect of server.send({ type: 'demand', gateway, slots: DEMAND })) {
      if (effect.type === 'open-session') opened.push(effect.spec.session)
    }
  }
  for (const status of STATUSES) {
    for (const session of opened) server.send({ type: 'session-changed', session, attempt: 1, status })
  }
  for (const session of opened) server.send({ type: 'session-finished', session, attempt: 1, summary: SUMMARY })
  return server.end(tasks)
}

function cancel(samples: number): number {
  const server = openServer()
  server.submit(1, samples)
  const line = [...server.send({ type: 'cancel', task: nameOf(0), registerIfMissing: false, ask: ASK })]
  for (let effect = line.shift(); effect !== undefined; effect = line.shift()) {
    if (effect.type !== 'settle') continue
    const { session, attempt } = effect.facts
    const answer = { ok: true, value: { type: 'settled', summary: { ...SUMMARY, status: 'ERROR' } } } as const
    line.push(...server.send({ type: 'settled', session, attempt, answer }))
  }
  return server.end(1)
}

function openServer() {
  let state = emptyServer({ maxAttempts: 2, maxAdmittedSessions: 10_000, maxKeptTasks: 10_000 })
  let uuids = 0
  function send(message: ServerMessage): readonly ServerEffect[] {
    const [next, effects] = step(state, message, NOW)
    state = next
    return effects
  }
  const drawSession = () => sessionId(`00000000-0000-4000-8000-${String(uuids++).padStart(12, '0')}`)
  return {
    send,
    submit(tasks: number, samples: number) {
      for (let i = 0; i < tasks; i += 1) {
        const request = { ...REQUEST, task_id: nameOf(i), num_samples: samples }
        send({ type: 'admit', request, digest: '', sessions: Array.from({ length: samples }, drawSession), ask: ASK })
        send({ type: 'task-recorded', task: nameOf(i), answer: RECORDED })
      }
    },
    /** Every task must have ended. */
    end(tasks: number): number {
      for (let i = 0; i < tasks; i += 1) send({ type: 'end-recorded', task: nameOf(i), answer: RECORDED })
      if (state.ended.length !== tasks) throw new Error('a task has not ended')
      return state.sequence
    },
  }
}

const nameOf = (task: number) => taskId(`task-${task}`)
const REQUEST = taskRequestSchema.parse({ task_id: 'task', instruction: '', agent: { harness: 'shell' } })
const RECORDED = { ok: true, value: { type: 'recorded' } } as const
const LIMITS = { maxReadySessions: 64, maxInitWorkers: 16, maxRunWorkers: 64, maxPostrunWorkers: 64, maxGraderSandboxes: 8, maxCaptures: 8 }
const SUMMARY: SessionSummary = {
  outcome: 'completed',
  outcomeClass: 'policy',
  status: 'COMPLETED',
  reward: 1,
  error: null,
  calls: 10,
  model: null,
  traces: 1,
  capturedTokens: 1_000,
  trainedTokens: 100,
  usable: true,
  retryable: false,
  timing: {},
}

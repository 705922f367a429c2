// What the rollout server's step costs a task, from its submit to its end: by its size, each session should cost the same.
import { bench, do_not_optimize, group } from 'mitata'
import { emptyServer, type ServerEffect, type ServerMessage } from '../../src/actors/rollout-server/entries.ts'
import { step } from '../../src/actors/rollout-server/state.ts'
import { gatewayId, type SessionId, sessionId, taskId } from '../../src/contract/ids.ts'
import type { SessionSummary } from '../../src/contract/result.ts'
import { taskRequestSchema } from '../../src/contract/task.ts'
import { threadId } from '../../src/kernel/address.ts'

const GATEWAYS = ['g0', 'g1', 'g2', 'g3'].map(gatewayId)
const DEMAND = 8
const STATUSES = ['INITIALIZING', 'READY', 'RUNNING', 'POST_RUN', 'BUILDING', 'EVALUATING'] as const
const NOW = { nowMs: 0, wallMs: 0 }
const ASK = { thread: threadId('bench'), incarnation: 1, ask: 1 }

export function registerRolloutServerBenches(): void {
  group('a task from submit to end, by its sessions', () => {
    for (const samples of [128, 1_024, 4_096]) bench(`${samples} sessions`, () => do_not_optimize(runTask(samples)))
  })
  group('a task cancelled while it waits, by its sessions', () => {
    for (const samples of [128, 1_024, 4_096]) bench(`${samples} sessions waiting`, () => do_not_optimize(cancelTask(samples)))
  })
}

function runTask(samples: number): number {
  const server = openServer()
  for (const gateway of GATEWAYS) {
    const address = { thread: threadId(gateway), incarnation: 1, actor: 1, share: 64 }
    server.send({ type: 'gateway-started', gateway, address, url: '', limits: LIMITS })
  }
  server.submit(samples)
  const opened: SessionId[] = []
  for (let turn = 0; opened.length < samples; turn += 1) {
    const gateway = GATEWAYS[turn % GATEWAYS.length] ?? gatewayId('')
    for (const effect of server.send({ type: 'demand', gateway, slots: DEMAND })) {
      if (effect.type === 'open-session') opened.push(effect.spec.session)
    }
  }
  for (const status of STATUSES) {
    for (const session of opened) server.send({ type: 'session-changed', session, attempt: 1, status })
  }
  for (const session of opened) server.send({ type: 'session-finished', session, attempt: 1, summary: SUMMARY })
  return server.end()
}

function cancelTask(samples: number): number {
  const server = openServer()
  server.submit(samples)
  const line = [...server.send({ type: 'cancel', task: TASK, registerIfMissing: false, ask: ASK })]
  for (let effect = line.shift(); effect !== undefined; effect = line.shift()) {
    if (effect.type !== 'settle') continue
    const { session, attempt } = effect.facts
    const answer = { ok: true, value: { type: 'settled', summary: { ...SUMMARY, status: 'ERROR' } } } as const
    line.push(...server.send({ type: 'settled', session, attempt, answer }))
  }
  return server.end()
}

function openServer() {
  let state = emptyServer({ maxAttempts: 2, maxAdmittedSessions: 10_000, maxKeptTasks: 10 })
  function send(message: ServerMessage): readonly ServerEffect[] {
    const [next, effects] = step(state, message, NOW)
    state = next
    return effects
  }
  return {
    send,
    submit(samples: number) {
      const sessions = Array.from({ length: samples }, (_, i) => sessionId(`00000000-0000-4000-8000-${String(i).padStart(12, '0')}`))
      send({ type: 'admit', request: { ...REQUEST, num_samples: samples }, digest: '', sessions, ask: ASK })
      send({ type: 'task-recorded', task: TASK, answer: RECORDED })
    },
    /** Every session must have ended. */
    end(): number {
      send({ type: 'end-recorded', task: TASK, answer: RECORDED })
      if (state.ended.length !== 1) throw new Error('the task has not ended')
      return state.sequence
    },
  }
}

const TASK = taskId('task')
const REQUEST = taskRequestSchema.parse({ task_id: TASK, instruction: '', agent: { harness: 'shell' } })
const RECORDED = { ok: true, value: { type: 'recorded' } } as const
const LIMITS = { maxReadySessions: 64, maxInitWorkers: 16, maxRunWorkers: 64, maxPostrunWorkers: 64, maxGraderSandboxes: 8, maxCaptures: 8 }
const SUMMARY: SessionSummary = {
  outcome: 'completed',
  outcomeClass: 'policy',
  status: 'COMPLETED',
  reward: 1,
  error: null,
  calls: 10,
  traces: 1,
  capturedTokens: 1_000,
  trainedTokens: 100,
  usable: true,
  retryable: false,
  timing: {},
}

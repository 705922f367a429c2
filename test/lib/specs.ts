// Small valid specs for tests of actors.
import type { GatewayOptions } from '../../src/actors/gateway/actor.ts'
import type { GatewayLimits, SessionSpec } from '../../src/actors/gateway/protocol.ts'
import type { SessionPolicy } from '../../src/actors/session/phases.ts'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type TaskRequest, taskRequestSchema } from '../../src/contract/task.ts'

export function taskRequest(changes: Readonly<Record<string, unknown>> = {}): TaskRequest {
  return taskRequestSchema.parse({
    task_id: 'task-1',
    instruction: 'do it',
    agent: { harness: 'shell', custom_shell: { command: 'true' } },
    runtime: { backend: 'local' },
    evaluator: { strategy: 'session_completed' },
    ...changes,
  })
}

export function sessionSpec(name: string, changes: Partial<SessionSpec> = {}): SessionSpec {
  return {
    kind: 'agent',
    session: knownSessionId(name),
    task: taskId('task-1'),
    key: taskId('task-1'),
    attempt: 1,
    maxAttempts: 2,
    sampleIndex: 0,
    priority: 0,
    request: taskRequest(),
    registeredMsAgo: 5,
    ...changes,
  }
}

export const sessionPolicy: SessionPolicy = {
  budgets: {
    initMs: 1_000,
    agentMs: 10_000,
    firstCallMs: 5_000,
    captureIdleMs: 4_000,
    buildMs: 1_000,
    evaluateMs: 2_000,
    teardownMs: 500,
  },
  gradeTimeouts: true,
  modelBudget: {},
}

export const gatewayLimits = (changes: Partial<GatewayLimits> = {}): GatewayLimits => ({
  maxReadySessions: 3,
  maxInitWorkers: 2,
  maxRunWorkers: 2,
  maxPostrunWorkers: 2,
  maxGraderSandboxes: 2,
  maxCaptures: 4,
  ...changes,
})

/** What a gateway asks of its model boundary, where nobody calls a model. */
export const boundaryWithoutServers: GatewayOptions['boundary'] = {
  replicas: async () => [],
  addReplica: () => ({ ok: true }),
  removeReplica: () => ({ ok: true }),
  pause: async () => 'paused',
  resume: () => {},
  inference: async () => ({ paused: false, inFlight: 0, waiting: 0, replicas: [] }),
}

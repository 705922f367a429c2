// What one seed makes of a node and its day: limits, tasks, cancels and faults.
import type { GatewayLimits } from '../../../src/actors/gateway/protocol.ts'
import { gatewayId, knownSessionId, replicaId } from '../../../src/contract/ids.ts'
import { capturedTask, captureSchema } from '../../../src/contract/session.ts'
import type { SessionBudget } from '../../../src/contract/session-budget.ts'
import { type TaskRequest, taskRequestSchema } from '../../../src/contract/task.ts'
import { seededRandom } from '../../../src/kernel/world.ts'
import type { GatewaySetup } from '../../../src/threads/gateway.ts'
import type { NodeSetup } from '../../../src/topology.ts'
import type { CapturePlan } from './captures.ts'
import { ENGINE_FAULTS, type EngineFaults, replicaUrl } from './engine.ts'
import type { RuntimeFaults } from './runtime.ts'
import type { PausePlan } from './weight-updates.ts'

export type TaskPlan = {
  readonly request: TaskRequest
  readonly submitAtMs: number
  /** Submitted a second time with the same body. */
  readonly isRepeated: boolean
  readonly cancelAtMs: number | null
}

export type Schedule = {
  readonly seed: number
  readonly setup: NodeSetup
  readonly tasks: readonly TaskPlan[]
  readonly captures: readonly CapturePlan[]
  readonly impatience: number
  readonly runtime: RuntimeFaults
  readonly engine: EngineFaults
  readonly agents: { readonly maxTurns: number; readonly maxThinkMs: number; readonly faultRate: number }
  readonly receiverFaultRate: number
  /** Virtual times at which a gateway's thread dies, by its place in the setup. */
  readonly deaths: readonly { readonly gateway: number; readonly atMs: number }[]
  /** When the trainer pauses inference, and for how long. */
  readonly pauses: readonly PausePlan[]
}

/** Of a day's sessions, by its seed. */
const BUDGETS: readonly SessionBudget[] = [{}, { calls: 2 }, {}, {}, { seconds: 3 }]

const INIT_MS = 20_000
const TEARDOWN_MS = 4_000

export function drawSchedule(seed: number): Schedule {
  const random = seededRandom(seed ^ 0x51ed270b)
  const between = (low: number, high: number): number => low + Math.floor(random.next() * (high - low + 1))
  const chance = (share: number): boolean => random.next() < share
  const pick = <T>(...options: readonly [T, ...T[]]): T => options[Math.floor(random.next() * options.length)] ?? options[0]

  // A third of all days are without faults: what must hold then is stronger.
  const trouble = pick(0, 0.02, 0.1)
  const replicas = between(1, 3)
  const gateways = between(1, 2)
  const limits = (): GatewayLimits => ({
    maxReadySessions: between(1, 4),
    maxInitWorkers: between(1, 3),
    maxRunWorkers: between(1, 3),
    maxPostrunWorkers: between(1, 3),
    maxGraderSandboxes: between(1, 2),
    maxCaptures: 4,
  })
  const gateway = (index: number): GatewaySetup => ({
    gateway: gatewayId(`gateway-${index}`),
    host: 'simulated',
    port: 8081 + index,
    model: 'policy',
    models: [],
    defaultRuntime: null,
    replicas: Array.from({ length: replicas }, (_, replica) => ({
      id: replicaId(`r${replica}`),
      url: replicaUrl(replica),
      engine: 'vllm',
      inFlight: between(1, 4),
    })),
    limits: limits(),
    policy: {
      budgets: {
        initMs: INIT_MS,
        agentMs: 60_000,
        firstCallMs: 30_000,
        captureIdleMs: 30_000,
        buildMs: 5_000,
        evaluateMs: 8_000,
        teardownMs: TEARDOWN_MS,
      },
      gradeTimeouts: chance(0.5),
      modelBudget: BUDGETS[seed % BUDGETS.length] ?? {},
    },
    boundary: { engineDeadlineMs: 30_000, acquireDeadlineMs: 60_000, callsPerSession: pick(1, 2, 8), callsPerThread: pick(4, 1_024) },
    // Seldom so small that calls find no room in it.
    arena: { maxSlabs: 1, slabTokens: chance(0.2) ? 2 ** 6 : 2 ** 14, blockTokens: 2 ** 4 },
    cpu: { threads: 1, maxQueue: 16 },
    customs: { harnesses: {}, builders: {}, evaluators: {} },
    agents: { packages: '/nowhere', cache: '/nowhere' },
  })
  const spanMs = 30_000
  const task = (index: number): TaskPlan => {
    const samples = between(1, 4)
    return {
      request: taskRequestSchema.parse({
        task_id: `task-${index}`,
        instruction: `task ${index}`,
        num_samples: samples,
        dispatch_priority: between(0, 5),
        ...(chance(0.3) ? { early_stop_min_usable_sessions: between(1, samples) } : {}),
        timeout_seconds: pick(5, 20, 60),
        agent: { harness: 'shell', custom_shell: { command: 'simulated-agent' } },
        runtime: {
          backend: 'simulated',
          prepare: Array.from({ length: between(0, 2) }, () => ({ type: 'exec', command: 'prepare' })),
        },
        builder: { strategy: pick('prefix_merging', 'prefix_merging', 'per_request') },
        ...(chance(0.8) ? { evaluator: pick({ strategy: 'session_completed' }, { strategy: 'test_on_output', config: GRADER }) } : {}),
        ...(chance(0.8) ? { callback_url: `http://trainer-${between(0, 1)}:9000/result` } : {}),
      }),
      submitAtMs: random.next() * spanMs,
      isRepeated: chance(0.2),
      cancelAtMs: chance(0.2) ? random.next() * 2 * spanMs : null,
    }
  }
  const capture = (index: number): CapturePlan => {
    const session = knownSessionId(`sk-polar-elsewhere-${index}`)
    const pinned = between(-1, gateways - 1)
    return {
      session,
      request: capturedTask(
        session,
        captureSchema.parse({ timeout_seconds: pick(5, 60, 600), builder: { strategy: pick('prefix_merging', 'per_request') } }),
      ),
      gateway: pinned < 0 ? null : gatewayId(`gateway-${pinned}`),
      openAtMs: random.next() * spanMs,
      resultUrl: chance(0.5) ? `http://trainer-${between(0, 1)}:9000/session` : null,
      end: pick('finish', 'finish', 'delete', 'forget'),
      // Some are ended in the middle of what they do.
      patienceMs: pick(1_000, 600_000),
      reward: pick(null, 0, 1),
    }
  }
  return {
    seed,
    setup: {
      control: {
        server: { maxAttempts: between(1, 3), maxAdmittedSessions: 1_000, maxKeptTasks: 100 },
        callback: {
          perTarget: 2,
          maxAttempts: 4,
          backoffBaseMs: 500,
          backoffCapMs: 4_000,
          maxRetryAfterMs: 10_000,
          deadlineMs: 10_000,
          maxKept: 100,
        },
        logs: null,
        tailBytes: 1_000,
        renderMs: 5_000,
      },
      ledger: { limits: { maxKeptTasks: 1_000, maxBytes: 2 ** 30, maxCallLogs: 10_000 } },
      gateways: Array.from({ length: gateways }, (_, index) => gateway(index)),
      drainMs: 600_000,
    },
    tasks: Array.from({ length: between(1, 4) }, (_, index) => task(index)),
    captures: Array.from({ length: pick(0, 0, 1, 3) }, (_, index) => capture(index)),
    impatience: pick(0, 0.002, 0.02),
    // The longest start ends while whoever gave it up still waits for its sandbox to be stopped.
    runtime: { rate: trouble / 2, maxLatencyMs: pick(10, 500), slowStartMs: INIT_MS + TEARDOWN_MS },
    engine: {
      // Some days have one ailment only, and that more often: what takes three of it in a row must be seen too.
      ...(chance(0.3)
        ? { rate: trouble * 6, kinds: [ENGINE_FAULTS[between(0, ENGINE_FAULTS.length + 3)] ?? 'abort'] }
        : { rate: trouble, kinds: ENGINE_FAULTS }),
      outages: trouble === 0 ? [] : Array.from({ length: between(0, 2) }, () => outage(random.next(), random.next())),
      maxLatencyMs: pick(20, 3_000),
    },
    agents: { maxTurns: between(1, 5), maxThinkMs: pick(50, 4_000), faultRate: trouble },
    receiverFaultRate: trouble * 3,
    deaths: Array.from({ length: trouble === 0 ? 0 : pick(0, 0, 1, 2) }, () => ({
      gateway: between(0, gateways - 1),
      atMs: random.next() * 2 * spanMs,
    })),
    pauses: Array.from({ length: pick(0, 0, 1, 3) }, () => ({
      atMs: random.next() * 2 * spanMs,
      lastsMs: pick(0, 500, 5_000),
      timeoutMs: pick(0, 1_000, 60_000),
      gateway: chance(0.5) ? null : gatewayId(`gateway-${between(0, gateways - 1)}`),
    })),
  }

  function outage(from: number, length: number) {
    const fromMs = from * spanMs
    return { replica: between(0, replicas - 1), fromMs, toMs: fromMs + length * 20_000 }
  }
}

const GRADER = { test_command: 'true', expected_output_json: {} }

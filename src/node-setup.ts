// From the operator's configuration to what each thread is given.
import { join } from 'node:path'
import type { NodeConfig } from './config/resolve.ts'
import type { Config } from './config.ts'
import type { ReplicaSpec } from './contract/replica.ts'
import type { GatewaySetup } from './threads/gateway.ts'
import { replicaConfig } from './threads/replica-sets.ts'
import type { NodeSetup } from './topology.ts'

/** The end of an agent's output that is read for its verdict. */
const TAIL_BYTES = 64 * 1024
/** Sessions of agents that were started elsewhere, per gateway. */
const MAX_CAPTURES = 1_024
const RENDER_MS = 120_000
const LONGEST_RETRY_AFTER_MS = 300_000

export type AgentFolders = { readonly packages: string; readonly cache: string }

/** `embedded`: the engine that serves the gateways which name no server; null: there is none such. */
export function nodeSetup(config: Config, agents: AgentFolders, embedded: ReplicaSpec | null): NodeSetup {
  const threads = Math.max(1, Math.floor(config.cpuThreads / config.nodes.length))
  const nodes = config.nodes.map((node) => (node.replicas.length > 0 || embedded === null ? node : { ...node, replicas: [embedded] }))
  return {
    control: {
      server: {
        maxAttempts: config.maxAttempts,
        maxAdmittedSessions: config.limits.admittedSessions,
        maxKeptTasks: config.limits.keptTasks,
      },
      callback: { ...config.callback, maxRetryAfterMs: LONGEST_RETRY_AFTER_MS, maxKept: config.limits.keptTasks },
      logs: { folder: join(config.dataDir, 'logs'), max: config.limits.keptLogs },
      tailBytes: TAIL_BYTES,
      renderMs: RENDER_MS,
    },
    ledger: {
      limits: { maxKeptTasks: config.limits.keptTasks, maxBytes: config.limits.ledgerBytes, maxCallLogs: config.limits.callLogs },
    },
    gateways: nodes.map((node) => gatewaySetup({ ...config, nodes }, node, threads, agents)),
    drainMs: config.budgets.drainMs,
  }
}

function gatewaySetup(config: Config, node: NodeConfig, threads: number, agents: AgentFolders): GatewaySetup {
  const { budgets } = config
  return {
    gateway: node.id,
    host: node.host,
    port: node.port,
    model: node.modelServed,
    models: config.models,
    replicas: node.replicas.map((replica) => replicaConfig(replica, sharers(config, replica))),
    limits: {
      maxReadySessions: node.maxReadySessions,
      maxInitWorkers: node.maxInitWorkers,
      maxRunWorkers: node.maxRunWorkers,
      maxPostrunWorkers: node.maxPostrunWorkers,
      maxGraderSandboxes: node.maxGraderSandboxes,
      maxCaptures: MAX_CAPTURES,
    },
    defaultRuntime: node.defaultRuntime,
    policy: {
      budgets: {
        initMs: budgets.initMs,
        // Each task brings its own; this one only stands where a task could not say.
        agentMs: 600_000,
        firstCallMs: budgets.noModelCallMs,
        captureIdleMs: budgets.captureIdleMs,
        buildMs: budgets.buildMs,
        evaluateMs: budgets.evaluateMs,
        teardownMs: budgets.teardownMs,
      },
      gradeTimeouts: config.gradeTimeouts,
      modelBudget: budgets.session,
    },
    boundary: {
      streamMode: config.stream.mode,
      commitAfterMs: config.stream.commitAfterMs,
      beatEveryMs: config.stream.beatMs,
      lingerMs: config.stream.lingerMs,
      outageMs: budgets.outageMs,
      aborted: config.abortedGenerations,
    },
    arena: { maxSlabs: config.maxSlabs },
    cpu: { threads, maxQueue: node.maxPostrunWorkers * 4 },
    customs: config.modules,
    agents,
  }
}

/** How many gateways of this node send to the same engine: its cap is divided among them, and none gets less than one place. */
function sharers(config: Config, replica: ReplicaSpec): number {
  return config.nodes.filter((node) => node.replicas.some((each) => each.url === replica.url)).length
}

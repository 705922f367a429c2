// The settings as the process uses them: defaults that depend on other keys are filled in, units are milliseconds, paths are absolute.
import { availableParallelism } from 'node:os'
import { isAbsolute, resolve } from 'node:path'
import type { EngineKind } from '../contract/call.ts'
import { type GatewayId, gatewayId } from '../contract/ids.ts'
import type { ModelRule } from '../contract/model-profile.ts'
import { type ReplicaSpec, replicaSpec } from '../contract/replica.ts'
import type { SessionBudget } from '../contract/session-budget.ts'
import type { RuntimeSpec } from '../contract/task.ts'
import { type EmbeddedConfig, embeddedConfig, inferenceNotes, namedReplicas } from './inference.ts'
import { idleKeyNotes } from './polar-keys.ts'
import { type ConfigProblem, type Path, type Place, problemAt } from './problems.ts'
import { type ConfigFile, DEFAULT_NODE } from './schema.ts'

export type NodeConfig = {
  readonly id: GatewayId
  readonly host: string
  readonly port: number
  readonly publicUrl: string | null
  /** The model name sent to the engine; empty: the one it serves. */
  readonly modelServed: string
  readonly maxReadySessions: number
  readonly maxInitWorkers: number
  readonly maxRunWorkers: number
  readonly maxPostrunWorkers: number
  readonly maxGraderSandboxes: number
  readonly defaultRuntime: RuntimeSpec | null
  /** Those it names; empty: it is the embedded engine's. */
  readonly replicas: readonly ReplicaSpec[]
}

export type Config = {
  /** Null when there is no file. */
  readonly file: string | null
  readonly dataDir: string
  readonly control: { readonly host: string; readonly port: number; readonly publicUrl: string | null; readonly tokenFile: string }
  readonly topology: 'threaded' | 'inline'
  readonly nodes: readonly NodeConfig[]
  /** Null: every gateway names its inference servers. */
  readonly embedded: EmbeddedConfig | null
  readonly maxAttempts: number
  readonly budgets: {
    readonly initMs: number
    readonly buildMs: number
    readonly evaluateMs: number
    readonly teardownMs: number
    readonly noModelCallMs: number
    readonly captureIdleMs: number
    readonly outageMs: number
    readonly drainMs: number
    /** Of each session, where its task names none. */
    readonly session: SessionBudget
  }
  readonly gradeTimeouts: boolean
  readonly abortedGenerations: 'resume' | 'restart'
  readonly cpuThreads: number
  readonly maxSlabs: number
  /** In the order of the file; the first whose pattern matches a served name holds. */
  readonly models: readonly ModelRule[]
  readonly uploadRoots: readonly string[]
  /** Custom code by name: absolute paths of modules. */
  readonly modules: { readonly evaluators: Modules; readonly builders: Modules; readonly harnesses: Modules }
  readonly limits: {
    readonly bodyBytes: number
    readonly admittedSessions: number
    readonly keptTasks: number
    readonly ledgerBytes: number
    readonly callLogs: number
    readonly keptLogs: number
    readonly events: number
    readonly eventReaders: number
  }
  readonly callback: {
    readonly deadlineMs: number
    readonly maxAttempts: number
    readonly perTarget: number
    readonly backoffBaseMs: number
    readonly backoffCapMs: number
  }
  readonly stream: {
    readonly mode: 'synthetic' | 'live' | 'auto'
    readonly commitAfterMs: number
    readonly beatMs: number
    readonly lingerMs: number
  }
  /** Keys that were understood and have no effect here, for the log. */
  readonly notes: readonly string[]
}

type Modules = Readonly<Record<string, string>>

export type Overrides = {
  /** An engine for nodes that name none, and its kind. */
  readonly engineUrl?: string
  readonly engine?: EngineKind
  /** Only the way to the node is asked for: what it serves from may be known to its own command line alone. */
  readonly isClient?: boolean
}

const LOOPBACK = '127.0.0.1'
const FIRST_MODEL_PORT = 8081

export function resolveConfig(file: string | null, folder: string, parsed: ConfigFile, overrides: Overrides): Config {
  const { rollout, polar_node: own } = parsed
  const absolute = (path: string) => (isAbsolute(path) ? path : resolve(folder, path))
  const dataDir = absolute(own.data_dir ?? '.polar')
  const nodes = nodesOf(parsed, overrides)
  const embedded = embeddedConfig(own.embedded, nodes, absolute)
  const modules = (named: Modules | null | undefined) =>
    Object.fromEntries(Object.entries(named ?? {}).map(([name, path]) => [name, absolute(path)]))
  return {
    file,
    dataDir,
    control: {
      host: rollout.host ?? LOOPBACK,
      port: rollout.port ?? 8080,
      publicUrl: rollout.public_url ?? null,
      tokenFile: absolute(own.control.token_file ?? resolve(dataDir, 'control-token')),
    },
    topology: own.topology,
    nodes,
    embedded,
    maxAttempts: own.max_attempts,
    budgets: {
      initMs: own.budgets.init_seconds * 1_000,
      buildMs: own.budgets.build_seconds * 1_000,
      evaluateMs: own.budgets.evaluate_seconds * 1_000,
      teardownMs: own.budgets.teardown_seconds * 1_000,
      noModelCallMs: own.budgets.no_model_call_seconds * 1_000,
      captureIdleMs: own.budgets.capture_idle_seconds * 1_000,
      outageMs: own.budgets.outage_seconds * 1_000,
      drainMs: own.budgets.drain_seconds * 1_000,
      session: own.budgets.session ?? {},
    },
    gradeTimeouts: own.grade_timeouts,
    abortedGenerations: own.weight_updates.aborted,
    cpuThreads: own.cpu.threads ?? Math.max(1, Math.floor(availableParallelism() / 2)),
    maxSlabs: own.arena.max_slabs,
    models: Object.entries(own.models ?? {}).map(([pattern, profile]) => ({ pattern, profile })),
    uploadRoots: (own.upload_roots ?? []).map(absolute),
    modules: { evaluators: modules(own.evaluators), builders: modules(own.builders), harnesses: modules(own.harnesses) },
    limits: {
      bodyBytes: own.limits.body_bytes,
      admittedSessions: own.limits.admitted_sessions,
      keptTasks: own.limits.kept_tasks,
      ledgerBytes: own.limits.ledger_bytes,
      callLogs: own.limits.call_logs,
      keptLogs: own.limits.kept_logs,
      events: own.limits.events,
      eventReaders: own.limits.event_readers,
    },
    callback: {
      deadlineMs: own.callback.deadline_seconds * 1_000,
      maxAttempts: own.callback.max_attempts,
      perTarget: own.callback.per_target,
      backoffBaseMs: own.callback.backoff_seconds * 1_000,
      backoffCapMs: own.callback.backoff_cap_seconds * 1_000,
    },
    stream: {
      mode: own.stream.mode,
      commitAfterMs: own.stream.commit_after_seconds * 1_000,
      beatMs: own.stream.beat_seconds * 1_000,
      lingerMs: own.stream.linger_seconds * 1_000,
    },
    notes: [...idleKeyNotes(parsed), ...inferenceNotes(parsed, nodes, embedded, overrides)],
  }
}

/** What the shape of the file alone cannot say: names and ports that clash, and names of nothing. */
export function conflicts(place: Place, parsed: ConfigFile, config: Config): readonly ConfigProblem[] {
  const problems: ConfigProblem[] = []
  const written = parsed.gateway.nodes !== undefined
  const nodePath = (i: number, key: string): Path => (written ? ['gateway', 'nodes', i, key] : [])
  const ids = new Map<string, number>()
  const ports = new Map<number, string>([[config.control.port, 'the control port']])
  for (const [i, node] of config.nodes.entries()) {
    const sameId = ids.get(node.id)
    if (sameId !== undefined) problems.push(problemAt(place, nodePath(i, 'id'), `is already the id of gateway.nodes[${sameId}]`))
    ids.set(node.id, i)
    const taken = node.port === 0 ? undefined : ports.get(node.port)
    if (taken !== undefined) problems.push(problemAt(place, nodePath(i, 'port'), `port ${node.port} is already ${taken}`))
    ports.set(node.port, `the model port of ${node.id}`)
  }
  for (const [name, replicas] of Object.entries(parsed.polar_node.replicas ?? {})) {
    const path: Path = ['polar_node', 'replicas', name]
    if (!ids.has(name))
      problems.push(problemAt(place, path, `no node has this id; there ${ids.size === 1 ? 'is' : 'are'} ${[...ids.keys()].join(', ')}`))
    const seen = new Map<string, string>()
    for (const [i, replica] of replicas.entries()) {
      const { url } = replicaSpec(replica, 'sglang')
      const sameUrl = seen.get(url)
      if ([...seen.values()].includes(replica.id))
        problems.push(problemAt(place, [...path, i, 'id'], 'is already the id of another replica of this node'))
      else if (sameUrl !== undefined) problems.push(problemAt(place, [...path, i, 'url'], `is already the url of ${sameUrl}`))
      seen.set(url, replica.id)
    }
  }
  if (config.callback.backoffCapMs < config.callback.backoffBaseMs) {
    problems.push(problemAt(place, ['polar_node', 'callback', 'backoff_cap_seconds'], 'must not be less than backoff_seconds'))
  }
  return problems
}

function nodesOf({ gateway, polar_node: own }: ConfigFile, overrides: Overrides): readonly NodeConfig[] {
  const nodes = gateway.nodes ?? [DEFAULT_NODE]
  return nodes.map((node, i): NodeConfig => {
    const id = node.id ?? `gateway-${i}`
    return {
      id: gatewayId(id),
      host: node.host ?? LOOPBACK,
      port: node.port ?? FIRST_MODEL_PORT + i,
      publicUrl: node.public_url ?? null,
      modelServed: node.model_served,
      maxReadySessions: own.max_ready_sessions ?? node.max_init_workers + node.max_run_workers,
      maxInitWorkers: node.max_init_workers,
      maxRunWorkers: node.max_run_workers,
      maxPostrunWorkers: node.max_postrun_workers,
      maxGraderSandboxes: own.max_grader_sandboxes ?? node.max_postrun_workers,
      defaultRuntime: node.default_runtime ?? null,
      replicas: namedReplicas(node, id, own, overrides),
    }
  })
}

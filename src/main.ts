// The composition root: configuration, token, data folder, log, the node's threads, and the control API in front of them.
import { existsSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { destination, type Logger, pino } from 'pino'
import { checkTarget } from './actors/callback/target.ts'
import { openTransport } from './actors/callback/transport.ts'
import { type EmbeddedConfig, WAYS_TO_NAME_SERVERS } from './config/inference.ts'
import type { Config } from './config.ts'
import { type GatewayId, replicaId } from './contract/ids.ts'
import type { ReplicaSpec } from './contract/replica.ts'
import type { TaskRequest } from './contract/task.ts'
import { lockDataFolder } from './data-folder.ts'
import { createEvaluators } from './evaluators/registry.ts'
import { loadHarnesses } from './harness/registry.ts'
import { openControlApi, type TaskProblem } from './http/control-api.ts'
import { openEventFeed } from './http/events.ts'
import { openFeedWaiters } from './http/feed-waiters.ts'
import { openCompletionsReader } from './http/kept-completions.ts'
import { serverUrl } from './http/server-url.ts'
import { openControlToken } from './http/token.ts'
import type { Scheduler } from './kernel/clock.ts'
import type { DrainReport } from './kernel/drain.ts'
import { cryptoRandom, openEventLoop } from './kernel/event-loop.ts'
import type { StepBegun } from './node-drain.ts'
import { type AgentFolders, nodeSetup } from './node-setup.ts'
import { stopLeftovers } from './runtime/reaper.ts'
import { openRuntimes } from './runtime/registry.ts'
import { folderProblem } from './runtime/upload.ts'
import { openCpuPool } from './tasks/pool.ts'
import { type EngineOptions, type EngineProcess, openEngine } from './threads/engine.ts'
import { openUpstream } from './threads/upstream.ts'
import { type InlineOutside, openInlineNode, openThreadedNode, type PolarNode } from './topology.ts'
import { checkBuilder } from './trajectory/config.ts'

export type RunningNode = {
  readonly controlUrl: string
  readonly token: string
  /** True when the token was made by this start: nobody has seen it yet. */
  readonly isTokenNew: boolean
  readonly node: PolarNode
  /** What the embedded engine serves, and where; null when every gateway names its servers. */
  readonly embedded: Pick<EngineProcess, 'url' | 'model' | 'parameters'> | null
  /** Resolves with the reason when the node can no longer do its work; then only `close` is left. */
  readonly failed: Promise<string>
  /** What its start found, for the operator. */
  readonly notes: readonly string[]
  /** Ends every session first, in numbered steps. */
  drain(begun?: StepBegun): Promise<DrainReport>
  close(): Promise<void>
}

export type Started = { readonly ok: true; readonly running: RunningNode } | { readonly ok: false; readonly problem: string }

/** The checkout or the installed package: where agent packages are described and cached. */
const HOME = resolve(import.meta.dirname, '..')
export const AGENT_FOLDERS: AgentFolders = { packages: join(HOME, 'agents'), cache: join(HOME, '.cache', 'agents') }
/** Small enough to lie in the package; trained for the demo's task. */
const TINY_POLICY = join(HOME, 'assets', 'tiny-policy.gguf')
const MAX_EMBEDDED_WAITING = 256
/** Trainers that wait for the feed: one each, and some that were left behind by proxies. */
const MAX_FEED_WAITERS = 256
const EVENT_BEAT_MS = 15_000
const MAX_UNSENT_EVENT_BYTES = 4 * 2 ** 20
const MAX_OUTPUT_BYTES = 8 * 2 ** 20

/** Never throws for what an operator can mend: the problem says it. Ends no session by itself; see `RunningNode.drain`. */
export async function startNode(config: Config, log: Logger = pino(destination(2))): Promise<Started> {
  try {
    return await start(config, log)
  } catch (error) {
    return { ok: false, problem: describe(error, config) }
  }
}

async function start(config: Config, log: Logger): Promise<Started> {
  const lock = await lockDataFolder(config.dataDir)
  if (!lock.ok) return lock
  let started: Started | null = null
  try {
    started = await startAlone(config, log, lock.unlock)
    return started
  } finally {
    if (started?.ok !== true) await lock.unlock()
  }
}

/** Once the data folder is this process's own. */
async function startAlone(config: Config, log: Logger, unlock: () => Promise<void>): Promise<Started> {
  const token = await openControlToken(config.control.tokenFile, process.env.POLAR_CONTROL_PLANE_TOKEN)
  if (!token.ok) return token
  const scheduler = openEventLoop()
  const random = cryptoRandom()
  const events = openEventFeed({
    scheduler,
    boot: random.hex(4),
    capacity: config.limits.events,
    maxReaders: config.limits.eventReaders,
    maxUnsentBytes: MAX_UNSENT_EVENT_BYTES,
    beatMs: EVENT_BEAT_MS,
  })
  const feedWaiters = openFeedWaiters(scheduler, MAX_FEED_WAITERS)
  const runtimes = openRuntimes({
    local: {
      root: join(config.dataDir, 'sandboxes'),
      uploadRoots: config.uploadRoots,
      maxOutputBytes: MAX_OUTPUT_BYTES,
      // Agents and graders find the very Node that runs this process.
      path: [dirname(process.execPath), process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin'].join(delimiter),
      clock: scheduler.clock,
      random,
    },
  })
  const checkTask = await taskChecker(config, runtimes.check)
  const { stopped, problems } = await stopLeftovers(runtimes.byName.values())
  const missing = config.uploadRoots.filter((root) => !existsSync(root))
  const notes = [
    ...missing.map((root) => `polar_node.upload_roots: there is no ${root}; no task can upload from it`),
    ...(stopped === 0 ? [] : [`sandboxes of an earlier process that were stopped: ${stopped}`]),
    ...problems,
  ]
  let isStarted = false
  const logged = (event: string, detail: Readonly<Record<string, unknown>>): void => {
    // A start that fails says itself why, in the operator's terms.
    if (isStarted || event !== 'gateway-lost') log.info({ event, ...detail })
  }
  const embedded = config.embedded === null ? null : await startEmbedded(config.embedded, scheduler, logged)
  if (embedded?.ok === false) return embedded
  const engine = embedded?.engine
  const setup = nodeSetup(config, AGENT_FOLDERS, embedded?.replica ?? null)
  const outside: InlineOutside = {
    scheduler,
    random,
    runtimes: runtimes.byName,
    cpu: openCpuPool({ threads: 1, maxQueue: 1024 }),
    transport: openTransport(),
    publish(event) {
      events.publish(event)
      feedWaiters.hear(event)
    },
    log: logged,
    ...(engine === undefined ? {} : { engine }),
    gateway: (gateway) => ({ cpu: openCpuPool(gateway.cpu), listens: true }),
  }
  const opening = config.topology === 'inline' ? openInlineNode(setup, outside) : openThreadedNode(setup, outside)
  const node = await opening.catch(async (error: unknown) => {
    // A node that never was cannot close what it was given.
    await Promise.all([outside.cpu.close(), outside.transport.close(), engine?.close()])
    throw error
  })
  isStarted = true
  try {
    const api = await openControlApi({
      host: config.control.host,
      port: config.control.port,
      token: token.token,
      kernel: node.kernel,
      rolloutServer: node.rolloutServer,
      ledger: node.ledger,
      callback: node.callback,
      readGateway: node.readGateway,
      askGateway: node.askGateway,
      modelUrl: (gateway, port) => modelUrlOf(config, gateway, port),
      replicas: node.replicas,
      inference: node.inference,
      upstream: openUpstream(scheduler),
      publicUrl: config.control.publicUrl,
      readResult: node.readResult,
      results: node.results,
      readCompletions: openCompletionsReader({ ...node, render: node.renderCompletions }),
      checkTask,
      embeddedUrl: engine?.url ?? null,
      events,
      feedWaiters,
      limits: { bodyBytes: config.limits.bodyBytes, admittedSessions: config.limits.admittedSessions },
      // Not its "Server listening": whoever starts a node is told where it listens.
      log: log.child({ part: 'control-api' }, { level: 'warn' }),
    })
    return {
      ok: true,
      running: {
        controlUrl: api.url,
        token: token.token,
        isTokenNew: token.source === 'created',
        node,
        embedded: engine ?? null,
        failed: node.failed,
        notes,
        drain: (begun) => node.drain(begun),
        async close() {
          await api.close()
          await node.close()
          await unlock()
        },
      },
    }
  } catch (error) {
    await node.close()
    throw error
  }
}

type Embedded =
  | { readonly ok: true; readonly engine: EngineProcess; readonly replica: ReplicaSpec }
  | { readonly ok: false; readonly problem: string }

/** The engine's process, and how the gateways are to call it. */
async function startEmbedded(config: EmbeddedConfig, scheduler: Scheduler, log: EngineOptions['log']): Promise<Embedded> {
  const { servedAs, sequences, threads, maxModelLen } = config
  const modelPath = config.modelPath ?? TINY_POLICY
  const opened = await openEngine({ modelPath, servedAs, sequences, threads, maxModelLen }, { scheduler, log })
  if (!opened.ok) {
    const remedy = config.isAskedFor ? 'mend polar_node.embedded, or name an inference server' : 'name an inference server'
    return { ok: false, problem: `the embedded engine does not start: ${opened.error}; ${remedy} (${WAYS_TO_NAME_SERVERS})` }
  }
  const { engine } = opened
  return {
    ok: true,
    engine,
    replica: {
      id: replicaId('embedded'),
      url: engine.url,
      engine: 'sglang',
      maxInFlight: sequences,
      maxWaiting: MAX_EMBEDDED_WAITING,
      dataParallelRanks: null,
      isRouter: false,
    },
  }
}

/** What a task names must exist on this node; each part says itself what is wrong with its own section. */
async function taskChecker(
  config: Config,
  checkBackend: (backend: string) => string | null,
): Promise<(request: TaskRequest) => readonly TaskProblem[]> {
  const harnesses = await loadHarnesses(config.modules.harnesses)
  const evaluators = createEvaluators(config.modules.evaluators)
  const builders = Object.keys(config.modules.builders)
  const hasDefaultRuntime = config.nodes.every((node) => node.defaultRuntime !== null)
  return (request) => {
    const { agent, runtime, builder, evaluator } = request
    const problems: TaskProblem[] = []
    const note = (path: readonly (string | number)[], message: string | null): void => {
      if (message !== null) problems.push({ path, message })
    }
    note(['agent'], harnesses.check(agent))
    if (agent.skills_path != null) note(['agent', 'skills_path'], skillsProblem(agent.skills_path, config.uploadRoots))
    if (runtime == null) note(['runtime'], hasDefaultRuntime ? null : 'is required: this node has no default_runtime')
    else note(['runtime', 'backend'], checkBackend(runtime.backend))
    note(['builder'], checkBuilder(builder, builders))
    if (evaluator != null) note(['evaluator'], evaluators.check(evaluator))
    if (request.callback_url != null) note(['callback_url'], checkTarget(request.callback_url))
    return problems
  }
}

/** No CLI finds a skill that lies in its skills folder itself. */
function skillsProblem(path: string, uploadRoots: readonly string[]): string | null {
  const isSkill = existsSync(join(path, 'SKILL.md'))
  return folderProblem(path, uploadRoots) ?? (isSkill ? `'${path}' is a skill itself: name the folder that holds it` : null)
}

function modelUrlOf(config: Config, gateway: GatewayId, port: number): string {
  const node = config.nodes.find(({ id }) => id === gateway)
  return serverUrl(node?.publicUrl ?? null, node?.host ?? '0.0.0.0', port)
}

function describe(error: unknown, config: Config): string {
  const message = error instanceof Error ? error.message : String(error)
  if (!message.includes('EADDRINUSE')) return message
  // What another thread's server threw comes as its text.
  const gateway = config.nodes.find(({ port }) => message.endsWith(`:${port}`))
  return gateway === undefined
    ? `port ${config.control.port} of ${config.control.host} is in use; set rollout.port to another`
    : `port ${gateway.port} of ${gateway.host} is in use; set the port of ${gateway.id} under gateway.nodes to another`
}

// One gateway thread put together: arena, CPU pool, model boundary and port, builder, evaluator and the gateway actor.
import { builderActor } from '../actors/builder/actor.ts'
import { evaluatorActor } from '../actors/evaluator/actor.ts'
import { gatewayActor } from '../actors/gateway/actor.ts'
import type { GatewayCommand, GatewayLimits } from '../actors/gateway/protocol.ts'
import type { LedgerCommand, Recorded } from '../actors/ledger/protocol.ts'
import type { RolloutServerCommand } from '../actors/rollout-server/protocol.ts'
import type { SandboxCommand } from '../actors/sandbox/protocol.ts'
import { sessionActor } from '../actors/session/actor.ts'
import type { SessionPolicy } from '../actors/session/phases.ts'
import type { GatewayId } from '../contract/ids.ts'
import type { RuntimeSpec } from '../contract/task.ts'
import { createEvaluators } from '../evaluators/registry.ts'
import { installedAgent } from '../harness/agent-folder.ts'
import { loadHarnesses } from '../harness/registry.ts'
import type { Address } from '../kernel/address.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Boundary } from '../proxy/boundary.ts'
import type { Transport } from '../proxy/engines/transport.ts'
import { openModelPort } from '../proxy/model-port.ts'
import { openBoundary, type ReplicaConfig } from '../proxy/open-boundary.ts'
import type { BoundarySettings } from '../proxy/settings.ts'
import type { CpuPool } from '../tasks/pool.ts'
import { type ArenaStats, openArena } from '../tokens/arena.ts'

/** Plain data: it crosses to the gateway's thread when that boots. */
export type GatewaySetup = {
  readonly gateway: GatewayId
  readonly host: string
  readonly port: number
  readonly model: string
  readonly replicas: readonly ReplicaConfig[]
  readonly limits: GatewayLimits
  /** For tasks that name no runtime. */
  readonly defaultRuntime: RuntimeSpec | null
  readonly policy: SessionPolicy
  readonly boundary: Partial<BoundarySettings>
  readonly arena: { readonly maxSlabs: number; readonly slabTokens?: number; readonly blockTokens?: number }
  readonly cpu: { readonly threads: number; readonly maxQueue: number }
  /** Custom modules of the operator, name to absolute path. */
  readonly customs: {
    readonly harnesses: Readonly<Record<string, string>>
    readonly builders: Readonly<Record<string, string>>
    readonly evaluators: Readonly<Record<string, string>>
  }
  readonly agents: { readonly packages: string; readonly cache: string }
}

export type GatewayPeers = {
  readonly rolloutServer: Address<RolloutServerCommand>
  readonly sandboxes: Address<SandboxCommand>
  readonly ledger: Address<LedgerCommand>
}

/** What a simulation replaces: everything that leaves the process. */
export type GatewayOutside = {
  readonly cpu: CpuPool
  readonly transport?: Transport
  /** False in simulations: their agents call the boundary directly. */
  readonly listens: boolean
  readonly log: (event: string, detail: Readonly<Record<string, unknown>>) => void
  /** An actor that every session needs has ended for good. */
  readonly failed: (actor: string) => void
}

export type GatewayThread = {
  readonly address: Address<GatewayCommand>
  readonly modelPort: number
  readonly boundary: Boundary
  arena(): ArenaStats
  close(): Promise<void>
}

/** The ledger answers at once in memory and within its own fsync on disk; an answer that never comes is a lost ledger. */
const RECORD_DEADLINE_MS = 30_000
const REOFFER_MS = 50

/** Rejects when the model port cannot be bound or a custom module cannot be used. */
export async function openGatewayThread(
  kernel: Kernel,
  setup: GatewaySetup,
  peers: GatewayPeers,
  outside: GatewayOutside,
): Promise<GatewayThread> {
  const harnesses = await loadHarnesses(setup.customs.harnesses)
  const evaluators = createEvaluators(setup.customs.evaluators)
  let gateway: Address<GatewayCommand> | null = null
  /** What the gateway must know of its thread; the latest word counts, and a full mailbox only delays it. */
  const brakes = { isPressed: false, isEngineAvailable: false }
  function tellGateway(brake: keyof typeof brakes): void {
    if (gateway === null) return
    const message: GatewayCommand =
      brake === 'isPressed'
        ? { type: 'arena-pressure', high: brakes.isPressed }
        : { type: 'engine-available', isAvailable: brakes.isEngineAvailable }
    if (kernel.tell(gateway, message) === 'full') kernel.scheduler.after(REOFFER_MS, () => tellGateway(brake))
  }
  const arena = openArena({
    ...setup.arena,
    onPressure(high) {
      brakes.isPressed = high
      tellGateway('isPressed')
    },
  })
  const boundary = openBoundary({
    kernel,
    arena,
    replicas: setup.replicas,
    model: setup.model,
    settings: setup.boundary,
    log: outside.log,
    onServing(isServing) {
      brakes.isEngineAvailable = isServing
      outside.log(isServing ? 'engine-available' : 'no-engine-available', { gateway: setup.gateway })
      tellGateway('isEngineAvailable')
    },
    ...(outside.transport === undefined ? {} : { transport: outside.transport }),
    recordCall: async (call) => {
      const answer = await kernel.ask<LedgerCommand, Recorded>(
        peers.ledger,
        (ask) => ({ type: 'record-call', call, ask }),
        RECORD_DEADLINE_MS,
      )
      return answer.ok && answer.value.type === 'recorded'
    },
  })
  const port = outside.listens
    ? await openModelPort({
        host: setup.host,
        port: setup.port,
        boundary,
        ...(setup.boundary.maxBodyBytes === undefined ? {} : { maxBodyBytes: setup.boundary.maxBodyBytes }),
      })
    : null
  const modelPort = port?.port ?? setup.port

  const builder = kernel.spawn(
    builderActor({ cpu: outside.cpu, maxRunning: setup.limits.maxPostrunWorkers, customs: setup.customs.builders }),
  )
  const evaluator = kernel.spawn(
    evaluatorActor({
      kernel,
      sandboxes: peers.sandboxes,
      evaluators,
      maxRunning: setup.limits.maxGraderSandboxes,
      teardownMs: setup.policy.budgets.teardownMs,
    }),
  )
  const { maxPostrunWorkers, maxGraderSandboxes } = setup.limits
  const graderWaitMs = Math.ceil(maxPostrunWorkers / maxGraderSandboxes) * setup.policy.budgets.evaluateMs

  gateway = kernel.spawn(
    gatewayActor({
      gateway: setup.gateway,
      limits: setup.limits,
      modelPort,
      rolloutServer: peers.rolloutServer,
      ledger: peers.ledger,
      sandboxes: peers.sandboxes,
      teardownMs: setup.policy.budgets.teardownMs,
      arena: () => arena.stats(),
      replicas: () => boundary.replicas(),
      sessionSpec: (spec, own) => {
        const harness = harnesses.find(spec.request.agent)
        // Checked when the task was submitted, by the same registry.
        if (harness === null) throw new Error(`no harness '${spec.request.agent.harness}' on this node`)
        const runtime = spec.request.runtime ?? setup.defaultRuntime
        return sessionActor(
          { ...spec, request: { ...spec.request, runtime } },
          {
            kernel,
            node: setup.gateway,
            policy: policyOf(setup.policy, spec.request),
            peers: { ...peers, gateway: own, builder, evaluator },
            boundary,
            modelPort,
            harness,
            agentFolder: (name) => installedAgent(setup.agents.packages, setup.agents.cache, name),
            graderWaitMs,
          },
        )
      },
    }),
  )

  tellGateway('isEngineAvailable')
  const own = gateway
  kernel.onExit((exit) => {
    if (exit.reason !== 'crashed') return
    outside.log('actor-crashed', { actor: exit.name, error: exit.error?.stack ?? String(exit.error) })
    if (exit.name.startsWith('session/')) {
      kernel.tell(own, { type: 'session-crashed', actor: exit.address.actor, error: exit.error?.message ?? 'unknown' })
    }
    // Without its gateway, builder or evaluator the thread is of no use; its owner starts a fresh one.
    else outside.failed(exit.name)
  })

  return {
    address: gateway,
    modelPort,
    boundary,
    arena: () => arena.stats(),
    async close() {
      await port?.close()
      await boundary.close()
      await outside.cpu.close()
      await kernel.close()
      arena.close()
    },
  }
}

/** `agent = metadata.agent_timeout ?? timeout_seconds`; the other budgets are the operator's. */
function policyOf(
  policy: SessionPolicy,
  request: { readonly timeout_seconds: number; readonly metadata: Readonly<Record<string, unknown>> },
): SessionPolicy {
  const wanted = request.metadata.agent_timeout
  const seconds = typeof wanted === 'number' ? wanted : request.timeout_seconds
  const agentMs = seconds * 1000
  return { ...policy, budgets: { ...policy.budgets, agentMs, firstCallMs: Math.min(policy.budgets.firstCallMs, agentMs) } }
}

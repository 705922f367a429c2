// One gateway thread put together: arena, CPU pool, model boundary and port, builder, evaluator and the gateway actor.
import { builderActor } from '../actors/builder/actor.ts'
import { evaluatorActor } from '../actors/evaluator/actor.ts'
import { gatewayActor } from '../actors/gateway/actor.ts'
import { openCallReader } from '../actors/gateway/calls.ts'
import type { GatewayCommand, GatewayLimits } from '../actors/gateway/protocol.ts'
import type { LedgerCommand, Recorded } from '../actors/ledger/protocol.ts'
import type { RolloutServerCommand } from '../actors/rollout-server/protocol.ts'
import type { SandboxCommand } from '../actors/sandbox/protocol.ts'
import { sessionActor } from '../actors/session/actor.ts'
import type { SessionPolicy } from '../actors/session/phases.ts'
import type { GatewayId } from '../contract/ids.ts'
import type { ModelRule } from '../contract/model-profile.ts'
import type { RuntimeSpec } from '../contract/task.ts'
import { createEvaluators } from '../evaluators/registry.ts'
import { installedAgent } from '../harness/agent-folder.ts'
import { loadHarnesses } from '../harness/registry.ts'
import type { Address } from '../kernel/address.ts'
import { openCourier } from '../kernel/courier.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Boundary, ReplicaConfig } from '../proxy/boundary.ts'
import type { Transport } from '../proxy/engines/transport.ts'
import { openModelPort } from '../proxy/model-port.ts'
import { openBoundary } from '../proxy/open-boundary.ts'
import type { BoundarySettings } from '../proxy/settings.ts'
import type { CpuPool } from '../tasks/pool.ts'
import { type ArenaStats, openArena } from '../tokens/arena.ts'

/** Plain data: it crosses to the gateway's thread when that boots. */
export type GatewaySetup = {
  readonly gateway: GatewayId
  readonly host: string
  readonly port: number
  readonly model: string
  /** What the operator says of models. */
  readonly models: readonly ModelRule[]
  readonly replicas: readonly ReplicaConfig[]
  /** Whether its model calls are held from the start: its predecessor's were. */
  readonly isPaused?: boolean
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
/** Of the token memory: an agent that changes the head of every prompt must not leave the others without. */
const SESSION_SHARE = 1 / 4

/** Rejects when the model port cannot be bound or a custom module cannot be used. */
export async function openGatewayThread(
  kernel: Kernel,
  setup: GatewaySetup,
  peers: GatewayPeers,
  outside: GatewayOutside,
): Promise<GatewayThread> {
  const courier = openCourier(kernel)
  const harnesses = await loadHarnesses(setup.customs.harnesses)
  const evaluators = createEvaluators(setup.customs.evaluators)
  let gateway: Address<GatewayCommand> | null = null
  let isEngineAvailable = false
  /** What the gateway must know of its thread: a lost word would hold READY, or a session, for ever. */
  function tellGateway(message: GatewayCommand): void {
    if (gateway !== null) courier(gateway, message)
  }
  const arena = openArena({
    sessionShare: SESSION_SHARE,
    ...setup.arena,
    onPressure: (high) => tellGateway({ type: 'arena-pressure', high }),
  })
  const boundary = openBoundary({
    kernel,
    arena,
    replicas: setup.replicas,
    isPaused: setup.isPaused === true,
    model: setup.model,
    models: setup.models,
    settings: setup.boundary,
    log: outside.log,
    onServing(isServing) {
      isEngineAvailable = isServing
      outside.log(isServing ? 'engine-available' : 'no-engine-available', { gateway: setup.gateway })
      tellGateway({ type: 'engine-available', isAvailable: isServing })
    },
    onHeld: (isHeld) => tellGateway({ type: 'calls-held', isHeld }),
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
      courier,
      limits: setup.limits,
      modelPort,
      rolloutServer: peers.rolloutServer,
      ledger: peers.ledger,
      sandboxes: peers.sandboxes,
      teardownMs: setup.policy.budgets.teardownMs,
      arena: () => arena.stats(),
      readCalls: openCallReader(boundary, outside.cpu),
      boundary,
      sessionSpec: (spec, own) => {
        const harness = spec.kind === 'capture' ? null : harnesses.find(spec.request.agent)
        // Checked when the task was submitted, by the same registry.
        if (harness === null && spec.kind === 'agent') throw new Error(`no harness '${spec.request.agent.harness}' on this node`)
        const runtime = spec.request.runtime ?? setup.defaultRuntime
        return sessionActor(
          { ...spec, request: { ...spec.request, runtime } },
          {
            kernel,
            courier,
            node: setup.gateway,
            policy: policyOf(setup.policy, spec.request),
            peers: { ...peers, gateway: own, builder, evaluator },
            boundary,
            modelPort,
            harness,
            installedAgent: (name) => installedAgent(setup.agents.packages, setup.agents.cache, name),
            graderWaitMs,
          },
        )
      },
    }),
  )

  // A replica may have been found well before there was a gateway to hear of it.
  tellGateway({ type: 'engine-available', isAvailable: isEngineAvailable })
  if (setup.isPaused === true) tellGateway({ type: 'calls-held', isHeld: true })
  kernel.onExit((exit) => {
    if (exit.reason !== 'crashed') return
    outside.log('actor-crashed', { actor: exit.name, error: exit.error?.stack ?? String(exit.error) })
    // Without its gateway, builder or evaluator the thread is of no use; its owner starts a fresh one.
    if (!exit.name.startsWith('session/')) outside.failed(exit.name)
    else tellGateway({ type: 'session-crashed', actor: exit.address.actor, error: exit.error?.message ?? 'unknown' })
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

// Which actor lives on which thread: control on the main thread, one thread per gateway, one for the ledger; or all on one.
import type { AskGateway, GatewayCommand, GatewaySnapshot } from './actors/gateway/protocol.ts'
import type { LedgerCommand } from './actors/ledger/protocol.ts'
import type { RolloutServerCommand } from './actors/rollout-server/protocol.ts'
import type { GatewayId } from './contract/ids.ts'
import { type Address, threadId } from './kernel/address.ts'
import type { Random, Scheduler } from './kernel/clock.ts'
import { type Courier, openCourier } from './kernel/courier.ts'
import type { DrainReport } from './kernel/drain.ts'
import type { Kernel } from './kernel/kernel.ts'
import { openKernel } from './kernel/machine.ts'
import { openPairWire, type PairWire } from './kernel/pair-wire.ts'
import { type Supervisor, superviseThread } from './kernel/supervisor.ts'
import { joinKernel, joinThreads, moduleBeside, type Thread } from './kernel/thread.ts'
import { openNodeDrain, type StepBegun, stopSandboxes } from './node-drain.ts'
import { type ControlActors, type ControlOutside, type ControlSetup, openControlActors } from './threads/control.ts'
import type { EngineProcess } from './threads/engine.ts'
import { type GatewayOutside, type GatewayPeers, type GatewaySetup, type GatewayThread, openGatewayThread } from './threads/gateway.ts'
import type { GatewayBoot, GatewayReady } from './threads/gateway-worker.ts'
import { type InferencePauses, openInferencePauses } from './threads/inference-pauses.ts'
import { type LedgerSetup, openLedgerThread } from './threads/ledger.ts'
import { openReplicaSets, type ReplicaSets } from './threads/replica-sets.ts'

export type NodeSetup = {
  readonly control: ControlSetup
  readonly ledger: LedgerSetup
  readonly gateways: readonly GatewaySetup[]
  /** How long a drain waits for running sessions, and then again for the deliveries of their results. */
  readonly drainMs: number
}

export type NodeOutside = ControlOutside & {
  readonly scheduler: Scheduler
  readonly random: Random
  /** The embedded engine, which the node closes last; absent where every gateway names its servers. */
  readonly engine?: EngineProcess
}

/** What an inline node puts in place of sockets and worker threads. */
export type InlineOutside = NodeOutside & {
  readonly gateway: (setup: GatewaySetup) => Omit<GatewayOutside, 'log' | 'failed'>
}

export type PolarNode = ControlActors & {
  readonly kernel: Kernel
  readonly ledger: Address<LedgerCommand>
  /** The model port of each gateway, as bound. */
  readonly modelPorts: ReadonlyMap<GatewayId, number>
  readGateway(gateway: GatewayId): Promise<GatewaySnapshot | null>
  /** `stopped` while the gateway's thread is gone. */
  readonly askGateway: AskGateway
  /** The inference servers of each gateway, changed while the node runs. */
  readonly replicas: ReplicaSets
  /** Whose model calls are held while weights are updated. */
  readonly inference: InferencePauses
  /** Resolves with the reason when the node can no longer do its work: an actor that all need has ended, or no gateway is left. */
  readonly failed: Promise<string>
  /** Numbered: no new task, every session to its end, every result to its trainer. Idempotent. */
  drain(begun?: StepBegun): Promise<DrainReport>
  /** Stops every sandbox, thread and actor, whatever still runs. Idempotent. */
  close(): Promise<void>
  /** Brings about a fault in a gateway's thread; for tests. */
  inject(gateway: GatewayId, fault: string): Promise<void>
}

/** An inline node shows its parts: whoever opened it stands outside of every thread at once. */
export type InlineNode = PolarNode & {
  /** Control, ledger, then the gateways as they were started; lost ones stay listed, closed. */
  readonly kernels: readonly Kernel[]
  readonly gateways: ReadonlyMap<GatewayId, GatewayThread>
}

const CONTROL = threadId('control')
const LEDGER = threadId('ledger')
const READ_DEADLINE_MS = 5_000
const STOP_DEADLINE_MS = 30_000
/** A gateway thread is looked at this often, and killed when it says nothing for so long, far more than the largest body it admits takes to read. */
const WATCH_EVERY_MS = 5_000
const HUNG_AFTER_MS = 15_000
/** Room for the requests of `settings.requestMemory` several times over, as bytes, as values and as what is made of them, and for texts of sessions. */
const GATEWAY_HEAP_MB = 4_096
/** Beside the records, whose bytes are limited. */
const LEDGER_HEAP_MB = 512

/** Real threads. Rejects, with nothing left running, when a thread cannot be started. */
export async function openThreadedNode(setup: NodeSetup, outside: NodeOutside): Promise<PolarNode> {
  const { scheduler } = outside
  const kernel = openKernel({ thread: CONTROL, incarnation: 1, scheduler, random: outside.random, peers: setup.gateways.length + 1 })
  const addresses = new Map<GatewayId, Address<GatewayCommand>>()
  const modelPorts = new Map<GatewayId, number>()
  const failures: string[] = []
  const end = watchControl(kernel)
  void outside.engine?.failed.then(end.fail)
  const courier = openCourier(kernel)
  const gateways: Supervisor<Thread<GatewayBoot, GatewayReady>>[] = []

  let ledger: Address<LedgerCommand> | null = null
  const ledgerSupervisor = superviseThread<LedgerSetup, Address<LedgerCommand>>({
    spec: {
      id: LEDGER,
      url: moduleBeside('./threads/ledger-worker', import.meta.url),
      peers: setup.gateways.length + 1,
      // What it refuses to hold must not be what it cannot hold.
      resourceLimits: { maxOldGenerationSizeMb: LEDGER_HEAP_MB + Math.ceil(setup.ledger.limits.maxBytes / 2 ** 20) },
    },
    scheduler,
    async start(thread) {
      if (!(await joinKernel(kernel, thread))) throw failed(failures, 'the ledger thread took no port')
      const booted = await thread.boot(setup.ledger)
      if (!booted.ok) throw failed(failures, `the ledger thread did not boot: ${booted.message}`)
      ledger = booted.value
    },
    // An in-memory ledger that died took the truth with it: nothing may go on as if it had not.
    restarts: { max: 0, withinMs: 1 },
    onLost(exit) {
      const error = exit.error?.message ?? `exit code ${exit.code}`
      outside.log('ledger-lost', { error })
      end.fail(`the ledger is lost: ${error}`)
    },
  })
  if (!(await ledgerSupervisor.started) || ledger === null) {
    await kernel.close()
    throw new Error(failures.join('; ') || 'the ledger thread did not start')
  }
  const ledgerAddress: Address<LedgerCommand> = ledger
  const control = openControlActors(kernel, setup.control, ledgerAddress, outside)
  const peers: GatewayPeers = { rolloutServer: control.rolloutServer, sandboxes: control.sandboxes, ledger: ledgerAddress }
  const replicas = openReplicaSets(kernel, setup.gateways, (gateway) => addresses.get(gateway))
  const askGateway = openAskGateway(kernel, (gateway) => addresses.get(gateway))
  const inference = openInferencePauses(
    setup.gateways.map(({ gateway }) => gateway),
    askGateway,
  )

  for (const gatewaySetup of setup.gateways) {
    const id = gatewaySetup.gateway
    gateways.push(
      superviseThread<GatewayBoot, GatewayReady>({
        spec: {
          id: threadId(`gateway/${id}`),
          url: moduleBeside('./threads/gateway-worker', import.meta.url),
          peers: 2,
          resourceLimits: { maxOldGenerationSizeMb: GATEWAY_HEAP_MB },
          deadlinesMs: { drain: setup.drainMs + STOP_DEADLINE_MS, stats: HUNG_AFTER_MS },
        },
        scheduler,
        watch: { everyMs: WATCH_EVERY_MS },
        async start(thread: Thread<GatewayBoot, GatewayReady>) {
          const isJoined = (await joinKernel(kernel, thread)) && (await joinThreads(thread, ledgerSupervisor.member))
          if (!isJoined) throw failed(failures, `the thread of gateway ${id} took no port`)
          const own = { ...gatewaySetup, replicas: replicas.of(id), isPaused: inference.holds(id) }
          const booted = await thread.boot({ setup: own, peers, drainMs: setup.drainMs })
          if (!booted.ok) throw failed(failures, `gateway ${id} did not boot: ${booted.message}`)
          addresses.set(id, booted.value.address)
          if (own.isPaused) inference.started(id)
          modelPorts.set(id, booted.value.modelPort)
          announce(kernel, courier, control, gatewaySetup, booted.value)
        },
        onLost(exit) {
          outside.log('gateway-lost', { gateway: id, error: exit.error?.message ?? `exit code ${exit.code}` })
          addresses.delete(id)
          courier(control.sandboxes, { type: 'gateway-lost', gateway: id })
          courier(control.rolloutServer, { type: 'gateway-lost', gateway: id })
        },
        onPhase() {
          if (gateways.length > 0 && gateways.every((gateway) => gateway.phase === 'failed')) end.fail('no gateway is left')
        },
      }),
    )
  }
  const started = await Promise.all(gateways.map((gateway) => gateway.started))

  const drain = openNodeDrain({
    ...control,
    kernel,
    engine: outside.engine ?? null,
    waitMs: setup.drainMs,
    gateways: setup.gateways.map(({ gateway: id }, index) => ({
      gateway: id,
      name: `gateway ${id}`,
      deadlineMs: setup.drainMs + STOP_DEADLINE_MS,
      async run() {
        const answer = await gateways[index]?.member.drain()
        if (answer === undefined) throw new Error('the gateway did not start')
        if (!answer.ok) throw new Error(answer.message)
        const behind = answer.value.steps.find((step) => !step.ok)
        if (behind !== undefined) throw new Error(behind.error ?? 'not drained')
      },
    })),
  })
  let closing: Promise<void> | null = null
  const node: PolarNode = {
    ...control,
    kernel,
    ledger: ledgerAddress,
    modelPorts,
    failed: end.failed,
    readGateway: (gateway) => readGateway(askGateway, gateway),
    askGateway,
    replicas,
    inference,
    drain: (begun) => drain.run(begun),
    close() {
      closing ??= (async () => {
        // Sessions first: one that saw its sandbox go would take that for its agent's end. Whoever wants them to end by themselves drains.
        await Promise.all(gateways.map((gateway) => gateway.abandon()))
        await abandonSandboxes(kernel, control, outside)
        await ledgerSupervisor.close()
        await kernel.close()
        await outside.cpu.close()
        await outside.transport.close()
        await outside.engine?.close()
      })()
      return closing
    },
    async inject(gateway, fault) {
      const index = setup.gateways.findIndex((each) => each.gateway === gateway)
      await gateways[index]?.member.inject(fault)
    },
  }
  if (started.includes(false)) {
    await node.close()
    throw new Error(failures.join('; ') || 'a gateway thread did not start')
  }
  return node
}

/** Every actor on the calling thread, joined by the same links: for tests, debugging and as a baseline. */
export async function openInlineNode(setup: NodeSetup, outside: InlineOutside): Promise<InlineNode> {
  const { scheduler, random } = outside
  const kernelOf = (thread: string, peers: number, incarnation = 1): Kernel =>
    openKernel({
      thread: threadId(thread),
      incarnation,
      scheduler,
      random,
      peers,
      report: (actor, error) => outside.log('actor-threw', { thread, actor, error: error.stack ?? error.message }),
    })
  const kernel = kernelOf('control', setup.gateways.length + 1)
  const end = watchControl(kernel)
  void outside.engine?.failed.then(end.fail)
  const courier = openCourier(kernel)
  const ledgerKernel = kernelOf('ledger', setup.gateways.length + 1)
  connect(scheduler, kernel, ledgerKernel)
  const ledger = openLedgerThread(ledgerKernel, setup.ledger)
  const control = openControlActors(kernel, setup.control, ledger, outside)
  const peers: GatewayPeers = { rolloutServer: control.rolloutServer, sandboxes: control.sandboxes, ledger }
  const threads = new Map<GatewayId, GatewayThread>()
  const replicas = openReplicaSets(kernel, setup.gateways, (gateway) => threads.get(gateway)?.address)
  const askGateway = openAskGateway(kernel, (gateway) => threads.get(gateway)?.address)
  const inference = openInferencePauses(
    setup.gateways.map(({ gateway }) => gateway),
    askGateway,
  )
  const kernels: Kernel[] = [kernel, ledgerKernel]
  let closing: Promise<void> | null = null
  /** Ends a gateway as if its thread had died: nothing that was under way arrives. */
  const deaths = new Map<GatewayId, () => Promise<void>>()

  async function begin(gatewaySetup: GatewaySetup, incarnation: number): Promise<void> {
    const id = gatewaySetup.gateway
    const own = kernelOf(`gateway/${id}`, 2, incarnation)
    kernels.push(own)
    const wires = [connect(scheduler, kernel, own), connect(scheduler, ledgerKernel, own)]
    const isPaused = inference.holds(id)
    const thread = await openGatewayThread(own, { ...gatewaySetup, replicas: replicas.of(id), isPaused }, peers, {
      ...outside.gateway(gatewaySetup),
      log: outside.log,
      failed(actor) {
        outside.log('gateway-failed', { gateway: id, actor })
        end.fail(`${actor} of gateway ${id} has failed`)
      },
    })
    threads.set(id, thread)
    if (isPaused) inference.started(id)
    announce(kernel, courier, control, gatewaySetup, thread)
    deaths.set(id, async () => {
      for (const wire of wires) wire.cut()
      await thread.close()
      if (closing !== null) return
      courier(control.sandboxes, { type: 'gateway-lost', gateway: id })
      courier(control.rolloutServer, { type: 'gateway-lost', gateway: id })
      await begin(gatewaySetup, incarnation + 1)
    })
  }
  for (const gatewaySetup of setup.gateways) await begin(gatewaySetup, 1)

  const drain = openNodeDrain({
    ...control,
    kernel,
    engine: outside.engine ?? null,
    waitMs: setup.drainMs,
    gateways: setup.gateways.map(({ gateway: id }) => ({
      gateway: id,
      name: `gateway ${id}`,
      deadlineMs: setup.drainMs,
      async run() {
        const thread = threads.get(id)
        if (thread === undefined) throw new Error('the gateway did not start')
        const answer = await kernel.ask<GatewayCommand, void>(thread.address, (ask) => ({ type: 'drain', ask }), setup.drainMs)
        if (!answer.ok) throw new Error(`the gateway did not drain: ${answer.error}`)
      },
    })),
  })
  return {
    ...control,
    kernel,
    kernels,
    failed: end.failed,
    gateways: threads,
    ledger,
    modelPorts: new Map([...threads].map(([id, thread]) => [id, thread.modelPort])),
    readGateway: (gateway) => readGateway(askGateway, gateway),
    askGateway,
    replicas,
    inference,
    drain: (begun) => drain.run(begun),
    close() {
      closing ??= (async () => {
        for (const thread of threads.values()) await thread.close()
        await abandonSandboxes(kernel, control, outside)
        await ledgerKernel.close()
        await kernel.close()
        await outside.cpu.close()
        await outside.transport.close()
        await outside.engine?.close()
      })()
      return closing
    },
    async inject(gateway, fault) {
      if (fault !== 'exit') throw new Error(`an inline gateway has no fault '${fault}'; it has: exit`)
      await deaths.get(gateway)?.()
    },
  }
}

function connect(scheduler: Scheduler, left: Kernel, right: Kernel): PairWire {
  const wire = openPairWire(scheduler)
  left.connect(right.thread, wire.left)
  right.connect(left.thread, wire.right)
  return wire
}

function announce(
  kernel: Kernel,
  courier: Courier,
  control: ControlActors,
  setup: GatewaySetup,
  ready: { readonly address: Address<GatewayCommand>; readonly modelPort: number },
): void {
  const started: RolloutServerCommand = {
    type: 'gateway-started',
    gateway: setup.gateway,
    address: ready.address,
    url: `http://${setup.host}:${ready.modelPort}`,
    limits: setup.limits,
  }
  // Only then: demand that came before the server knew the gateway would be dropped, and with it every slot of READY.
  courier(control.rolloutServer, started, () => void kernel.tell(ready.address, { type: 'announce-demand' }))
}

/** What cannot be stopped must not keep the rest from closing. */
async function abandonSandboxes(kernel: Kernel, control: ControlActors, { log }: NodeOutside): Promise<void> {
  await stopSandboxes(kernel, control.sandboxes).catch((error: unknown) => log('sandboxes-left', { error: String(error) }))
}

function openAskGateway(kernel: Kernel, addressOf: (gateway: GatewayId) => Address<GatewayCommand> | undefined): AskGateway {
  return async (gateway, make, deadlineMs = READ_DEADLINE_MS) => {
    const address = addressOf(gateway)
    return address === undefined ? { ok: false, error: 'stopped' } : kernel.ask(address, make, deadlineMs)
  }
}

async function readGateway(askGateway: AskGateway, gateway: GatewayId): Promise<GatewaySnapshot | null> {
  const answer = await askGateway<GatewaySnapshot>(gateway, (ask) => ({ type: 'read-gateway', ask }))
  return answer.ok ? answer.value : null
}

/** The control thread's actors are permanent: one that ended cannot be replaced without what it knew. */
function watchControl(kernel: Kernel): { readonly failed: Promise<string>; fail(reason: string): void } {
  const { promise, resolve } = Promise.withResolvers<string>()
  kernel.onExit((exit) => {
    if (exit.reason === 'crashed') resolve(`${exit.name} has failed: ${exit.error?.message ?? 'unknown'}`)
  })
  return { failed: promise, fail: resolve }
}

function failed(failures: string[], problem: string): Error {
  failures.push(problem)
  return new Error(problem)
}

// What becomes of a session whose actor threw.
import { afterEach, expect, it } from 'vitest'
import { gatewayActor } from '../../src/actors/gateway/actor.ts'
import type { GatewayCommand } from '../../src/actors/gateway/protocol.ts'
import { memoryLedger } from '../../src/actors/ledger/actor.ts'
import type { LedgerCommand, Recorded } from '../../src/actors/ledger/protocol.ts'
import type { RolloutServerCommand } from '../../src/actors/rollout-server/protocol.ts'
import type { SandboxCommand } from '../../src/actors/sandbox/protocol.ts'
import type { SessionMessage } from '../../src/actors/session/protocol.ts'
import { gatewayId, taskId } from '../../src/contract/ids.ts'
import type { SessionSummary } from '../../src/contract/result.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import type { Ask } from '../../src/kernel/ask.ts'
import { openCourier } from '../../src/kernel/courier.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'
import { boundaryWithoutServers, gatewayLimits, sessionSpec, taskRequest } from '../lib/specs.ts'

const kernels: Kernel[] = []

afterEach(async () => {
  for (const kernel of kernels.splice(0)) await kernel.close()
})

const spec = sessionSpec('s')

it('is attempted again on the same gateway, once nothing of the failed attempt is left', async () => {
  const node = await crashingNode()
  const begun: number[] = []
  node.onBeginInit = (attempt) => {
    begun.push(attempt)
    if (attempt === 1) throw new Error('broken')
  }
  // As the rollout server does it: the next attempt is sent at once.
  node.onFinished = () => node.kernel.tell(node.gateway, { type: 'open-session', spec: { ...spec, attempt: 2 } })
  node.kernel.tell(node.gateway, { type: 'open-session', spec })
  await node.world.advance(10_000)
  expect(node.finished).toMatchObject([{ attempt: 1, summary: { outcome: 'interrupted', reward: null } }])
  expect(node.order).toEqual(['stopped 1', 'finished 1'])
  expect(begun).toEqual([1, 2])
  expect((await node.read()).sessions).toMatchObject([{ attempt: 2 }])
})

it('reports the result that it had recorded before it failed, and frees its place', async () => {
  const node = await crashingNode()
  const own: SessionSummary = {
    outcome: 'completed',
    outcomeClass: 'policy',
    status: 'COMPLETED',
    reward: 1,
    error: null,
    calls: 2,
    model: null,
    traces: 1,
    capturedTokens: 4,
    trainedTokens: 4,
    usable: true,
    retryable: false,
    timing: {},
  }
  node.onBeginInit = () => {
    throw new Error('broken')
  }
  await node.record(own)
  node.kernel.tell(node.gateway, { type: 'open-session', spec })
  await node.world.advance(10_000)
  expect(node.finished).toMatchObject([{ attempt: 1, summary: own }])
  expect((await node.read()).sessions).toEqual([])
})

type CrashingNode = {
  readonly world: World
  readonly kernel: Kernel
  readonly gateway: Address<GatewayCommand>
  readonly finished: Extract<RolloutServerCommand, { type: 'session-finished' }>[]
  readonly order: string[]
  onBeginInit: (attempt: number) => void
  onFinished: () => void
  read(): Promise<{ readonly sessions: readonly unknown[] }>
  record(summary: SessionSummary): Promise<void>
}

async function crashingNode(): Promise<CrashingNode> {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('one'), incarnation: 1, scheduler: world, random: world.random, peers: 0, report() {} })
  kernels.push(kernel)
  const order: string[] = []
  const finished: Extract<RolloutServerCommand, { type: 'session-finished' }>[] = []
  const rolloutServer = kernel.spawn<RolloutServerCommand>({
    name: 'rollout-server',
    capacity: 64,
    create: () => ({
      receive(message) {
        if (message.type !== 'session-finished') return
        order.push(`finished ${message.attempt}`)
        finished.push(message)
        node.onFinished()
      },
    }),
  })
  const sandboxes = kernel.spawn<SandboxCommand>({
    name: 'sandbox-host',
    capacity: 64,
    create: (context) => ({
      receive(message) {
        if (message.type !== 'stop-attempt') return
        order.push(`stopped ${message.attempt}`)
        context.reply(message.ask, undefined)
      },
    }),
  })
  const ledger = kernel.spawn<LedgerCommand>(memoryLedger({ maxKeptTasks: 10, maxBytes: 1_000_000, maxCallLogs: 10 }))
  const { session, task } = spec
  await ask<Recorded>((asked) => ({ type: 'record-task', key: taskId('task-1'), task: taskRequest(), sessions: [session], ask: asked }))
  const gateway = kernel.spawn(
    gatewayActor({
      gateway: gatewayId('g'),
      courier: openCourier(kernel),
      limits: gatewayLimits(),
      modelPort: 1,
      rolloutServer,
      ledger,
      sandboxes,
      teardownMs: 100,
      sessionSpec: ({ attempt }) => ({
        name: `session/${attempt}`,
        capacity: 8,
        create: () => ({
          receive(message: SessionMessage) {
            if (message.type === 'begin-init') node.onBeginInit(attempt)
          },
        }),
      }),
      arena: () => ({ allocatedBlocks: 0, freeBlocks: 0, leasedBlocks: 0, pressure: false }),
      readCalls: async () => ({ type: 'none' }),
      boundary: boundaryWithoutServers,
    }),
  )
  kernel.onExit(({ reason, address, error }) => {
    if (reason === 'crashed') kernel.tell(gateway, { type: 'session-crashed', actor: address.actor, error: String(error) })
  })
  const node: CrashingNode = {
    world,
    kernel,
    gateway,
    finished,
    order,
    onBeginInit() {},
    onFinished() {},
    async read() {
      const reading = kernel.ask<GatewayCommand, { readonly sessions: readonly unknown[] }>(
        gateway,
        (asked) => ({ type: 'read-gateway', ask: asked }),
        1_000,
      )
      await world.run()
      const answer = await reading
      if (!answer.ok) throw new Error(answer.error)
      return answer.value
    },
    async record(summary) {
      const payload = new ArrayBuffer(8)
      await ask<Recorded>((asked) => ({
        type: 'record-result',
        task,
        session,
        attempt: 1,
        summary,
        payload,
        completions: null,
        ask: asked,
      }))
    },
  }
  return node

  async function ask<R>(make: (asked: Ask<R>) => LedgerCommand): Promise<void> {
    const asking = kernel.ask<LedgerCommand, R>(ledger, make, 1_000)
    await world.run()
    expect(await asking).toMatchObject({ ok: true, value: { type: 'recorded' } })
  }
}

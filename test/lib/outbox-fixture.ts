// The outbox in virtual time, with a trainer, a ledger and a rollout server that the test plays.
import { afterEach, expect } from 'vitest'
import { callbackOutbox, type RenderDelivery } from '../../src/actors/callback/actor.ts'
import type { CallbackCommand, DeliveryView, RedriveReply, Undelivered } from '../../src/actors/callback/protocol.ts'
import type { CallbackMessage } from '../../src/actors/callback/state.ts'
import type { PostReply } from '../../src/actors/callback/transport.ts'
import type { LedgerCommand, Recorded } from '../../src/actors/ledger/protocol.ts'
import type { RolloutServerCommand } from '../../src/actors/rollout-server/protocol.ts'
import { knownSessionId, taskId } from '../../src/contract/ids.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import type { Answer as AskAnswer } from '../../src/kernel/ask.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'

const LIMITS = {
  perTarget: 2,
  maxAttempts: 4,
  backoffBaseMs: 1_000,
  backoffCapMs: 60_000,
  maxRetryAfterMs: 300_000,
  deadlineMs: 30_000,
  maxKept: 100,
}

type Answer = number | 'refused' | 'stalls' | { readonly status: number; readonly retryAfter: string }
type Post = { readonly url: string; readonly key: string; readonly tries: string; readonly body: string; readonly atMs: number }

const kernels: Kernel[] = []
afterEach(async () => {
  for (const kernel of kernels.splice(0)) {
    expect(kernel.stats().pendingTimers, 'no timer is left at rest').toBe(0)
    await kernel.close()
  }
})

export function openOutbox(
  options: {
    answers?: readonly Answer[]
    render?: RenderDelivery
    recorded?: (command: Extract<LedgerCommand, { type: 'record-delivery' }>) => Recorded
    limits?: Partial<typeof LIMITS>
    isServerGone?: () => boolean
    seed?: number
  } = {},
) {
  const world = openWorld({ seed: options.seed ?? 1 })
  const kernel = openKernel({ thread: threadId('control'), incarnation: 1, scheduler: world, random: world.random, peers: 1 })
  kernels.push(kernel)
  const posts: Post[] = []
  const records: string[] = []
  const told: string[] = []
  const reports: string[] = []
  const answers = [...(options.answers ?? [])]
  let underWay = 0
  let mostUnderWay = 0

  const ledger = kernel.spawn<LedgerCommand>({
    name: 'ledger',
    capacity: 64,
    create: (context) => ({
      receive(command) {
        if (command.type !== 'record-delivery') throw new Error(`unexpected ${command.type}`)
        records.push(`${command.task} ${command.state}: ${command.detail}`)
        context.reply(command.ask, options.recorded?.(command) ?? { type: 'recorded' })
      },
    }),
  })
  const server: Address<RolloutServerCommand> = kernel.spawn<RolloutServerCommand>({
    name: 'rollout-server',
    capacity: 64,
    create: () => ({
      receive(command) {
        if (command.type === 'delivery-reopened') told.push(`${command.task} pending`)
        else if (command.type === 'task-delivered') told.push(`${command.task} ${command.state}`)
        else throw new Error(`unexpected ${command.type}`)
      },
    }),
  })
  const transport = {
    async post(url: string, headers: Readonly<Record<string, string>>, body: Uint8Array, signal: AbortSignal): Promise<PostReply> {
      const key = headers['idempotency-key'] ?? ''
      const tries = headers['x-polar-delivery-attempt'] ?? ''
      posts.push({ url, key, tries, body: Buffer.from(body).toString(), atMs: world.clock.nowMs() })
      underWay += 1
      mostUnderWay = Math.max(mostUnderWay, underWay)
      // One turn of the world passes while the request is on its way.
      await new Promise<void>((resolve) => void world.after(1, resolve))
      underWay -= 1
      const answer = answers.shift() ?? 200
      if (answer === 'refused') throw new Error('connect ECONNREFUSED')
      if (answer === 'stalls') return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      return typeof answer === 'number' ? { status: answer, retryAfter: null } : answer
    },
    close: async () => undefined,
  }
  const outbox = kernel.spawn<CallbackMessage>(
    callbackOutbox({
      limits: { ...LIMITS, ...options.limits },
      transport,
      render: options.render ?? (async ({ task, status, sessions }) => Buffer.from(JSON.stringify({ task, status, sessions }))),
      ledger,
      report: ({ task, origin, detail }) => reports.push(`${task} to ${origin}: ${detail}`),
      rolloutServer: () => (options.isServerGone?.() === true ? { ...server, actor: 9_999 } : server),
    }),
  )
  const deliver = (task: string, overrides: Partial<Extract<CallbackCommand, { type: 'deliver' }>> = {}) =>
    kernel.tell(outbox, {
      type: 'deliver',
      task: taskId(task),
      url: 'http://127.0.0.1:9000/cb',
      shape: 'task',
      status: 'completed',
      sessions: [knownSessionId('sk-polar-1')],
      attempts: [1],
      ...overrides,
    })
  const undelivered = () => kernel.ask<CallbackMessage, readonly Undelivered[]>(outbox, (ask) => ({ type: 'list-undelivered', ask }), 1_000)
  /** Asks, lets the world run for as long as an answer may take, and gives it. */
  async function answerTo<R>(asked: Promise<AskAnswer<R>>): Promise<R> {
    await world.advance(2)
    const answer = await asked
    if (!answer.ok) throw new Error(answer.error)
    return answer.value
  }
  const list = (state: DeliveryView['state'] | null = null, limit = 100) =>
    answerTo(kernel.ask<CallbackMessage, readonly DeliveryView[]>(outbox, (ask) => ({ type: 'list-deliveries', state, limit, ask }), 1_000))
  /** Null: all that is dead or under way. */
  const redrive = (
    tasks: readonly string[] | null,
    url: string | null = null,
    states: readonly DeliveryView['state'][] = ['pending', 'dead'],
  ) =>
    kernel.ask<CallbackMessage, RedriveReply>(
      outbox,
      (ask) => ({ type: 'redrive', tasks: tasks?.map(taskId) ?? null, states, url, ask }),
      60_000,
    )
  return { world, posts, records, told, reports, deliver, undelivered, list, redrive, answerTo, mostUnderWay: () => mostUnderWay }
}

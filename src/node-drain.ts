// How a node comes to rest, in numbered steps: nothing new, what runs to its end, every result to its trainer, no sandbox and no engine left.
import type { CallbackCommand, Undelivered } from './actors/callback/protocol.ts'
import type { RolloutServerCommand, SessionView } from './actors/rollout-server/protocol.ts'
import type { SandboxCommand } from './actors/sandbox/protocol.ts'
import type { Address } from './kernel/address.ts'
import type { Answer, Ask } from './kernel/ask.ts'
import { type DrainReport, type DrainStep, openDrain } from './kernel/drain.ts'
import type { Kernel } from './kernel/kernel.ts'

export type NodeDrain = {
  /** Idempotent: who comes later hears of the steps that are left, and gets the same report. */
  run(begun?: StepBegun): Promise<DrainReport>
}

/** Hears of each step when it begins; and of one that takes long a second time, with what it waits for. */
export type StepBegun = (step: number, name: string, waitsFor: string | null) => void

export type DrainedNode = {
  readonly kernel: Kernel
  readonly rolloutServer: Address<RolloutServerCommand>
  readonly callback: Address<CallbackCommand>
  readonly sandboxes: Address<SandboxCommand>
  /** One step per gateway: no new session, every session it holds to its end. */
  readonly gateways: readonly (DrainStep & { readonly gateway: SessionView['gateway'] })[]
  /** The embedded engine, which all before it may need; null: there is none. */
  readonly engine: { drain(): Promise<void> } | null
  /** How long running sessions get, and then again their deliveries. */
  readonly waitMs: number
}

type WaitingStep = DrainStep & {
  /** Null when there is nothing to say; never rejects. */
  readonly waitsFor?: () => Promise<string | null>
}

const ANSWER_MS = 5_000
const STOP_MS = 30_000
const ENGINE_MS = 40_000
/** The ask's own deadline says more than the step's. */
const SLACK_MS = 5_000
const MAX_NAMED = 10
const MAX_COUNTED = 10_000
/** A trainer that takes its results at once, or a session that ends by then, is nobody's concern. */
const PATIENCE_MS = 1_000

/** Admission first, so that every later step only ever has less to do. */
export function openNodeDrain(node: DrainedNode): NodeDrain {
  const { kernel, waitMs, engine } = node
  const askServer = <R>(make: (ask: Ask<R>) => RolloutServerCommand, deadlineMs: number): Promise<Answer<R>> =>
    kernel.ask<RolloutServerCommand, R>(node.rolloutServer, make, deadlineMs)
  const listUndelivered = (): Promise<Answer<readonly Undelivered[]>> =>
    kernel.ask<CallbackCommand, readonly Undelivered[]>(node.callback, (ask) => ({ type: 'list-undelivered', ask }), ANSWER_MS)
  const listRunning = (gateway: SessionView['gateway']): Promise<Answer<readonly SessionView[]>> =>
    askServer((ask) => ({ type: 'list-sessions', gateway, task: null, status: 'active', limit: MAX_COUNTED, ask }), ANSWER_MS)
  let undrained = node.gateways.length

  const steps: readonly WaitingStep[] = [
    {
      name: 'admission',
      deadlineMs: ANSWER_MS + SLACK_MS,
      async run() {
        answered('the rollout server', await askServer<void>((ask) => ({ type: 'stop-admission', ask }), ANSWER_MS))
      },
    },
    ...node.gateways.map((gateway) => ({
      ...gateway,
      async run() {
        await gateway.run()
        undrained -= 1
      },
      async waitsFor() {
        const running = await listRunning(gateway.gateway)
        return running.ok && running.value.length > 0 ? `${describeRunning(running.value)}; cancelled after ${waitMs / 1_000} s` : null
      },
    })),
    {
      name: 'sessions',
      deadlineMs: ANSWER_MS + SLACK_MS,
      async run() {
        // A drained gateway's last facts may still be on their way: only where one is not drained is there anything to stop.
        if (undrained === 0) return
        const stopped = answered('the rollout server', await askServer<number>((ask) => ({ type: 'stop-sessions', ask }), ANSWER_MS))
        if (stopped > 0) throw new Error(`sessions that had not ended and were cancelled: ${stopped}`)
      },
    },
    {
      name: 'callback',
      deadlineMs: waitMs + ANSWER_MS + SLACK_MS,
      async run() {
        const delivered = await askServer<void>((ask) => ({ type: 'await-deliveries', ask }), waitMs)
        if (delivered.ok) return
        if (delivered.error !== 'deadline') throw new Error(`the rollout server did not answer: ${delivered.error}`)
        const undelivered = answered('the outbox', await listUndelivered())
        throw new Error(undelivered.length === 0 ? 'not every task has ended' : describeUndelivered(undelivered))
      },
      async waitsFor() {
        const undelivered = await listUndelivered()
        if (!undelivered.ok || undelivered.value.length === 0) return null
        return `${countByOrigin(undelivered.value)}; given up after ${waitMs / 1_000} s`
      },
    },
    {
      name: 'sandboxes',
      deadlineMs: STOP_MS + SLACK_MS,
      run: () => stopSandboxes(kernel, node.sandboxes),
    },
    ...(engine === null ? [] : [{ name: 'engine', deadlineMs: ENGINE_MS, run: () => engine.drain() }]),
  ]
  const listeners = new Set<StepBegun>()
  const tell: StepBegun = (...news) => {
    for (const begun of listeners) begun(...news)
  }
  async function tellWait(index: number, { name, waitsFor }: WaitingStep, done: AbortSignal): Promise<void> {
    const what = await waitsFor?.()
    if (what != null && !done.aborted) tell(index + 1, name, what)
  }
  const drain = openDrain(
    kernel.scheduler,
    steps.map((step, index) => ({
      ...step,
      async run() {
        tell(index + 1, step.name, null)
        const done = new AbortController()
        const patience = kernel.scheduler.after(PATIENCE_MS, () => void tellWait(index, step, done.signal))
        try {
          await step.run()
        } finally {
          done.abort()
          patience.cancel()
        }
      },
    })),
  )
  return {
    run(begun) {
      if (begun !== undefined) listeners.add(begun)
      return drain.run()
    },
  }
}

export async function stopSandboxes(kernel: Kernel, sandboxes: Address<SandboxCommand>): Promise<void> {
  const answer = await kernel.ask<SandboxCommand, void>(sandboxes, (ask) => ({ type: 'stop-all', ask }), STOP_MS)
  if (!answer.ok && answer.error !== 'stopped') throw new Error(`sandboxes did not stop: ${answer.error}`)
}

function answered<T>(who: string, answer: Answer<T>): T {
  if (!answer.ok) throw new Error(`${who} did not answer: ${answer.error}`)
  return answer.value
}

/** Captures by name: nothing here ends one but its agent's owner. */
function describeRunning(running: readonly SessionView[]): string {
  const captures = running.filter(({ kind }) => kind === 'capture').map(({ session }) => session)
  const agents = running.length - captures.length
  const others = captures.length > MAX_NAMED ? [`${captures.length - MAX_NAMED} more`] : []
  return [
    ...(agents === 0 ? [] : [`${agents} ${agents === 1 ? 'session' : 'sessions'}`]),
    ...(captures.length === 0 ? [] : [`open captures ${[...captures.slice(0, MAX_NAMED), ...others].join(', ')}`]),
  ].join(' and ')
}

function countByOrigin(undelivered: readonly Undelivered[]): string {
  const byOrigin = Map.groupBy(undelivered, ({ origin }) => origin)
  const named = [...byOrigin].slice(0, MAX_NAMED).map(([origin, results]) => {
    const trouble = results.findLast((result) => result.trouble !== null)?.trouble ?? 'no answer yet'
    return `${results.length} ${results.length === 1 ? 'result' : 'results'} for ${origin} (${trouble})`
  })
  const others = byOrigin.size > MAX_NAMED ? [`${byOrigin.size - MAX_NAMED} more receivers`] : []
  return [...named, ...others].join(', ')
}

function describeUndelivered(undelivered: readonly Undelivered[]): string {
  const named = undelivered
    .slice(0, MAX_NAMED)
    .map(({ task, origin, tries, trouble }) => `${task} to ${origin} (${tries} tries; ${trouble ?? 'no answer yet'})`)
  const others = undelivered.length > MAX_NAMED ? [`${undelivered.length - MAX_NAMED} more`] : []
  return `not delivered: ${[...named, ...others].join(', ')}`
}

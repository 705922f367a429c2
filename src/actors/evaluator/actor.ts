// Gives each evaluation its sandboxes and its deadline. An evaluator that throws or never ends is an answer, never a reward.
import type { SandboxId } from '../../contract/ids.ts'
import type { EvaluatorSandbox } from '../../evaluators/evaluator.ts'
import type { Evaluators } from '../../evaluators/registry.ts'
import type { ActorContext, ActorSpec, Receiver } from '../../kernel/actor.ts'
import type { Address } from '../../kernel/address.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { hostAnswer } from '../../runtime/host-answer.ts'
import type { ExecResult, Fallible } from '../../runtime/runtime.ts'
import type { SandboxCommand, StartedSandbox } from '../sandbox/protocol.ts'
import type { Evaluate, EvaluatorReply } from './protocol.ts'
import { type EvaluatorMessage, openEvaluator, step } from './state.ts'

export type EvaluatorOptions = {
  readonly kernel: Kernel
  readonly sandboxes: Address<SandboxCommand>
  readonly evaluators: Evaluators
  /** Grader sandboxes at once: an evaluation holds one place from its start to its end. */
  readonly maxRunning: number
  readonly teardownMs: number
}

/** Its line is all it remembers, and whoever stood in it is told `stopped`. */
const RESTARTS = { max: 5, withinMs: 60_000 }
const STOP_AGAIN_MS = 1_000

export function evaluatorActor(options: EvaluatorOptions): ActorSpec<EvaluatorMessage> {
  return { name: 'evaluator', capacity: 1024, restarts: RESTARTS, create: (context) => createReceiver(context, options) }
}

function createReceiver(context: ActorContext<EvaluatorMessage>, options: EvaluatorOptions): Receiver<EvaluatorMessage> {
  let state = openEvaluator(options.maxRunning)
  const running = new Map<string, AbortController>()
  const nameOf = ({ session, attempt }: Pick<Evaluate, 'session' | 'attempt'>): string => `${session}.${attempt}`
  return {
    receive(message): void {
      const [next, start] = step(state, message)
      state = next
      if (message.type === 'withdraw-evaluation') running.get(nameOf(message))?.abort()
      if (start === null) return
      const withdrawn = new AbortController()
      running.set(nameOf(start), withdrawn)
      context.pipe(
        async () => {
          context.reply(start.ask, await evaluateWithin(start, options, withdrawn.signal))
          await stopGraders(start, options)
        },
        (outcome) => {
          running.delete(nameOf(start))
          if (!outcome.ok) context.reply(start.ask, { type: 'failed', error: outcome.error.message, log: outcome.error.stack ?? '' })
          return { type: 'evaluation-settled' }
        },
      )
    },
  }
}

async function evaluateWithin(command: Evaluate, options: EvaluatorOptions, withdrawn: AbortSignal): Promise<EvaluatorReply> {
  const { kernel } = options
  const deadlineMs = kernel.clock.nowMs() + command.timeoutMs
  let isOver = false
  const host = hostOf(options, deadlineMs, () => isOver || withdrawn.aborted)

  async function freshSandbox(): Promise<Fallible<EvaluatorSandbox>> {
    const started = await host<StartedSandbox>((ask) => ({
      type: 'start-sandbox',
      gateway: command.gateway,
      session: command.session,
      attempt: command.attempt,
      purpose: 'grader',
      spec: command.runtime,
      env: command.spec.env,
      ask,
    }))
    if (!started.ok) return started
    const { sandbox } = started.value
    for (const [index, action] of (command.runtime.eval_prepare ?? command.runtime.prepare).entries()) {
      const timeoutMs = Math.max(1, deadlineMs - kernel.clock.nowMs())
      const prepared = await host<ExecResult | null>((ask) => ({ type: 'prepare-sandbox', sandbox, action, timeoutMs, ask }))
      if (!prepared.ok) return prepared
      const exit = prepared.value?.exit
      if (exit !== undefined && !(exit.type === 'exited' && exit.code === 0)) {
        const detail = `prepare action ${index} failed in the grader's sandbox: ${prepared.value?.stderr.slice(-400) ?? ''}`
        return { ok: false, error: { code: 'start-failed', detail } }
      }
    }
    return { ok: true, value: sandboxView(host, sandbox, command.spec.env) }
  }

  const timedOut = Promise.withResolvers<EvaluatorReply>()
  const timer = kernel.scheduler.after(command.timeoutMs, () => timedOut.resolve({ type: 'timed-out', timeoutMs: command.timeoutMs }))
  try {
    return await Promise.race([
      timedOut.promise,
      options.evaluators.evaluate({
        spec: command.spec,
        sessionId: command.session,
        taskId: command.task,
        outcome: command.outcome,
        exitCode: command.exitCode,
        traceCount: command.traceCount,
        agentSandbox: sandboxView(host, command.agentSandbox, command.spec.env),
        freshSandbox,
        timeoutMs: command.timeoutMs,
      }),
    ])
  } finally {
    timer.cancel()
    isOver = true
  }
}

/** Returns when none is left, not even one that was still starting: until then the evaluation holds its place. */
async function stopGraders({ session, attempt }: Evaluate, { kernel, sandboxes, teardownMs }: EvaluatorOptions): Promise<void> {
  for (;;) {
    const stopped = await kernel.ask<SandboxCommand, void>(
      sandboxes,
      (ask) => ({ type: 'stop-attempt', session, attempt, purpose: 'grader', ask }),
      teardownMs,
    )
    if (stopped.ok || stopped.error === 'stopped') return
    // A refused question comes back at once.
    await new Promise<void>((resolve) => kernel.scheduler.after(STOP_AGAIN_MS, resolve))
  }
}

type Host = <R>(make: (ask: Ask<Fallible<R>>) => SandboxCommand) => Promise<Fallible<R>>

/** Every question to the sandbox host ends with the evaluation's own deadline; none is asked for an evaluation that is over or withdrawn. */
function hostOf(options: EvaluatorOptions, deadlineMs: number, isOver: () => boolean): Host {
  return async (make) => {
    if (isOver()) return { ok: false, error: { code: 'timeout', detail: 'the evaluation is over' } }
    const leftMs = Math.max(1, deadlineMs - options.kernel.clock.nowMs())
    return hostAnswer(await options.kernel.ask(options.sandboxes, make, leftMs))
  }
}

function sandboxView(host: Host, sandbox: SandboxId, env: Readonly<Record<string, string>>): EvaluatorSandbox {
  return {
    exec: (command, timeoutMs) =>
      host<ExecResult>((ask) => ({ type: 'execute', sandbox, command: { ...command, env: { ...env, ...command.env } }, timeoutMs, ask })),
    writeFile: (path, content) => {
      const bytes = typeof content === 'string' ? content : new Uint8Array(content).buffer
      return host<void>((ask) => ({ type: 'write-file', sandbox, path, content: bytes, mode: 0o600, ask }))
    },
    readFile: async (path, maxBytes) => {
      const read = await host<ArrayBuffer>((ask) => ({ type: 'read-file', sandbox, path, maxBytes, ask }))
      return read.ok ? { ok: true, value: new Uint8Array(read.value) } : read
    },
  }
}

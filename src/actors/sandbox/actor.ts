// Runs the sandbox host's effects against the runtimes. Lives on the control thread: what it starts outlives any gateway thread.
import type { SandboxId } from '../../contract/ids.ts'
import type { ActorContext, ActorSpec, Receiver, Settled } from '../../kernel/actor.ts'
import type { Address } from '../../kernel/address.ts'
import type { Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { KeptLogs } from '../../runtime/kept-logs.ts'
import type { Tail } from '../../runtime/output-file.ts'
import type { Fallible, ProcessExit, ProcessRef, Runtime, RuntimeError, SandboxRef } from '../../runtime/runtime.ts'
import type { SandboxCommand, SandboxFact, StartedSandbox } from './protocol.ts'
import { noSandboxes, type Operation, type SandboxEffect, type SandboxSignal, type SandboxState, step } from './state.ts'

export type SandboxHostOptions = {
  /** By backend name; a task with another backend was refused when it was submitted. */
  readonly runtimes: ReadonlyMap<string, Runtime>
  /** Where the logs of stopped agent sandboxes go, or null to drop them. */
  readonly logs: KeptLogs | null
  /** How much of the end of an agent's output is kept for the verdict and the result. */
  readonly tailBytes: number
  /** The end of a file that an agent may have tampered with. */
  readonly readTail: (file: string, maxBytes: number) => Promise<Tail>
}

type Internal =
  | SandboxSignal
  | { readonly type: 'operation-settled'; readonly operation: Operation; readonly result: Settled<Fallible<unknown>> }
  | { readonly type: 'process-gone'; readonly fact: SandboxFact; readonly notify: Address<SandboxFact> }

type Message = SandboxCommand | Internal

/** A fact that a full mailbox refused is offered again after this long. */
const REOFFER_MS = 50

export function sandboxHost(options: SandboxHostOptions): ActorSpec<Message> {
  // Outside the receiver: sandboxes do not end with it, so a restart goes on with what is known.
  const memory: Memory = { state: noSandboxes, processes: new Map(), launches: new Map(), agentLogs: new Map() }
  return {
    name: 'sandbox-host',
    capacity: 4096,
    create: (context) => createReceiver(context, options, memory),
  }
}

type Memory = {
  state: SandboxState
  readonly processes: Map<SandboxId, ProcessRef>
  /** Launches under way: what they are about to start is killed and stopped too. */
  readonly launches: Map<SandboxId, Promise<Fallible<void>>>
  /** What launched agents leave to be kept. */
  readonly agentLogs: Map<SandboxId, readonly string[]>
}

function createReceiver(context: ActorContext<Message>, options: SandboxHostOptions, memory: Memory): Receiver<Message> {
  const { processes, launches, agentLogs } = memory
  const stopWaiting = new AbortController()

  const runtimeOf = (ref: SandboxRef): Runtime | undefined => options.runtimes.get(ref.backend)

  function run(effect: SandboxEffect): void {
    switch (effect.type) {
      case 'start': {
        const { command, sandbox } = effect
        const runtime = options.runtimes.get(command.spec.backend)
        context.pipe<Fallible<{ ref: SandboxRef; started: StartedSandbox }>>(
          async () => {
            if (runtime === undefined) {
              return { ok: false, error: { code: 'start-failed', detail: `no runtime backend '${command.spec.backend}' on this node` } }
            }
            const result = await runtime.start({
              labels: {
                'polar.session': command.session,
                'polar.attempt': String(command.attempt),
                'polar.purpose': command.purpose,
                'polar.gateway': command.gateway,
              },
              env: { ...command.spec.env, ...command.env },
              workdir: command.spec.workdir ?? null,
              image: command.spec.image ?? null,
              cpus: command.spec.cpus ?? null,
              memoryMb: command.spec.memory_mb ?? null,
              allowInternet: command.spec.allow_internet ?? true,
            })
            if (!result.ok) return result
            const ref = result.value.sandbox
            const started: StartedSandbox = {
              sandbox,
              workdir: ref.workdir,
              home: ref.home,
              isolation: runtime.isolation,
              notes: result.value.notes,
            }
            return { ok: true, value: { ref, started } }
          },
          (outcome) => ({ type: 'start-settled', sandbox, result: outcome.ok ? outcome.value : failure('start-failed', outcome.error) }),
        )
        return
      }
      case 'answer-start':
        context.reply(effect.ask, effect.result)
        return
      case 'answer-stopped':
        context.reply(effect.ask, undefined)
        return
      case 'refuse':
        answer(effect.operation, { ok: false, error: effect.error })
        return
      case 'operate':
        operate(effect.ref, effect.operation)
        return
      case 'stop': {
        const { sandbox, ref, owner } = effect
        const logs = owner.purpose === 'agent' ? options.logs : null
        const name = `${owner.session}.${owner.attempt}`
        context.pipe(
          async () => {
            await launches.get(sandbox)?.catch(() => {})
            await runtimeOf(ref)?.stop(ref, { keepLogs: logs?.folderFor(name) ?? null, agentLogs: agentLogs.get(sandbox) ?? [] })
            processes.delete(sandbox)
            agentLogs.delete(sandbox)
            await logs?.keep(name)
          },
          () => ({ type: 'stop-settled', sandbox }),
        )
        return
      }
      default:
        unreachable(effect)
    }
  }

  function operate(ref: SandboxRef, operation: Operation): void {
    const runtime = runtimeOf(ref)
    context.pipe<Fallible<unknown>>(
      async () =>
        runtime === undefined ? failure('sandbox-gone', new Error(`no runtime '${ref.backend}'`)) : perform(runtime, ref, operation),
      (result) => ({ type: 'operation-settled', operation, result }),
    )
  }

  async function perform(runtime: Runtime, ref: SandboxRef, operation: Operation): Promise<Fallible<unknown>> {
    switch (operation.type) {
      case 'prepare-sandbox':
        return runtime.prepare(ref, operation.action, operation.timeoutMs)
      case 'execute':
        return runtime.exec(ref, operation.command, operation.timeoutMs)
      case 'write-file': {
        const content = typeof operation.content === 'string' ? operation.content : new Uint8Array(operation.content)
        return runtime.writeFile(ref, operation.path, content, operation.mode)
      }
      case 'read-file': {
        const read = await runtime.readFile(ref, operation.path, operation.maxBytes)
        return read.ok ? { ok: true, value: new Uint8Array(read.value).buffer } : read
      }
      case 'locate-model':
        return { ok: true, value: runtime.modelUrl(ref, operation.port) }
      case 'launch': {
        const launch = begin(runtime, ref, operation)
        launches.set(operation.sandbox, launch)
        return launch.finally(() => launches.delete(operation.sandbox))
      }
      case 'kill-process': {
        await launches.get(operation.sandbox)?.catch(() => {})
        const process = processes.get(operation.sandbox)
        const isGone = process === undefined || (await runtime.kill(process, operation.graceMs))
        if (isGone) return { ok: true, value: undefined }
        return { ok: false, error: { code: 'timeout', detail: 'processes of the agent could not be ended' } }
      }
      default:
        return unreachable(operation)
    }
  }

  async function begin(runtime: Runtime, ref: SandboxRef, launch: Extract<Operation, { type: 'launch' }>): Promise<Fallible<void>> {
    agentLogs.set(launch.sandbox, launch.logs)
    const launched = await runtime.launch(ref, launch.command)
    if (!launched.ok) return launched
    processes.set(launch.sandbox, launched.value)
    watch(runtime, launched.value, launch)
    return { ok: true, value: undefined }
  }

  /** `perform` returns exactly what the operation's own ask expects; the union of asks hides that from the compiler. */
  function answer(operation: Operation, value: Fallible<unknown>): void {
    context.reply(operation.ask as Ask<Fallible<unknown>>, value)
  }

  function watch(runtime: Runtime, process: ProcessRef, launch: Extract<Operation, { type: 'launch' }>): void {
    context.pipe(
      async () => {
        const exit = await runtime.wait(process, stopWaiting.signal)
        const [stdout, stderr] = await Promise.all([
          options.readTail(process.stdoutFile, options.tailBytes),
          options.readTail(process.stderrFile, options.tailBytes),
        ])
        return { exit, stdoutTail: stdout.text, stderrTail: stderr.text }
      },
      (outcome) => {
        const lost: ProcessExit = { type: 'lost' }
        const ended = outcome.ok ? outcome.value : { exit: lost, stdoutTail: '', stderrTail: outcome.error.message }
        return { type: 'process-gone', fact: { type: 'process-ended', sandbox: launch.sandbox, ended }, notify: launch.notify }
      },
    )
  }

  return {
    receive(message: Message): void {
      switch (message.type) {
        case 'operation-settled': {
          const { operation, result } = message
          answer(operation, result.ok ? result.value : failure('sandbox-gone', result.error))
          return
        }
        case 'process-gone':
          if (context.tell(message.notify, message.fact) === 'full') context.after(REOFFER_MS, message)
          return
        default: {
          const [next, effects] = step(memory.state, message)
          memory.state = next
          for (const effect of effects) run(effect)
        }
      }
    },
    stopped(): void {
      stopWaiting.abort()
    },
  }
}

function failure(code: RuntimeError['code'], error: Error): { readonly ok: false; readonly error: RuntimeError } {
  return { ok: false, error: { code, detail: error.message } }
}

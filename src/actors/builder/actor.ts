// Hands builds to the CPU pool and answers with packed bytes. A build that throws, hangs or kills its thread is an answer.
import type { ActorContext, ActorSpec, Receiver } from '../../kernel/actor.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { CpuPool } from '../../tasks/pool.ts'
import type { TaskSettled } from '../../tasks/protocol.ts'
import { sealedPart } from '../../trajectory/completions.ts'
import type { CustomBuilders } from '../../trajectory/registry.ts'
import type { BuilderCommand, BuildReply } from './protocol.ts'
import { type BuilderMessage, openBuilder, step } from './state.ts'

export type BuilderOptions = {
  readonly cpu: CpuPool
  /** Tasks handed to the pool at once. */
  readonly maxRunning: number
  readonly customs: CustomBuilders
}

/** In what whoever asked for the build waits beyond it. */
const PACK_MS = 10_000

/** Its line is all it remembers, and whoever stood in it is told `stopped`. */
const RESTARTS = { max: 5, withinMs: 60_000 }

export function builderActor(options: BuilderOptions): ActorSpec<BuilderMessage> {
  return { name: 'builder', capacity: 1024, restarts: RESTARTS, create: (context) => createReceiver(context, options) }
}

function createReceiver(context: ActorContext<BuilderMessage>, options: BuilderOptions): Receiver<BuilderMessage> {
  let state = openBuilder(options.maxRunning)
  return {
    receive(message): void {
      const [next, start] = step(state, message)
      state = next
      if (start === null) return
      context.pipe(
        async () => context.reply(start.ask, await run(start, options)),
        (outcome) => {
          if (!outcome.ok) context.reply(start.ask, { type: 'build-failed', error: outcome.error.message, completions: null })
          return { type: 'task-settled' }
        },
      )
    },
  }
}

async function run(command: BuilderCommand, { cpu, customs }: BuilderOptions): Promise<BuildReply> {
  switch (command.type) {
    case 'build': {
      const { session, task, attempt, strategy, sealed, taskMetadata, timeoutMs } = command
      const { calls, messages, tokens } = sealed
      const settled = await cpu.run(
        'buildTrajectory',
        { session, task, attempt, strategy, reference: tokens, calls, messages, taskMetadata, customs },
        { timeoutMs },
      )
      if (!settled.ok) {
        // The thread is gone with what it had packed.
        const part = sealedPart({ session, task, taskMetadata, calls, messages })
        const packed = calls.length === 0 ? null : await cpu.run('packCompletions', part, { timeoutMs: PACK_MS })
        return { ...failed(settled), completions: packed?.ok === true ? packed.value.packed : null }
      }
      if (!settled.value.ok) return { type: 'build-failed', error: settled.value.error, completions: settled.value.completions }
      const { payload, traces, trainableTokens, capturedTokens, completions } = settled.value
      return { type: 'built', payload, traces, trainableTokens, capturedTokens, completions }
    }
    case 'finish': {
      const { payload, facts, timeoutMs } = command
      const settled = await cpu.run('finishSession', { payload, facts }, { timeoutMs, transfer: [payload] })
      return settled.ok ? { type: 'finished', ...settled.value } : failed(settled)
    }
    default:
      return unreachable(command)
  }
}

function failed(settled: Extract<TaskSettled<unknown>, { ok: false }>): Extract<BuildReply, { type: 'build-failed' }> {
  return { type: 'build-failed', error: `${settled.error}: ${settled.detail}`, completions: null }
}

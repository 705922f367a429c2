// The shell of one proxy actor: answers, probes and timers of its replica.
import type { ReplicaId } from '../../contract/ids.ts'
import type { ActorSpec } from '../../kernel/actor.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { ProbeResult } from '../engines/probe.ts'
import type { Standing } from '../engines/standing.ts'
import { isServing, openReplica, type ReplicaEffect, type ReplicaLimits, type ReplicaMessage, step } from './state.ts'

export type ReplicaOptions = {
  readonly id: ReplicaId
  readonly url: string
  readonly limits: ReplicaLimits
  readonly isPaused: boolean
  /** How it stands after a pause; null for one that cannot be asked. Settles by itself. */
  readonly ask: (() => Promise<Standing>) | null
  /** Told on every change; null while it is not known. */
  readonly onWeights: (version: string | null) => void
  /** Settles by itself: a probe that hangs would leave the replica unprobed for ever. */
  readonly probe: () => Promise<ProbeResult>
  /** Told on every change; false until the first probe has found it well. A paused replica still serves: its calls wait. */
  readonly onServing: (isServing: boolean) => void
}

/** Every call has at most one message on its way here, so a mailbox of twice the thread's calls is never full. */
const MAILBOX_CAPACITY = 8_192

export function replicaActor(options: ReplicaOptions): ActorSpec<ReplicaMessage> {
  return {
    name: `replica ${options.id}`,
    capacity: MAILBOX_CAPACITY,
    create(context) {
      const [opened, first] = openReplica(options.id, options.url, options.limits, options.isPaused, options.ask !== null)

      let state = opened
      let wasServing = false
      let weights: string | null = null

      function run(effect: ReplicaEffect): void {
        switch (effect.type) {
          case 'answer':
            context.reply(effect.ask, effect.acquired)
            return
          case 'show':
            context.reply(effect.ask, effect.status)
            return
          case 'probe':
            context.pipe(options.probe, (result) => ({ type: 'probed', result }))
            return
          case 'ask': {
            const { pause } = effect
            if (options.ask !== null) context.pipe(options.ask, (result) => ({ type: 'asked', pause, result }))
            return
          }
          case 'ask-after':
            context.after(effect.delayMs, { type: 'ask-due', pause: effect.pause })
            return
          case 'probe-after':
            // Replicas that fell together must not be asked together.
            context.after(effect.delayMs * (0.5 + context.random.next() / 2), { type: 'probe-due' })
            return
          default:
            unreachable(effect)
        }
      }

      for (const effect of first) run(effect)
      return {
        receive(message) {
          const [next, effects] = step(state, message)
          state = next
          // Before its grants: whoever gets a place knows what it will be drawn from.
          if (state.weightVersion !== weights) options.onWeights(state.weightVersion)
          weights = state.weightVersion
          for (const effect of effects) run(effect)
          const serves = isServing(state)
          if (serves !== wasServing) options.onServing(serves)
          wasServing = serves
        },
      }
    },
  }
}

// The shell of one router's follower: reads its list again and again, and says who joined and who left.
import type { ReplicaId } from '../../../contract/ids.ts'
import type { ActorSpec } from '../../../kernel/actor.ts'
import { unreachable } from '../../../kernel/unreachable.ts'
import { openRouter, type RouterEffect, type RouterMessage, step } from './state.ts'
import type { Worker, WorkerList } from './workers.ts'

export type RouterOptions = {
  readonly id: ReplicaId
  readonly everyMs: number
  /** Settles by itself: a read that hangs would be the last one. */
  readonly read: () => Promise<WorkerList>
  readonly onJoined: (worker: Worker) => void
  readonly onLeft: (worker: Worker) => void
}

const MAILBOX_CAPACITY = 64

export function routerActor(options: RouterOptions): ActorSpec<RouterMessage> {
  return {
    name: `router ${options.id}`,
    capacity: MAILBOX_CAPACITY,
    create(context) {
      const [opened, first] = openRouter(options.everyMs)
      let state = opened

      function run(effect: RouterEffect): void {
        switch (effect.type) {
          case 'read':
            context.pipe(options.read, (result) => ({ type: 'workers-read', result }))
            return
          case 'read-after':
            context.after(effect.delayMs, { type: 'read-due' })
            return
          case 'worker-joined':
            options.onJoined(effect.worker)
            return
          case 'worker-left':
            options.onLeft(effect.worker)
            return
          case 'show':
            context.reply(effect.ask, effect.status)
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
          for (const effect of effects) run(effect)
        },
      }
    },
  }
}

// The shell of the in-memory ledger: answers what its step decides.
import type { ActorSpec } from '../../kernel/actor.ts'
import type { LedgerCommand } from './protocol.ts'
import { emptyLedger, type LedgerLimits, step } from './state.ts'

const MAILBOX = 8192

export function memoryLedger(limits: LedgerLimits): ActorSpec<LedgerCommand> {
  return {
    name: 'ledger',
    capacity: MAILBOX,
    create(context) {
      let state = emptyLedger(limits, context.random.hex(4))
      return {
        receive(command) {
          const [next, effects] = step(state, command)
          state = next
          // Each effect was made with the ask it answers, so the value is of its type.
          for (const effect of effects) context.reply(effect.ask, effect.value as never)
        },
      }
    },
  }
}

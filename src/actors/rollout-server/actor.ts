// The shell of the rollout server: draws ids, asks the ledger, tells gateways and the outbox, publishes events.

import type { SessionSummary } from '../../contract/result.ts'
import type { ActorContext, ActorSpec } from '../../kernel/actor.ts'
import type { Address } from '../../kernel/address.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { ResultFacts } from '../builder/protocol.ts'
import type { CallbackCommand } from '../callback/protocol.ts'
import type { LedgerCommand, Recorded, SettledResult } from '../ledger/protocol.ts'
import { emptyServer, type RolloutServerSignal, type ServerEffect, type ServerLimits, type ServerMessage } from './entries.ts'
import { intake } from './intake.ts'
import type { NodeEvent, RolloutServerCommand } from './protocol.ts'
import { step } from './state.ts'

const LEDGER_DEADLINE_MS = 10_000
const MAILBOX = 4096

export type RolloutServerOptions = {
  readonly limits: ServerLimits
  readonly ledger: Address<LedgerCommand>
  readonly callback: Address<CallbackCommand>
  /** The packed result of a session that nobody will report on. */
  readonly emptyResult: (facts: ResultFacts) => { readonly payload: ArrayBuffer; readonly summary: SessionSummary }
  readonly publish: (event: NodeEvent) => void
  /** For what should not happen and hurts nobody yet. */
  readonly report: (detail: string) => void
}

export function rolloutServer(options: RolloutServerOptions): ActorSpec<RolloutServerCommand | RolloutServerSignal> {
  return {
    name: 'rollout-server',
    capacity: MAILBOX,
    create(context) {
      let state = emptyServer(options.limits)
      return {
        receive(message) {
          const now = { nowMs: context.clock.nowMs(), wallMs: context.clock.wallMs() }
          // What a refused `tell` adds is stepped after the effects of the message that caused it.
          const backlog: ServerMessage[] = [intake(message, () => context.random.uuid())]
          for (let next = backlog.shift(); next !== undefined; next = backlog.shift()) {
            const [after, effects] = step(state, next, now)
            state = after
            for (const effect of effects) {
              const refusal = run(context, options, effect)
              if (refusal !== null) backlog.push(refusal)
            }
          }
        },
      }
    },
  }
}

type Context = ActorContext<RolloutServerCommand | RolloutServerSignal>

/** Answers what a refused `tell` means to the step, or null. */
function run(context: Context, options: RolloutServerOptions, effect: ServerEffect): RolloutServerSignal | null {
  switch (effect.type) {
    case 'reply':
      // The effect was made by `reply<R>(turn, ask, value)`, which paired the two; the union of all R is not worth spelling out.
      context.reply(effect.ask, effect.value as never)
      return null
    case 'publish':
      options.publish(effect.event)
      return null
    case 'report':
      options.report(effect.detail)
      return null
    case 'after':
      context.after(effect.delayMs, effect.message)
      return null
    case 'record-task': {
      const { request, sessions, task } = effect
      context.ask<LedgerCommand, Recorded>(
        options.ledger,
        (ask) => ({ type: 'record-task', key: task, task: request, sessions, ask }),
        LEDGER_DEADLINE_MS,
        (answer) => ({
          type: 'task-recorded',
          task,
          answer,
        }),
      )
      return null
    }
    case 'open-session': {
      const { gateway, spec } = effect
      const offer = context.tell(effect.to, { type: 'open-session', spec })
      if (offer === 'accepted') return null
      return { type: 'dispatch-refused', session: spec.session, attempt: spec.attempt, gateway, offer }
    }
    case 'cancel-session': {
      const { gateway, session, attempt, reason } = effect
      const offer = context.tell(effect.to, { type: 'cancel-session', session, reason })
      return offer === 'accepted' ? null : { type: 'cancel-refused', session, attempt, gateway, offer }
    }
    case 'settle': {
      const { task } = effect
      const { session, attempt } = effect.facts
      const { payload, summary } = options.emptyResult(effect.facts)
      context.ask<LedgerCommand, SettledResult>(
        options.ledger,
        (ask) => ({ type: 'settle-result', task, session, attempt, summary, payload, ask }),
        LEDGER_DEADLINE_MS,
        (answer) => ({ type: 'settled', session, attempt, answer }),
      )
      return null
    }
    case 'tell-session-ended': {
      const { session, attempt } = effect
      context.tell(options.ledger, { type: 'session-ended', session, attempt })
      return null
    }
    case 'record-end': {
      const { task, status } = effect
      context.ask<LedgerCommand, Recorded>(
        options.ledger,
        (ask) => ({ type: 'record-task-ended', task, status, ask }),
        LEDGER_DEADLINE_MS,
        (answer) => ({
          type: 'end-recorded',
          task,
          answer,
        }),
      )
      return null
    }
    case 'deliver': {
      const { task, url, shape, status, sessions, attempts } = effect
      const offer = context.tell(options.callback, { type: 'deliver', task, url, shape, status, sessions, attempts })
      return offer === 'accepted' ? null : { type: 'deliver-refused', task }
    }
    default:
      return unreachable(effect)
  }
}

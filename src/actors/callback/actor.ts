// The shell of the outbox: renders and posts task results, cuts overdue attempts, records what became of each.
import type { TaskId } from '../../contract/ids.ts'
import type { ActorContext, ActorSpec } from '../../kernel/actor.ts'
import type { Address } from '../../kernel/address.ts'
import type { Timer } from '../../kernel/clock.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { LedgerCommand, Recorded } from '../ledger/protocol.ts'
import type { RolloutServerCommand } from '../rollout-server/protocol.ts'
import type { Delivery } from './delivery.ts'
import type { DeliveryContent } from './protocol.ts'
import {
  type AttemptOutcome,
  type CallbackLimits,
  type CallbackMessage,
  type DeadLetter,
  emptyOutbox,
  type OutboxEffect,
  step,
} from './state.ts'
import type { CallbackTransport } from './transport.ts'

const LEDGER_DEADLINE_MS = 10_000
const MAILBOX = 4096

/** Polar's TaskResult, or the SessionResult of a session by itself, as JSON bytes; rejects when a result cannot be had. */
export type RenderDelivery = (content: DeliveryContent, signal: AbortSignal) => Promise<Uint8Array>

export type CallbackOptions = {
  readonly limits: CallbackLimits
  readonly transport: CallbackTransport
  readonly render: RenderDelivery
  readonly ledger: Address<LedgerCommand>
  /** Known only after both actors are spawned. */
  readonly rolloutServer: () => Address<RolloutServerCommand>
  /** For the operator: a result that its trainer will not get. */
  readonly report: (letter: DeadLetter) => void
}

export function callbackOutbox(options: CallbackOptions): ActorSpec<CallbackMessage> {
  return {
    name: 'callback',
    capacity: MAILBOX,
    create(context) {
      let state = emptyOutbox(options.limits)
      const flights = new Map<TaskId, Flight>()
      return {
        receive(message) {
          if (message.type === 'attempt-ended') land(flights, message.task)
          const backlog: CallbackMessage[] = [message]
          for (let next = backlog.shift(); next !== undefined; next = backlog.shift()) {
            const [after, effects] = step(state, next, { chance: context.random.next(), wallMs: context.clock.wallMs() })
            state = after
            for (const effect of effects) {
              const told = run(context, options, flights, effect)
              if (told !== null) backlog.push(told)
            }
          }
        },
        stopped() {
          for (const flight of flights.values()) flight.controller.abort(new Error('polar-node is stopping'))
          flights.clear()
        },
      }
    },
  }
}

type Flight = { readonly controller: AbortController; readonly overdue: Timer }

function land(flights: Map<TaskId, Flight>, task: TaskId): void {
  flights.get(task)?.overdue.cancel()
  flights.delete(task)
}

function run(
  context: ActorContext<CallbackMessage>,
  options: CallbackOptions,
  flights: Map<TaskId, Flight>,
  effect: OutboxEffect,
): CallbackMessage | null {
  switch (effect.type) {
    case 'send': {
      const { delivery, deadlineMs } = effect
      const { task, stamp } = delivery
      const controller = new AbortController()
      const overdue = context.after(deadlineMs, { type: 'attempt-overdue', task, stamp })
      flights.set(task, { controller, overdue })
      context.pipe(
        // The race frees the place at the deadline even if rendering or the transport does not heed the signal.
        () => Promise.race([attempt(options, delivery, controller.signal, context.clock.wallMs), aborted(controller.signal)]),
        (settled) => ({
          type: 'attempt-ended',
          task,
          stamp,
          outcome: settled.ok ? settled.value : { type: 'failed', detail: settled.error.message },
        }),
      )
      return null
    }
    case 'abort':
      flights.get(effect.task)?.controller.abort(new Error(effect.reason))
      return null
    case 'after':
      context.after(effect.delayMs, effect.message)
      return null
    case 'record': {
      const { task, stamp, news } = effect
      context.ask<LedgerCommand, Recorded>(
        options.ledger,
        (ask) => ({ type: 'record-delivery', task, state: news.state, detail: news.detail, ask }),
        LEDGER_DEADLINE_MS,
        (answer) => ({ type: 'delivery-recorded', task, stamp, answer }),
      )
      return null
    }
    case 'tell': {
      const { task, stamp, state } = effect
      const message =
        state === 'pending' ? ({ type: 'delivery-reopened', task } as const) : ({ type: 'task-delivered', task, state } as const)
      return { type: 'told', task, stamp, offer: context.tell(options.rolloutServer(), message) }
    }
    case 'report':
      options.report(effect.letter)
      return null
    case 'reply':
      // The effect was made with the ask it answers, so the value is of its type.
      context.reply(effect.ask, effect.value as never)
      return null
    default:
      return unreachable(effect)
  }
}

async function attempt(options: CallbackOptions, delivery: Delivery, signal: AbortSignal, wallMs: () => number): Promise<AttemptOutcome> {
  const { url, idempotencyKey, tries } = delivery
  const body = await options.render(delivery, signal)
  signal.throwIfAborted()
  const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey, 'x-polar-delivery-attempt': String(tries) }
  const reply = await options.transport.post(url, headers, body, signal)
  return { type: 'answered', status: reply.status, retryAfterMs: parseRetryAfter(reply.retryAfter, wallMs()) }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}

/** Seconds or an HTTP date; null when it says nothing usable. */
export function parseRetryAfter(header: string | null, wallMs: number): number | null {
  if (header === null) return null
  if (/^\d{1,9}$/.test(header.trim())) return Number(header.trim()) * 1_000
  const at = Date.parse(header)
  return Number.isNaN(at) ? null : Math.max(0, at - wallMs)
}

// The outbox: what becomes of each try, when one is given up, and who is told. Pure; actor.ts sends.

import type { TaskId } from '../../contract/ids.ts'
import type { Offer } from '../../kernel/address.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { DeliveryState, Recorded } from '../ledger/protocol.ts'
import { emptyTable, lookUp, type Table, values } from '../table.ts'
import {
  type Addressed,
  addressed,
  type Delivery,
  type Kept,
  type News,
  originOf,
  parcelOf,
  stateOf,
  undelivered,
  viewOf,
} from './delivery.ts'
import { freePlace, keep, line, put, takeKept } from './lines.ts'
import type { CallbackCommand, Undelivered } from './protocol.ts'
import { type Redrive, redrive, settleRedrives } from './redrive.ts'
import { checkTarget } from './target.ts'

export type CallbackLimits = {
  /** Deliveries under way to one origin at a time. */
  readonly perTarget: number
  readonly maxAttempts: number
  readonly backoffBaseMs: number
  readonly backoffCapMs: number
  /** A target's `Retry-After` is honoured up to this. */
  readonly maxRetryAfterMs: number
  /** For one attempt, rendering included. */
  readonly deadlineMs: number
  /** Ended deliveries that can be listed and driven again. */
  readonly maxKept: number
}

export type AttemptOutcome =
  | { readonly type: 'answered'; readonly status: number; readonly retryAfterMs: number | null }
  /** No answer: rendering, the network, or the deadline. */
  | { readonly type: 'failed'; readonly detail: string }

export type OutboxState = {
  readonly limits: CallbackLimits
  /** At most one for each task that the rollout server keeps: that table's bound is the outbox's. */
  readonly deliveries: Table<TaskId, Delivery>
  readonly kept: Table<TaskId, Kept>
  /** Of what is kept, oldest first. */
  readonly order: readonly TaskId[]
  readonly targets: ReadonlyMap<string, { readonly sending: number; readonly line: readonly TaskId[] }>
  readonly redrives: readonly Redrive[]
  readonly sequence: number
}

/** `stamp` is of what was waited for: when the delivery has gone on to something else, the answer comes too late. */
type CallbackSignal = { readonly task: TaskId; readonly stamp: number } & (
  | { readonly type: 'attempt-ended'; readonly outcome: AttemptOutcome }
  | { readonly type: 'attempt-overdue' }
  | { readonly type: 'rested' }
  | { readonly type: 'delivery-recorded'; readonly answer: Answer<Recorded> }
  | { readonly type: 'told'; readonly offer: Offer }
  | { readonly type: 'tell-again' }
)

export type CallbackMessage = CallbackCommand | CallbackSignal

export type DeadLetter = Pick<Undelivered, 'task' | 'origin'> & { readonly detail: string }

export type OutboxEffect =
  | { readonly type: 'send'; readonly delivery: Delivery; readonly deadlineMs: number }
  | { readonly type: 'abort'; readonly task: TaskId; readonly reason: string }
  | { readonly type: 'after'; readonly delayMs: number; readonly message: CallbackSignal }
  | { readonly type: 'record'; readonly task: TaskId; readonly stamp: number; readonly news: News }
  | { readonly type: 'tell'; readonly task: TaskId; readonly stamp: number; readonly state: DeliveryState }
  /** Once for each dead letter: nobody else hears of it unasked. */
  | { readonly type: 'report'; readonly letter: DeadLetter }
  | { readonly type: 'reply'; readonly ask: Ask<never>; readonly value: unknown }

const TELL_AGAIN_MS = 1_000

export function emptyOutbox(limits: CallbackLimits): OutboxState {
  return { limits, deliveries: emptyTable(), kept: emptyTable(), order: [], targets: new Map(), redrives: [], sequence: 0 }
}

export type Step = readonly [OutboxState, readonly OutboxEffect[]]

/** `chance`, in [0, 1), is the jitter of a pause that begins in this step. */
export type Now = { readonly chance: number; readonly wallMs: number }

export function step(state: OutboxState, message: CallbackMessage, now: Now): Step {
  switch (message.type) {
    case 'deliver':
      return accept(state, message, now)
    case 'redrive':
      return redrive(state, message, now.wallMs)
    case 'list-deliveries':
      return [state, [{ type: 'reply', ask: message.ask, value: list(state, message) }]]
    case 'list-undelivered':
      return [state, [{ type: 'reply', ask: message.ask, value: undelivered(values(state.deliveries)) }]]
    default:
      return goOn(state, message, now)
  }
}

function goOn(state: OutboxState, message: CallbackSignal, now: Now): Step {
  const { task, stamp } = message
  const delivery = lookUp(state.deliveries, task)
  if (delivery === undefined || delivery.stamp !== stamp) return [state, []]
  switch (message.type) {
    case 'attempt-ended':
      return delivery.phase === 'sending' ? endAttempt(state, delivery, message.outcome, now) : [state, []]
    case 'attempt-overdue':
      return delivery.phase === 'sending' ? [state, [{ type: 'abort', task, reason: 'no answer within the deadline' }]] : [state, []]
    case 'rested':
      return delivery.phase === 'resting' ? line(state, addressed(delivery, delivery.url)) : [state, []]
    case 'delivery-recorded': {
      if (delivery.phase !== 'telling') return [state, []]
      const { news } = delivery
      if (!message.answer.ok || (message.answer.value.type === 'refused' && message.answer.value.reason === 'full')) {
        return [state, [tellAgain(task, stamp)]]
      }
      if (message.answer.value.type === 'refused' && news.state === 'pending') return giveUpLost(state, delivery, now)
      return [state, [{ type: 'tell', task, stamp, state: news.state }]]
    }
    case 'told':
      if (delivery.phase !== 'telling') return [state, []]
      return message.offer === 'accepted' ? told(state, delivery, delivery.news) : [state, [tellAgain(task, stamp)]]
    case 'tell-again':
      return delivery.phase === 'telling' ? [state, [{ type: 'record', task, stamp, news: delivery.news }]] : [state, []]
    default:
      return unreachable(message)
  }
}

/** Worth another try: the answer may be different then. */
function isRetried(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}

function list({ deliveries, kept }: OutboxState, { state, limit }: Extract<CallbackCommand, { type: 'list-deliveries' }>) {
  return [...values(deliveries), ...values(kept)]
    .filter((delivery) => (state === null ? stateOf(delivery) !== 'none' : stateOf(delivery) === state))
    .sort((a, b) => b.sequence - a.sequence)
    .slice(0, limit)
    .map(viewOf)
}

function accept(state: OutboxState, command: Extract<CallbackCommand, { type: 'deliver' }>, { wallMs }: Now): Step {
  const { task, url } = command
  if (lookUp(state.deliveries, task) !== undefined) return [state, []]
  const parcel = parcelOf(state.sequence + 1, command)
  const fresh = { ...takeKept(state, task), sequence: parcel.sequence }
  if (url === null) return [keep(fresh, { ...parcel, url, state: 'none' }), []]
  const problem = checkTarget(url)
  if (problem === null) return line(fresh, addressed(parcel, url))
  return tell(fresh, addressed(parcel, url), { state: 'dead', detail: `callback_url ${problem}`, atMs: wallMs })
}

function endAttempt(state: OutboxState, delivery: Extract<Delivery, { phase: 'sending' }>, outcome: AttemptOutcome, now: Now): Step {
  const { redirect, url } = delivery
  const [decided, decisions] =
    redirect === null
      ? decide(state, addressed(delivery, url), outcome, now)
      : line(state, { ...addressed(delivery, redirect), tries: 0, trouble: null })
  const [next, sends] = freePlace(decided, originOf(url))
  return [next, [...decisions, ...sends]]
}

function decide(state: OutboxState, delivery: Addressed, outcome: AttemptOutcome, { chance, wallMs }: Now): Step {
  const { limits } = state
  const { task, tries } = delivery
  if (outcome.type === 'answered' && outcome.status >= 200 && outcome.status < 300) {
    return tell(state, delivery, { state: 'delivered', detail: `answered ${outcome.status} at attempt ${tries}`, atMs: wallMs })
  }
  const trouble = outcome.type === 'answered' ? `answered ${outcome.status}` : outcome.detail
  if (outcome.type === 'answered' && !isRetried(outcome.status)) {
    const hint = outcome.status >= 300 && outcome.status < 400 ? '; redirects are not followed' : ''
    return tell(state, delivery, { state: 'dead', detail: `${trouble} at attempt ${tries}${hint}`, atMs: wallMs })
  }
  if (tries >= limits.maxAttempts) {
    return tell(state, delivery, { state: 'dead', detail: `${trouble} at attempt ${tries} of ${limits.maxAttempts}`, atMs: wallMs })
  }
  const backoffMs = Math.min(limits.backoffCapMs, limits.backoffBaseMs * 2 ** (tries - 1)) * (0.5 + chance / 2)
  const wantedMs = outcome.type === 'answered' ? Math.min(outcome.retryAfterMs ?? 0, limits.maxRetryAfterMs) : 0
  const stamp = delivery.stamp + 1
  const rest: OutboxEffect = { type: 'after', delayMs: Math.max(backoffMs, wantedMs), message: { type: 'rested', task, stamp } }
  return [put(state, { ...delivery, phase: 'resting', stamp, trouble }), [rest]]
}

/** The ledger first, then the rollout server: what the one acknowledged the other may drop. */
export function tell(state: OutboxState, delivery: Addressed, news: News): Step {
  const { task, url } = delivery
  const stamp = delivery.stamp + 1
  const letter = { task, origin: originOf(url), detail: news.detail }
  const reports: readonly OutboxEffect[] = news.state === 'dead' ? [{ type: 'report', letter }] : []
  return [put(state, { ...delivery, phase: 'telling', stamp, news }), [...reports, { type: 'record', task, stamp, news }]]
}

function told(state: OutboxState, delivery: Delivery, { state: outcome, detail, atMs }: News): Step {
  const parcel = addressed(delivery, delivery.url)
  if (outcome !== 'pending') return [keep(state, { ...parcel, state: outcome, detail, endedAtMs: atMs }), []]
  const [driven, sends] = line(state, parcel)
  const [next, replies] = settleRedrives(driven, delivery.task, false)
  return [next, [...sends, ...replies]]
}

/** It was driven again when its results had been dropped already. */
function giveUpLost(state: OutboxState, delivery: Delivery, { wallMs }: Now): Step {
  const detail = 'its results are no longer kept'
  const [given, news] = tell(state, addressed(delivery, delivery.url), { state: 'dead', detail, atMs: wallMs })
  const [next, replies] = settleRedrives(given, delivery.task, true)
  return [next, [...news, ...replies]]
}

function tellAgain(task: TaskId, stamp: number): OutboxEffect {
  return { type: 'after', delayMs: TELL_AGAIN_MS, message: { type: 'tell-again', task, stamp } }
}

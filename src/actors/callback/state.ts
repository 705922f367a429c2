// The outbox: which delivery is under way, which waits for its target or its next try, and when one is given up. Pure; actor.ts sends.

import { canonicalDigest } from '../../contract/digest.ts'
import type { SessionId, TaskId } from '../../contract/ids.ts'
import type { TaskStatus } from '../../contract/task.ts'
import type { Offer } from '../../kernel/address.ts'
import type { Answer, Ask } from '../../kernel/ask.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Recorded } from '../ledger/protocol.ts'
import type { CallbackCommand, Undelivered } from './protocol.ts'
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
}

export type AttemptOutcome =
  | { readonly type: 'answered'; readonly status: number; readonly retryAfterMs: number | null }
  /** No answer: rendering, the network, or the deadline. */
  | { readonly type: 'failed'; readonly detail: string }

type Verdict = { readonly state: 'delivered' | 'dead'; readonly detail: string }

type Parcel = {
  readonly task: TaskId
  readonly url: string
  readonly origin: string
  readonly status: TaskStatus
  readonly sessions: readonly SessionId[]
  /** Says what is delivered without its bytes: the same for every try, and for every rendering. */
  readonly idempotencyKey: string
  /** Tries begun. */
  readonly tries: number
  /** How the last finished try went wrong. */
  readonly trouble: string | null
}

export type Delivery = Parcel &
  (
    | { readonly phase: 'waiting' }
    | { readonly phase: 'sending' }
    | { readonly phase: 'resting' }
    /** Decided; the ledger and the rollout server are being told. */
    | { readonly phase: 'closing'; readonly verdict: Verdict }
  )

export type OutboxState = {
  readonly limits: CallbackLimits
  /** At most one for each task that the rollout server keeps: that table's bound is the outbox's. */
  readonly deliveries: ReadonlyMap<TaskId, Delivery>
  readonly targets: ReadonlyMap<string, { readonly sending: number; readonly line: readonly TaskId[] }>
}

type CallbackSignal =
  | { readonly type: 'attempt-ended'; readonly task: TaskId; readonly try: number; readonly outcome: AttemptOutcome }
  | { readonly type: 'attempt-overdue'; readonly task: TaskId; readonly try: number }
  | { readonly type: 'rested'; readonly task: TaskId }
  | { readonly type: 'delivery-recorded'; readonly task: TaskId; readonly answer: Answer<Recorded> }
  | { readonly type: 'told'; readonly task: TaskId; readonly offer: Offer }
  | { readonly type: 'close-again'; readonly task: TaskId }

export type CallbackMessage = CallbackCommand | CallbackSignal

export type DeadLetter = Pick<Undelivered, 'task' | 'origin'> & { readonly detail: string }

export type OutboxEffect =
  | { readonly type: 'send'; readonly delivery: Delivery; readonly deadlineMs: number }
  | { readonly type: 'abort'; readonly task: TaskId }
  | { readonly type: 'after'; readonly delayMs: number; readonly message: CallbackSignal }
  | { readonly type: 'record'; readonly task: TaskId; readonly verdict: Verdict }
  | { readonly type: 'tell'; readonly task: TaskId; readonly state: 'delivered' | 'dead' }
  /** Once for each dead letter: nobody else hears of it unasked. */
  | { readonly type: 'report'; readonly letter: DeadLetter }
  | { readonly type: 'answer'; readonly ask: Ask<readonly Undelivered[]>; readonly undelivered: readonly Undelivered[] }

const CLOSE_AGAIN_MS = 1_000

export function emptyOutbox(limits: CallbackLimits): OutboxState {
  return { limits, deliveries: new Map(), targets: new Map() }
}

type Step = readonly [OutboxState, readonly OutboxEffect[]]

/** `chance`, in [0, 1), is the jitter of a pause that begins in this step. */
export function step(state: OutboxState, message: CallbackMessage, chance: number): Step {
  if (message.type === 'deliver') return accept(state, message)
  if (message.type === 'list-deliveries' || message.type === 'redrive') return [state, []]
  if (message.type === 'list-undelivered') return [state, [{ type: 'answer', ask: message.ask, undelivered: undeliveredOf(state) }]]
  const delivery = state.deliveries.get(message.task)
  if (delivery === undefined) return [state, []]
  switch (message.type) {
    case 'attempt-ended':
      if (delivery.phase !== 'sending' || delivery.tries !== message.try) return [state, []]
      return endAttempt(state, delivery, message.outcome, chance)
    case 'attempt-overdue':
      if (delivery.phase !== 'sending' || delivery.tries !== message.try) return [state, []]
      return [state, [{ type: 'abort', task: delivery.task }]]
    case 'rested':
      return delivery.phase === 'resting' ? line(state, delivery) : [state, []]
    case 'delivery-recorded':
      if (delivery.phase !== 'closing') return [state, []]
      if (!message.answer.ok || (message.answer.value.type === 'refused' && message.answer.value.reason === 'full')) {
        return [state, [closeAgain(delivery.task)]]
      }
      return [state, [{ type: 'tell', task: delivery.task, state: delivery.verdict.state }]]
    case 'told':
      if (delivery.phase !== 'closing') return [state, []]
      return message.offer === 'accepted' ? [drop(state, delivery.task), []] : [state, [closeAgain(delivery.task)]]
    case 'close-again':
      return delivery.phase === 'closing' ? [state, [{ type: 'record', task: delivery.task, verdict: delivery.verdict }]] : [state, []]
    default:
      return unreachable(message)
  }
}

/** Worth another try: the answer may be different then. */
function isRetried(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}

function undeliveredOf({ deliveries }: OutboxState): readonly Undelivered[] {
  return [...deliveries.values()]
    .filter((delivery) => delivery.phase !== 'closing')
    .map(({ task, origin, tries, trouble }) => ({ task, origin, tries, trouble }))
}

function accept(state: OutboxState, { task, url, status, sessions, attempts }: Extract<CallbackCommand, { type: 'deliver' }>): Step {
  if (state.deliveries.has(task)) return [state, []]
  const idempotencyKey = `${task}-${canonicalDigest([task, sessions.map((session, i) => [session, attempts[i] ?? 0])]).slice(0, 32)}`
  const problem = checkTarget(url)
  const origin = URL.canParse(url) ? new URL(url).origin : ''
  const delivery: Delivery = { phase: 'waiting', task, url, origin, status, sessions, idempotencyKey, tries: 0, trouble: null }
  return problem === null ? line(state, delivery) : close(state, delivery, { state: 'dead', detail: `callback_url ${problem}` })
}

function line(state: OutboxState, delivery: Delivery): Step {
  const target = state.targets.get(delivery.origin) ?? { sending: 0, line: [] }
  const targets = new Map(state.targets).set(delivery.origin, { ...target, line: [...target.line, delivery.task] })
  return sendNext({ ...put(state, { ...parcelOf(delivery), phase: 'waiting' }), targets }, delivery.origin)
}

function sendNext(state: OutboxState, origin: string): Step {
  const target = state.targets.get(origin)
  const first = target?.line[0]
  if (target === undefined || first === undefined || target.sending >= state.limits.perTarget) return [state, []]
  const waiting = state.deliveries.get(first)
  if (waiting === undefined) throw new Error(`task ${first} is in line without a delivery`)
  const delivery: Delivery = { ...parcelOf(waiting), phase: 'sending', tries: waiting.tries + 1 }
  const targets = new Map(state.targets).set(origin, { sending: target.sending + 1, line: target.line.slice(1) })
  return [{ ...put(state, delivery), targets }, [{ type: 'send', delivery, deadlineMs: state.limits.deadlineMs }]]
}

function endAttempt(state: OutboxState, delivery: Delivery, outcome: AttemptOutcome, chance: number): Step {
  const [decided, decisions] = decide(state, delivery, outcome, chance)
  const [next, sends] = sendNext(freePlace(decided, delivery.origin), delivery.origin)
  return [next, [...decisions, ...sends]]
}

function decide(state: OutboxState, delivery: Delivery, outcome: AttemptOutcome, chance: number): Step {
  const { limits } = state
  if (outcome.type === 'answered' && outcome.status >= 200 && outcome.status < 300) {
    return close(state, delivery, { state: 'delivered', detail: `answered ${outcome.status} at attempt ${delivery.tries}` })
  }
  const detail = outcome.type === 'answered' ? `answered ${outcome.status}` : outcome.detail
  if (outcome.type === 'answered' && !isRetried(outcome.status)) {
    const hint = outcome.status >= 300 && outcome.status < 400 ? '; redirects are not followed' : ''
    return close(state, delivery, { state: 'dead', detail: `${detail} at attempt ${delivery.tries}${hint}` })
  }
  if (delivery.tries >= limits.maxAttempts) {
    return close(state, delivery, { state: 'dead', detail: `${detail} at attempt ${delivery.tries} of ${limits.maxAttempts}` })
  }
  const backoffMs = Math.min(limits.backoffCapMs, limits.backoffBaseMs * 2 ** (delivery.tries - 1)) * (0.5 + chance / 2)
  const wantedMs = outcome.type === 'answered' ? Math.min(outcome.retryAfterMs ?? 0, limits.maxRetryAfterMs) : 0
  const resting: Delivery = { ...parcelOf(delivery), phase: 'resting', trouble: detail }
  return [
    put(state, resting),
    [{ type: 'after', delayMs: Math.max(backoffMs, wantedMs), message: { type: 'rested', task: delivery.task } }],
  ]
}

function close(state: OutboxState, delivery: Delivery, verdict: Verdict): Step {
  const { task, origin } = delivery
  const { detail } = verdict
  const reports: readonly OutboxEffect[] = verdict.state === 'dead' ? [{ type: 'report', letter: { task, origin, detail } }] : []
  return [put(state, { ...parcelOf(delivery), phase: 'closing', verdict }), [...reports, { type: 'record', task, verdict }]]
}

function closeAgain(task: TaskId): OutboxEffect {
  return { type: 'after', delayMs: CLOSE_AGAIN_MS, message: { type: 'close-again', task } }
}

function freePlace(state: OutboxState, origin: string): OutboxState {
  const target = state.targets.get(origin)
  if (target === undefined) return state
  const targets = new Map(state.targets)
  if (target.sending === 1 && target.line.length === 0) targets.delete(origin)
  else targets.set(origin, { ...target, sending: target.sending - 1 })
  return { ...state, targets }
}

function parcelOf({ task, url, origin, status, sessions, idempotencyKey, tries, trouble }: Delivery): Parcel {
  return { task, url, origin, status, sessions, idempotencyKey, tries, trouble }
}

function put(state: OutboxState, delivery: Delivery): OutboxState {
  return { ...state, deliveries: new Map(state.deliveries).set(delivery.task, delivery) }
}

function drop(state: OutboxState, task: TaskId): OutboxState {
  const deliveries = new Map(state.deliveries)
  deliveries.delete(task)
  return { ...state, deliveries }
}

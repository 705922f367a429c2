// One delivery: what goes where, how far it is, and how others see it.
import { canonicalDigest } from '../../contract/digest.ts'
import type { DeliveryState } from '../ledger/protocol.ts'
import type { CallbackCommand, DeliveryContent, DeliveryView, Undelivered } from './protocol.ts'

/** What the ledger and the rollout server are told. */
export type News = { readonly state: DeliveryState; readonly detail: string; readonly atMs: number }

export type Parcel = DeliveryContent & {
  /** Says what is delivered without its bytes: the same for every try, every rendering and every receiver. */
  readonly idempotencyKey: string
  /** In the order in which tasks ended. */
  readonly sequence: number
  /** Rises with each thing that is waited for: an answer to an earlier one finds another stamp. */
  readonly stamp: number
  /** Tries begun since it was last driven. */
  readonly tries: number
  /** How the last finished try went wrong. */
  readonly trouble: string | null
}

export type Addressed = Parcel & { readonly url: string }

export type Delivery = Addressed &
  (
    | { readonly phase: 'waiting' }
    /** `redirect`: this try is being cut, and the next goes there. */
    | { readonly phase: 'sending'; readonly redirect: string | null }
    | { readonly phase: 'resting' }
    /** Decided; the ledger and the rollout server are being told. */
    | { readonly phase: 'telling'; readonly news: News }
  )

/** One that nothing happens to until it is driven: its end is known, or it has no receiver. */
export type Kept =
  | (Addressed & { readonly state: 'delivered' | 'dead'; readonly detail: string; readonly endedAtMs: number })
  | (Parcel & { readonly url: null; readonly state: 'none' })

export function parcelOf(
  sequence: number,
  { task, shape, status, sessions, attempts }: Extract<CallbackCommand, { type: 'deliver' }>,
): Parcel {
  const content = canonicalDigest([task, sessions.map((session, i) => [session, attempts[i] ?? 0])]).slice(0, 32)
  return { task, shape, status, sessions, idempotencyKey: `${task}-${content}`, sequence, stamp: 0, tries: 0, trouble: null }
}

/** What stays of it from one phase to the next. */
export function addressed(
  { task, shape, status, sessions, idempotencyKey, sequence, stamp, tries, trouble }: Parcel,
  url: string,
): Addressed {
  return { task, shape, status, sessions, idempotencyKey, sequence, stamp, tries, trouble, url }
}

export function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
}

export function stateOf(delivery: Delivery | Kept): DeliveryView['state'] {
  if (!('phase' in delivery)) return delivery.state
  return delivery.phase === 'telling' ? delivery.news.state : 'pending'
}

export function viewOf(delivery: Delivery | Kept): DeliveryView {
  const { task, shape, sessions, url, tries } = delivery
  const origin = url === null ? null : originOf(url)
  const session = shape === 'session' ? (sessions[0] ?? null) : null
  return { task, session, state: stateOf(delivery), origin, tries, ...endOf(delivery) }
}

function endOf(delivery: Delivery | Kept): Pick<DeliveryView, 'detail' | 'endedAtMs'> {
  if (!('phase' in delivery)) {
    return delivery.state === 'none' ? { detail: null, endedAtMs: null } : { detail: delivery.detail, endedAtMs: delivery.endedAtMs }
  }
  if (delivery.phase !== 'telling' || delivery.news.state === 'pending') return { detail: delivery.trouble, endedAtMs: null }
  return { detail: delivery.news.detail, endedAtMs: delivery.news.atMs }
}

export function undelivered(deliveries: Iterable<Delivery>): readonly Undelivered[] {
  return [...deliveries]
    .filter((delivery) => stateOf(delivery) === 'pending')
    .sort((a, b) => a.sequence - b.sequence)
    .map(({ task, url, tries, trouble }) => ({ task, origin: originOf(url), tries, trouble }))
}

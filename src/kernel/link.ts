// One peer thread as seen from here: what may still be sent to each of its actors, and what it may still send to ours.
import type { Address, Offer, ThreadId } from './address.ts'
import type { Answer, Ask } from './ask.ts'
import type { Wire } from './kernel.ts'
import { buffersIn } from './transfer.ts'
import { unreachable } from './unreachable.ts'
import type { Origin, UserLane } from './user-lane.ts'

/** What travels between two kernels. */
type Frame =
  | { readonly type: 'hello'; readonly incarnation: number }
  | { readonly type: 'tell'; readonly incarnation: number; readonly actor: number; readonly message: unknown }
  | { readonly type: 'credit'; readonly actor: number; readonly count: number }
  | { readonly type: 'gone'; readonly incarnation: number; readonly actor: number }
  | { readonly type: 'answer'; readonly incarnation: number; readonly ask: number; readonly answer: Answer<unknown> }
  | { readonly type: 'over'; readonly incarnation: number; readonly ask: number }

/** The kernel as a link needs it. */
export type LinkHost = {
  readonly thread: ThreadId
  readonly incarnation: number
  laneOf(actor: number): UserLane<unknown> | undefined
  /** Called only for an actor whose lane was just found. */
  arrived(actor: number, message: unknown, origin: Origin): void
  /** A message for an actor that ended while it travelled. */
  undeliverable(message: unknown): void
  answered(ask: number, incarnation: number, answer: Answer<unknown>): void
  /** The asker gave up; the answer is owed no more. */
  askOver(ask: Ask<unknown>): void
  closed(link: Link): void
}

export type Link = {
  readonly peer: ThreadId
  /** The last incarnation that said hello, here or before a reconnect; a later one must not fall behind it. */
  readonly knownIncarnation: number | null
  tell(to: Address<unknown>, message: unknown): Offer
  /** False when the wire is dead. */
  answer(ask: Ask<unknown>, answer: Answer<unknown>): boolean
  /** The deadline of an ask sent over this link has passed. */
  over(ask: number): void
  /** An actor of ours ended: its writers at the other end hear it. */
  actorEnded(actor: number): void
  /** How many messages may be sent to the actor now; undefined before first contact. */
  creditsFor(actor: number): number | undefined
  /** Idempotent; settles everything that waited on the peer. */
  close(): void
}

/** Ended actors a link remembers, so that a tell to them says `stopped` at once. A forgotten one is found out again by a frame. */
const REMEMBERED_ENDED = 65_536

/** What the peer has in one of our lanes. Credits go back in batches of a quarter of the share. */
class Inbound implements Origin {
  readonly lane: UserLane<unknown>
  readonly #giveBack: (count: number) => void
  waiting = 0
  #owed = 0

  constructor(lane: UserLane<unknown>, giveBack: (count: number) => void) {
    this.lane = lane
    this.#giveBack = giveBack
  }

  taken(): void {
    this.waiting--
    this.#owed++
    if (this.#owed < Math.max(1, this.lane.share >> 2)) return
    this.#giveBack(this.#owed)
    this.#owed = 0
  }
}

export function openLink(host: LinkHost, peer: ThreadId, wire: Wire, lastIncarnation: number | null): Link {
  const credits = new Map<number, { left: number }>()
  const inbound = new Map<number, Inbound>()
  const ended = new Set<number>()
  // Until the peer says hello its addresses tell who it is, and what was known before is taken to be dead.
  let peerIncarnation = lastIncarnation === null ? Number.NEGATIVE_INFINITY : lastIncarnation + 1
  let isGreeted = false
  let isOpen = true

  function post(frame: Frame, transfer: readonly ArrayBuffer[] = []): void {
    if (isOpen) wire.post(frame, transfer)
  }

  function meet(incarnation: number): void {
    if (incarnation === peerIncarnation) return
    peerIncarnation = incarnation
    credits.clear()
    ended.clear()
  }

  function tell(to: Address<unknown>, message: unknown): Offer {
    if (!isOpen) return 'stopped'
    if (!isGreeted && to.incarnation > peerIncarnation) meet(to.incarnation)
    if (to.incarnation !== peerIncarnation || ended.has(to.actor)) return 'stopped'
    let account = credits.get(to.actor)
    if (account === undefined) {
      account = { left: to.share }
      credits.set(to.actor, account)
    }
    if (account.left === 0) return 'full'
    // Posted before it is counted: a message that cannot be cloned throws here and must cost no credit.
    post({ type: 'tell', incarnation: to.incarnation, actor: to.actor, message }, buffersIn(message))
    account.left--
    return 'accepted'
  }

  function receive(frame: Extract<Frame, { type: 'tell' }>): void {
    const lane = frame.incarnation === host.incarnation ? host.laneOf(frame.actor) : undefined
    if (lane === undefined) {
      post({ type: 'gone', incarnation: frame.incarnation, actor: frame.actor })
      host.undeliverable(frame.message)
      return
    }
    let account = inbound.get(frame.actor)
    if (account === undefined) {
      account = new Inbound(lane, (count) => post({ type: 'credit', actor: frame.actor, count }))
      inbound.set(frame.actor, account)
    }
    // A peer above its share is a broken kernel; its wire is cut before it can grow our memory.
    if (account.waiting >= lane.share) {
      close()
      return
    }
    account.waiting++
    host.arrived(frame.actor, frame.message, account)
  }

  function greet(incarnation: number): void {
    if (lastIncarnation !== null && incarnation < lastIncarnation) {
      close()
      return
    }
    isGreeted = true
    meet(incarnation)
  }

  function forget(actor: number): void {
    credits.delete(actor)
    ended.add(actor)
    if (ended.size <= REMEMBERED_ENDED) return
    const [oldest] = ended
    if (oldest !== undefined) ended.delete(oldest)
  }

  function onFrame(frame: Frame): void {
    if (!isOpen) return
    switch (frame.type) {
      case 'hello':
        greet(frame.incarnation)
        break
      case 'tell':
        receive(frame)
        break
      case 'credit': {
        const account = credits.get(frame.actor)
        if (account !== undefined) account.left += frame.count
        break
      }
      case 'gone':
        if (frame.incarnation === peerIncarnation) forget(frame.actor)
        break
      case 'answer':
        host.answered(frame.ask, frame.incarnation, frame.answer)
        break
      case 'over':
        host.askOver({ thread: peer, incarnation: frame.incarnation, ask: frame.ask })
        break
      default:
        unreachable(frame)
    }
  }

  function close(): void {
    if (!isOpen) return
    isOpen = false
    wire.close()
    for (const account of inbound.values()) account.lane.forget(account)
    inbound.clear()
    credits.clear()
    host.closed(link)
  }

  const link: Link = {
    peer,
    get knownIncarnation() {
      return isGreeted ? peerIncarnation : lastIncarnation
    },
    tell,
    answer(ask, answer) {
      if (!isOpen) return false
      post({ type: 'answer', incarnation: ask.incarnation, ask: ask.ask, answer }, buffersIn(answer.ok ? answer.value : null))
      return true
    },
    over: (ask) => post({ type: 'over', incarnation: host.incarnation, ask }),
    actorEnded(actor) {
      if (inbound.delete(actor)) post({ type: 'gone', incarnation: host.incarnation, actor })
    },
    creditsFor: (actor) => credits.get(actor)?.left,
    close,
  }
  // The peer's kernel is this same code: its frames are trusted.
  wire.open({ frame: (frame) => onFrame(frame as Frame), closed: close })
  post({ type: 'hello', incarnation: host.incarnation })
  return link
}

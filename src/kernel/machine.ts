// The actor machine of one thread: who runs next, who is told what when an actor, an ask or a wire ends.
import type { ActorExit, ActorSpec } from './actor.ts'
import type { Address, Offer, ThreadId } from './address.ts'
import type { Answer, Ask } from './ask.ts'
import { askIn, HeldAsks, PendingAsks } from './asks.ts'
import { type Cell, type Life, openCell, openLife } from './cell.ts'
import { asError, type ContextHost, openContext } from './context.ts'
import type { Delivery, Kernel, KernelOptions, KernelStats, Wire } from './kernel.ts'
import { type Link, openLink } from './link.ts'
import { UserLane } from './user-lane.ts'

/** One actor reads this many messages, then the others and the event loop have their turn. */
const MESSAGES_PER_TURN = 32
/** Open asks of code that is not an actor; one more is answered `full`. */
const PROMISE_ASKS = 65_536

export function openKernel(options: KernelOptions): Kernel {
  const { thread, incarnation, scheduler, random, peers } = options
  const report = options.report ?? reportWarning
  const { clock } = scheduler
  const cells = new Map<number, Cell>()
  const links = new Map<ThreadId, Link>()
  const pending = new PendingAsks()
  const held = new HeldAsks<Cell>(thread, incarnation)
  const promiseAsks = new Set<number>()
  const taps = new Set<(delivery: Delivery) => void>()
  const exitListeners = new Set<(exit: ActorExit) => void>()
  let isOpen = true
  let lastActor = 0
  let lateReplies = 0
  let delivered = 0
  let undeliverable = 0

  function schedule(cell: Cell): void {
    if (cell.isScheduled) return
    cell.isScheduled = true
    scheduler.defer(cell.turn)
  }

  function tell(to: Address<unknown>, message: unknown): Offer {
    if (to.thread !== thread) return tellFar(to, message)
    const cell = to.incarnation === incarnation ? cells.get(to.actor) : undefined
    if (cell === undefined) return 'stopped'
    if (!cell.lane.offer(message)) return 'full'
    const ask = askIn(message)
    if (ask !== undefined) hold(ask, cell)
    schedule(cell)
    return 'accepted'
  }

  function tellFar(to: Address<unknown>, message: unknown): Offer {
    const offer = links.get(to.thread)?.tell(to, message) ?? 'stopped'
    if (offer !== 'accepted') return offer
    // A forwarded ask is owed by the far actor from now on.
    const ask = askIn(message)
    if (ask !== undefined) held.release(ask)
    return offer
  }

  function hold(ask: Ask<unknown>, cell: Cell): void {
    // An own ask whose deadline has passed is owed by nobody.
    if (ask.thread !== thread || (ask.incarnation === incarnation && pending.has(ask.ask))) held.hold(ask, cell)
  }

  // Asks

  function openAsk(
    to: Address<unknown>,
    make: (ask: Ask<unknown>) => unknown,
    deadlineMs: number,
    settle: (answer: Answer<unknown>) => void,
    waitingFor: Set<number>,
  ): void {
    const id = pending.nextId()
    const message = make({ thread, incarnation, ask: id })
    const timer = scheduler.after(deadlineMs, () => expire(id))
    pending.add(id, { target: to.thread, timer, settle, waitingFor })
    let offer: Offer
    try {
      offer = tell(to, message)
    } catch (error) {
      pending.forget(id)
      throw error
    }
    if (offer !== 'accepted') settleAsk(id, { ok: false, error: offer })
  }

  function settleAsk(id: number, answer: Answer<unknown>): boolean {
    held.release({ thread, incarnation, ask: id })
    return pending.settle(id, answer)
  }

  function expire(id: number): void {
    abandonAsk(id)
    settleAsk(id, { ok: false, error: 'deadline' })
  }

  /** Nobody wants the answer any more; a far thread that owes it must not keep it in mind for ever. */
  function abandonAsk(id: number): void {
    const target = pending.targetOf(id)
    if (target !== undefined && target !== thread) links.get(target)?.over(id)
  }

  function answerAsk(ask: Ask<unknown>, answer: Answer<unknown>): boolean {
    held.release(ask)
    if (ask.thread !== thread) return links.get(ask.thread)?.answer(ask, answer) ?? false
    return ask.incarnation === incarnation && settleAsk(ask.ask, answer)
  }

  function reply(ask: Ask<unknown>, value: unknown): void {
    if (!answerAsk(ask, { ok: true, value })) lateReplies++
  }

  function refuse(asks: Iterable<Ask<unknown>>): void {
    for (const ask of [...asks]) answerAsk(ask, { ok: false, error: 'stopped' })
  }

  // Actors

  const host: ContextHost = { clock, random, scheduler, tell, openAsk, reply, spawn, stop: stopCell, schedule }

  function spawn(spec: ActorSpec<unknown>, parent: Life | null): Address<unknown> {
    const id = ++lastActor
    const lane = new UserLane<unknown>(capacityFor(spec, peers), peers)
    const address: Address<unknown> = { thread, incarnation, actor: id, share: lane.share }
    if (!isOpen) return address
    const cell = openCell(spec, address, lane, parent, runTurn)
    cells.set(id, cell)
    parent?.children.add(cell)
    try {
      create(cell)
    } catch (error) {
      endCell(cell, 'crashed', asError(error))
      throw error
    }
    return address
  }

  function create(cell: Cell): void {
    cell.isBusy = true
    try {
      cell.receiver = cell.spec.create(openContext(host, cell, cell.life))
    } finally {
      cell.isBusy = false
    }
    if (cell.phase === 'stopping') endStopped(cell)
  }

  function runTurn(cell: Cell): void {
    cell.isScheduled = false
    if (cell.phase === 'ended') return
    cell.isBusy = true
    try {
      for (let left = MESSAGES_PER_TURN; left > 0 && cell.phase === 'running'; left--) if (!deliverNext(cell)) break
      cell.isBusy = false
    } catch (error) {
      cell.isBusy = false
      crash(cell, asError(error))
    }
    if (cell.phase === 'stopping') endStopped(cell)
    else if (cell.phase === 'running' && (cell.lane.size > 0 || cell.life.system.size > 0)) schedule(cell)
  }

  function deliverNext(cell: Cell): boolean {
    const make = cell.life.system.take()
    const message = make === undefined ? cell.lane.take() : make()
    if (make === undefined && message === undefined) return false
    delivered++
    if (taps.size > 0) tapAll({ thread, actor: cell.spec.name, lane: make === undefined ? 'user' : 'system', message })
    cell.receiver?.receive(message)
    return true
  }

  function tapAll(delivery: Delivery): void {
    for (const tap of taps) tap(delivery)
  }

  function stopCell(cell: Cell): void {
    if (cell.isBusy) cell.phase = 'stopping'
    else endStopped(cell)
  }

  function endStopped(cell: Cell): void {
    endCell(cell, isOpen ? 'stopped' : 'thread-closed', null)
  }

  function crash(cell: Cell, error: Error): void {
    report(cell.spec.name, error)
    if (cell.phase !== 'running' || !isOpen || cell.budget === null || !cell.budget.spend(clock.nowMs())) {
      endCell(cell, 'crashed', error)
      return
    }
    endLife(cell)
    // What the crashed receiver had read it can answer no more; what it had not read waits for the next one.
    const unread = new Set(cell.lane.waiting().map(askIn))
    refuse([...cell.asks.values()].filter((ask) => !unread.has(ask)))
    cell.life = openLife()
    try {
      create(cell)
    } catch (again) {
      crash(cell, asError(again))
    }
  }

  /** Ends what belongs to the current receiver: children, timers, open asks, and what it owns outside the kernel. */
  function endLife(cell: Cell): void {
    const { life, receiver } = cell
    for (const child of [...life.children]) stopCell(child)
    for (const timer of life.timers) timer.cancel()
    for (const id of [...life.waitingFor]) {
      abandonAsk(id)
      held.release({ thread, incarnation, ask: id })
      pending.forget(id)
    }
    cell.receiver = null
    guard(cell, () => receiver?.stopped?.())
  }

  /** A throw in a last word must not keep the rest from ending. */
  function guard(cell: Cell, lastWord: () => void): void {
    try {
      lastWord()
    } catch (error) {
      report(cell.spec.name, asError(error))
    }
  }

  function endCell(cell: Cell, reason: ActorExit['reason'], error: Error | null): void {
    if (cell.phase === 'ended') return
    cell.phase = 'ended'
    cells.delete(cell.address.actor)
    cell.parent?.children.delete(cell)
    endLife(cell)
    refuse(cell.asks.values())
    for (const link of links.values()) link.actorEnded(cell.address.actor)
    const exit: ActorExit = { name: cell.spec.name, address: cell.address, reason, error, undelivered: cell.lane.waiting() }
    for (const listener of [...exitListeners]) guard(cell, () => listener(exit))
  }

  // Links

  function connect(peer: ThreadId, wire: Wire): void {
    const last = links.get(peer)
    if (last === undefined && links.size >= peers)
      throw new Error(`thread ${thread} shares its mailboxes among ${peers} peers; ${peer} is one more`)
    last?.close()
    if (isOpen) links.set(peer, openLink(linkHost, peer, wire, last?.knownIncarnation ?? null))
    else wire.close()
  }

  const linkHost = {
    thread,
    incarnation,
    laneOf: (actor: number) => cells.get(actor)?.lane,
    arrived(actor: number, message: unknown, origin: { taken(): void }) {
      const cell = cells.get(actor)
      if (cell === undefined) return
      const ask = askIn(message)
      if (ask !== undefined) hold(ask, cell)
      cell.lane.admit(origin, message)
      schedule(cell)
    },
    undeliverable(message: unknown) {
      undeliverable++
      const ask = askIn(message)
      if (ask !== undefined) refuse([ask])
    },
    answered(ask: number, askedBy: number, answer: Answer<unknown>) {
      if (askedBy === incarnation && settleAsk(ask, answer)) return
      if (answer.ok) lateReplies++
    },
    askOver: (ask: Ask<unknown>) => held.release(ask),
    closed(link: Link) {
      held.releaseThread(link.peer)
      for (const id of pending.ids(link.peer)) settleAsk(id, { ok: false, error: 'stopped' })
    },
  }

  function stats(): KernelStats {
    const all = [...cells.values()]
    return {
      thread,
      actors: all.length,
      pendingAsks: pending.size,
      pendingTimers: all.reduce((sum, cell) => sum + cell.life.timers.size, 0),
      mailboxes: all.map(({ spec, lane, life }) => ({
        name: spec.name,
        user: lane.size,
        system: life.system.size,
        capacity: lane.capacity,
      })),
      lateReplies,
      delivered,
      undeliverable,
    }
  }

  async function close(): Promise<void> {
    if (!isOpen) return
    isOpen = false
    for (const cell of [...cells.values()]) stopCell(cell)
    for (const id of pending.ids()) settleAsk(id, { ok: false, error: 'stopped' })
    for (const link of links.values()) link.close()
  }

  return {
    thread,
    incarnation,
    clock,
    random,
    scheduler,
    // Inside, messages are untyped; an address is what ties a message to its protocol.
    spawn: (spec) => spawn(spec as unknown as ActorSpec<unknown>, null),
    tell: (to, message) => tell(to as Address<unknown>, message),
    ask(to, make, deadlineMs) {
      return new Promise((resolve) => {
        if (!isOpen) return resolve({ ok: false, error: 'stopped' })
        if (promiseAsks.size >= PROMISE_ASKS) return resolve({ ok: false, error: 'full' })
        openAsk(
          to as Address<unknown>,
          make as (ask: Ask<unknown>) => unknown,
          deadlineMs,
          (answer) => resolve(answer as Answer<never>),
          promiseAsks,
        )
      })
    },
    reply,
    connect,
    inspect(tap) {
      taps.add(tap)
      return () => void taps.delete(tap)
    },
    onExit(listener) {
      exitListeners.add(listener)
      return () => void exitListeners.delete(listener)
    },
    stop(actor) {
      const cell = actor.thread === thread && actor.incarnation === incarnation ? cells.get(actor.actor) : undefined
      if (cell !== undefined) stopCell(cell)
    },
    stats,
    close,
  }
}

/** The lane's capacity, raised where it could not give every thread a place. */
function capacityFor(spec: ActorSpec<unknown>, peers: number): number {
  return Math.max(spec.capacity, 2 ** Math.ceil(Math.log2(peers + 1)))
}

function reportWarning(actor: string, error: Error): void {
  process.emitWarning(`actor ${actor} threw: ${error.stack ?? error.message}`)
}

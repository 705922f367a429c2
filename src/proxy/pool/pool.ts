// Which replica serves a call: the one its session is pinned to, else the least loaded, else whoever has room.
import type { ReplicaId, SessionId } from '../../contract/ids.ts'
import type { Address } from '../../kernel/address.ts'
import type { ReplicaView } from '../boundary.ts'
import type { Countable } from '../chat.ts'
import { within } from '../deadline.ts'
import type { LogprobMode } from '../engines/logprob-mode.ts'
import { type Failure, failure } from '../failure.ts'
import { failureOf, nextOf, type Refusal } from './choice.ts'
import { type Member, type MemberOptions, openMember, type PoolReplica, viewOf } from './member.ts'
import { openPauseGate, type PauseGate } from './pause-gate.ts'
import type { Acquired, ReplicaCommand } from './protocol.ts'
import { openWaiters } from './waiters.ts'

export type Lease = {
  readonly replica: PoolReplica
  /** The name by which this replica serves the policy. */
  readonly model: string
  /** As its last probe found. */
  readonly logprobMode: LogprobMode
  readonly maxModelLen: number | null
  /** Whether answers may be asked for as streams here: nothing that is captured is known to be lost. */
  streams(): boolean
  /** A stream has lost something: until the next probe no other one is asked for. */
  lostInStream(): void
  /** What an answer was drawn from that does not say it itself. */
  weights(): KnownWeights
  release(outcome: 'ok' | 'failed' | 'unreachable' | 'cancelled', weightVersion: string | null): void
}

/** What is known of the weights by the server's own word, when a place was given and now; null: it has said nothing. */
export type KnownWeights = { readonly before: string | null; readonly now: string | null }

type Acquisition = { readonly ok: true; readonly lease: Lease } | { readonly ok: false; readonly failure: Failure }

export type PoolOptions = MemberOptions & {
  /** How long a call may wait in a replica's line. */
  readonly acquireDeadlineMs: number
  /** Whether it begins in a pause. */
  readonly isPaused?: boolean
  /** Told when the first replica begins to serve and when the last one has ceased. */
  readonly onServing: (isServing: boolean) => void
  /** Told when a pause begins and when it ends; not of one that it begins in. */
  readonly onHeld?: (isHeld: boolean) => void
}

/** A replica's place in the pool. */
export type Membership = {
  /** No call comes to it any more. Resolves when its last call has ended and its connection is closed. Idempotent. */
  leave(): Promise<void>
}

export type Pool = Pick<PauseGate, 'pause' | 'resume' | 'isPaused' | 'pauses' | 'unpausedMs'> & {
  /** The pool owns the connection from now on. */
  join(replica: PoolReplica): Membership
  /** `avoid`: replicas this call just found unreachable; they are asked last. */
  acquire(session: SessionId, tier: 'train' | 'eval', avoid: ReadonlySet<ReplicaId>, signal: AbortSignal): Promise<Acquisition>
  /** Calls that have a place, and those that wait for one, for a replica that serves, or for the end of a pause. */
  counts(): { readonly inFlight: number; readonly waiting: number }
  /** Resolves as soon as any replica serves; never rejects, and without one when the signal says so. */
  serves(signal: AbortSignal): Promise<void>
  /** Length of the prompt by the tokenizer of the session's replica while that serves, or else of any that does; null when it does not say. */
  countTokens(session: SessionId, countableFor: (model: string) => Countable): Promise<number | null>
  /** Forgets which replica holds the session's prefix cache. */
  unpin(session: SessionId): void
  /** Of those that leave too, until they are gone. */
  views(): Promise<readonly ReplicaView[]>
  /** The name of the served model: as configured, or as the first probed replica has it; empty until then. */
  modelName(): string
  /** The longest context any probed replica states, for model lists. */
  maxModelLen(): number | null
  close(): Promise<void>
}

const REDELIVERY_MS = 5
/** A count is a convenience: a slow one is no reason to keep a client waiting. */
const COUNT_DEADLINE_MS = 10_000

export function openPool(options: PoolOptions): Pool {
  const { kernel, model, acquireDeadlineMs } = options
  /** In the order in which they joined. */
  const members = new Set<Member>()
  const leaving = new Set<Member>()
  const pins = new Map<SessionId, Member>()
  let serving = 0
  /** Calls that no replica serves. */
  const stranded = openWaiters()
  /** Calls that ask for a place. */
  let asking = 0
  let nextTicket = 1
  const gate = openPauseGate(kernel.scheduler, options.isPaused === true, (isPaused) => {
    for (const member of members) {
      if (isPaused) member.endProbe()
      tellPause(member)
    }
    options.onHeld?.(isPaused)
  })

  /** As it is now: a word that met a full mailbox must not overtake a later one. */
  function tellPause(member: Member): void {
    const offer = kernel.tell(member.address, { type: gate.isPaused() ? 'pause' : 'resume' })
    if (offer === 'full') kernel.scheduler.after(REDELIVERY_MS, () => tellPause(member))
  }

  function join(replica: PoolReplica): Membership {
    const member = openMember(options, replica, gate.isPaused(), serves)
    members.add(member)
    return { leave: () => leave(member) }
  }

  function leave(member: Member): Promise<void> {
    if (member.phase !== 'joined') return member.gone.promise
    serves(member, false)
    member.phase = 'leaving'
    members.delete(member)
    leaving.add(member)
    deliver(member.address, { type: 'remove' })
    endIfIdle(member)
    return member.gone.promise
  }

  function endIfIdle(member: Member): void {
    if (member.phase === 'leaving' && member.outstanding === 0) end(member)
  }

  function end(member: Member): void {
    if (member.phase === 'gone') return
    member.phase = 'gone'
    members.delete(member)
    leaving.delete(member)
    member.stop.abort()
    kernel.stop(member.address)
    member.gone.resolve(member.replica.connection.close())
  }

  function serves(member: Member, isServing: boolean): void {
    if (member.phase !== 'joined' || member.isServing === isServing) return
    member.isServing = isServing
    serving += isServing ? 1 : -1
    if (isServing ? serving === 1 : serving === 0) options.onServing(isServing)
    if (!isServing) return
    relieveOthers(member)
    stranded.wakeAll()
  }

  /** Its free places are offered to those who wait elsewhere, the longest lines first. */
  function relieveOthers(newcomer: Member): void {
    let room = newcomer.replica.limits.inFlight - newcomer.outstanding
    // Where nobody is served everybody waits.
    const waitingAt = ({ outstanding, isServing, replica }: Member): number => outstanding - (isServing ? replica.limits.inFlight : 0)
    for (const member of [...members].filter((other) => waitingAt(other) > 0).sort((a, b) => waitingAt(b) - waitingAt(a))) {
      const count = Math.min(room, waitingAt(member))
      if (count <= 0) return
      room -= count
      deliver(member.address, { type: 'relieve', count, tier: newcomer.facts.tier })
    }
  }

  /** A lease that is not given back would shrink the replica for ever, so a full mailbox is tried again. */
  function deliver(to: Address<ReplicaCommand>, command: ReplicaCommand): void {
    if (kernel.tell(to, command) === 'full') kernel.scheduler.after(REDELIVERY_MS, () => deliver(to, command))
  }

  async function tryMember(member: Member, session: SessionId, tier: 'train' | 'eval', signal: AbortSignal): Promise<Acquired> {
    const ticket = nextTicket++
    const withdraw = (): void => deliver(member.address, { type: 'withdraw', ticket })
    signal.addEventListener('abort', withdraw, { once: true })
    const answer = await kernel.ask<ReplicaCommand, Acquired>(
      member.address,
      (ask) => ({ type: 'acquire', session, ticket, tier, ask }),
      acquireDeadlineMs,
    )
    signal.removeEventListener('abort', withdraw)
    if (answer.ok) return answer.value
    // The grant may have crossed the deadline: the ticket is given back either way.
    if (answer.error === 'deadline') withdraw()
    const detail = `replica ${member.replica.id}: ${answer.error === 'deadline' ? 'no place became free in time' : answer.error}`
    return { type: 'refused', reason: answer.error === 'stopped' ? 'down' : 'full', retryAfterMs: 1_000, detail }
  }

  function giveBack(member: Member): void {
    member.outstanding -= 1
    endIfIdle(member)
  }

  function leaseOf(member: Member, lease: number): Lease {
    let isHeld = true
    const before = member.weightVersion
    gate.enter()
    return {
      replica: member.replica,
      model: member.facts.model,
      logprobMode: member.facts.logprobMode,
      streams: () => member.facts.streams,
      lostInStream() {
        member.facts.streams = false
      },
      maxModelLen: member.facts.maxModelLen,
      weights: () => ({ before, now: member.weightVersion }),
      release(outcome, weightVersion) {
        if (!isHeld) return
        isHeld = false
        deliver(member.address, { type: 'release', lease, outcome, weightVersion })
        giveBack(member)
        gate.leave()
      },
    }
  }

  function pin(session: SessionId, member: Member): void {
    unpin(session)
    if (member.phase !== 'joined') return
    pins.set(session, member)
    member.sessions += 1
  }

  function unpin(session: SessionId): void {
    const pinned = pins.get(session)
    if (pinned === undefined) return
    pinned.sessions -= 1
    pins.delete(session)
  }

  async function acquire(
    session: SessionId,
    tier: 'train' | 'eval',
    avoid: ReadonlySet<ReplicaId>,
    signal: AbortSignal,
  ): Promise<Acquisition> {
    const refusals: Refusal[] = []
    const asked = new Set<Member>()
    /** Those that sent this call away for longer than until a place becomes free. */
    const lost = new Set<Member>()
    for (;;) {
      while (gate.isPaused() && !signal.aborted) await gate.pass(signal)
      const pauses = gate.pauses()
      const member = signal.aborted ? null : nextOf(members, asked, pins.get(session), avoid)
      if (member === null) break
      asked.add(member)
      member.outstanding += 1
      const acquired = await tryMember(member, session, tier, signal)
      if (acquired.type === 'granted' && !signal.aborted && !gate.isPaused()) {
        const lease = leaseOf(member, acquired.lease)
        const pinned = pins.get(session)
        // A full replica keeps its sessions: their prefixes are still warm there.
        if (pinned === undefined || lost.has(pinned) || !pinned.isServing) pin(session, member)
        return { ok: true, lease }
      }
      // The grant had left before the pause came: the place is given back, and asked for again.
      if (acquired.type === 'granted')
        deliver(member.address, { type: 'release', lease: acquired.lease, outcome: 'cancelled', weightVersion: null })
      giveBack(member)
      if (acquired.type === 'granted' || gate.pauses() !== pauses) {
        // What they said before a pause, and how long a call stood in line in it, says nothing of what is after it.
        asked.clear()
        refusals.length = 0
        continue
      }
      if (acquired.reason !== 'full') lost.add(member)
      // Whoever was sent to a newcomer may come back, should others have been quicker.
      if (acquired.reason === 'moved') asked.delete(member)
      else if (acquired.reason !== 'removed') refusals.push(acquired)
    }
    return { ok: false, failure: signal.aborted ? failure('cancelled', 'the call was cancelled') : failureOf(refusals) }
  }

  return {
    join,
    async acquire(session, tier, avoid, signal) {
      asking += 1
      try {
        return await acquire(session, tier, avoid, signal)
      } finally {
        asking -= 1
      }
    },
    pause: gate.pause,
    resume: gate.resume,
    isPaused: gate.isPaused,
    pauses: gate.pauses,
    unpausedMs: gate.unpausedMs,
    counts: () => ({ inFlight: gate.inFlight(), waiting: asking + stranded.count() }),
    serves: (signal) => (serving > 0 ? Promise.resolve() : stranded.wait(signal)),
    unpin,
    async countTokens(session, countableFor) {
      const pinned = pins.get(session)
      const member = pinned?.isServing === true ? pinned : [...members].find(({ isServing }) => isServing)
      if (member === undefined) return null
      const { engine, connection } = member.replica
      const { model: served } = member.facts
      return within(kernel.scheduler, COUNT_DEADLINE_MS, member.stop.signal, (cut) =>
        engine.countTokens(countableFor(served), served, (request) => connection.send(request, cut)),
      )
    },
    async views() {
      const views = await Promise.all([...members, ...leaving].map((member) => viewOf(kernel, member)))
      return views.filter((view) => view !== null)
    },
    modelName: () => [...members].find((member) => member.facts.model !== '')?.facts.model ?? model,
    maxModelLen() {
      const known = [...members].flatMap(({ facts }) => (facts.maxModelLen === null ? [] : [facts.maxModelLen]))
      return known.length === 0 ? null : Math.max(...known)
    },
    async close() {
      gate.resume()
      const open = [...members, ...leaving]
      for (const member of open) end(member)
      await Promise.all(open.map((member) => member.gone.promise))
    },
  }
}

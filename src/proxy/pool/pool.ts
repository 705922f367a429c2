// Which replica serves a call: the one its session is pinned to, else the least loaded, else whoever has room.
import type { ReplicaId, SessionId } from '../../contract/ids.ts'
import type { Address } from '../../kernel/address.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { ReplicaView } from '../boundary.ts'
import type { Countable } from '../chat.ts'
import type { Engine } from '../engines/engine.ts'
import { type ProbeResult, probe } from '../engines/probe.ts'
import type { Connection } from '../engines/transport.ts'
import { type Failure, failure } from '../failure.ts'
import { replicaActor } from './actor.ts'
import type { Acquired, ReplicaCommand } from './protocol.ts'
import type { ReplicaLimits } from './state.ts'

export type PoolReplica = {
  readonly id: ReplicaId
  readonly url: string
  readonly engine: Engine
  readonly connection: Connection
  readonly limits: ReplicaLimits
}

export type Lease = {
  readonly replica: PoolReplica
  /** The name by which this replica serves the policy. */
  readonly model: string
  release(outcome: 'ok' | 'failed' | 'unreachable' | 'cancelled', weightVersion: string | null): void
}

type Acquisition = { readonly ok: true; readonly lease: Lease } | { readonly ok: false; readonly failure: Failure }

export type PoolOptions = {
  readonly kernel: Kernel
  readonly replicas: readonly PoolReplica[]
  readonly model: string
  /** How long a call may wait in a replica's line. */
  readonly acquireDeadlineMs: number
  readonly probeDeadlineMs: number
  /** Told when the first replica begins to serve and when the last one has ceased. */
  readonly onServing: (isServing: boolean) => void
}

export type Pool = {
  /** `avoid`: replicas this call just found unreachable; they are asked last. */
  acquire(session: SessionId, tier: 'train' | 'eval', avoid: ReadonlySet<ReplicaId>, signal: AbortSignal): Promise<Acquisition>
  /** Length of the prompt by the tokenizer of the session's replica, or of any that serves; null when none says. */
  countTokens(session: SessionId, countable: Countable): Promise<number | null>
  /** Forgets which replica holds the session's prefix cache. */
  unpin(session: SessionId): void
  views(): Promise<readonly ReplicaView[]>
  /** The name of the served model: as configured, or as the first probed replica has it; empty until then. */
  modelName(): string
  /** The longest context any probed replica states, for model lists. */
  maxModelLen(): number | null
  close(): Promise<void>
}

const VIEW_DEADLINE_MS = 1_000
const REDELIVERY_MS = 5
/** A count is a convenience: a slow one is no reason to keep a client waiting. */
const COUNT_DEADLINE_MS = 10_000

type Member = {
  readonly replica: PoolReplica
  readonly address: Address<ReplicaCommand>
  /** Calls of this thread that hold or await a place. */
  outstanding: number
  sessions: number
  /** What the last probe found. */
  readonly facts: ProbedFacts
}

type ProbedFacts = { model: string; maxModelLen: number | null }

type Refusal = Extract<Acquired, { type: 'refused' }> & { readonly by: Member }

export function openPool(options: PoolOptions): Pool {
  const { kernel, model, acquireDeadlineMs, probeDeadlineMs } = options
  let serving = 0
  const members = options.replicas.map(join)
  const pins = new Map<SessionId, Member>()
  let nextTicket = 1
  let isClosed = false

  function join(replica: PoolReplica): Member {
    const facts: ProbedFacts = { model, maxModelLen: null }
    const address = kernel.spawn(
      replicaActor({
        id: replica.id,
        url: replica.url,
        limits: replica.limits,
        probe: () => probeWithin(replica, facts),
        onServing: count,
      }),
    )
    return { replica, facts, address, outstanding: 0, sessions: 0 }
  }

  function count(isServing: boolean): void {
    serving += isServing ? 1 : -1
    if (isServing ? serving === 1 : serving === 0) options.onServing(isServing)
  }

  async function probeWithin(replica: PoolReplica, facts: ProbedFacts): Promise<ProbeResult> {
    const abort = new AbortController()
    const timer = kernel.scheduler.after(probeDeadlineMs, () => abort.abort())
    try {
      const result = await probe(replica.engine, replica.connection, model, abort.signal)
      if (result.type === 'serving') {
        facts.maxModelLen = result.maxModelLen
        facts.model = result.model
      }
      return result
    } finally {
      timer.cancel()
    }
  }

  /** A lease that is not given back would shrink the replica for ever, so a full mailbox is tried again. */
  function deliver(to: Address<ReplicaCommand>, command: ReplicaCommand): void {
    if (kernel.tell(to, command) === 'full') kernel.scheduler.after(REDELIVERY_MS, () => deliver(to, command))
  }

  function candidates(session: SessionId, avoid: ReadonlySet<ReplicaId>): readonly Member[] {
    const pinned = pins.get(session)
    const rank = (member: Member): readonly number[] => [
      avoid.has(member.replica.id) ? 1 : 0,
      // A free replica beats waiting for the warm one; among free or among busy ones the warm one wins.
      member.outstanding < member.replica.limits.inFlight ? 0 : 1,
      member === pinned ? 0 : 1,
      member.outstanding,
      member.sessions,
    ]
    return members
      .map((member) => ({ member, rank: rank(member) }))
      .sort((a, b) => compareRanks(a.rank, b.rank))
      .map(({ member }) => member)
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

  function leaseOf(member: Member, lease: number): Lease {
    let isHeld = true
    return {
      replica: member.replica,
      model: member.facts.model,
      release(outcome, weightVersion) {
        if (!isHeld) return
        isHeld = false
        member.outstanding -= 1
        deliver(member.address, { type: 'release', lease, outcome, weightVersion })
      },
    }
  }

  function pin(session: SessionId, member: Member): void {
    unpin(session)
    pins.set(session, member)
    member.sessions += 1
  }

  function unpin(session: SessionId): void {
    const pinned = pins.get(session)
    if (pinned === undefined) return
    pinned.sessions -= 1
    pins.delete(session)
  }

  return {
    async acquire(session, tier, avoid, signal) {
      const refusals: Refusal[] = []
      for (const member of candidates(session, avoid)) {
        if (signal.aborted) break
        member.outstanding += 1
        const acquired = await tryMember(member, session, tier, signal)
        if (acquired.type === 'granted' && !signal.aborted) {
          const pinned = pins.get(session)
          // A full replica keeps its sessions: their prefixes are still warm there.
          if (pinned === undefined || refusals.some(({ by, reason }) => by === pinned && reason !== 'full')) pin(session, member)
          return { ok: true, lease: leaseOf(member, acquired.lease) }
        }
        if (acquired.type === 'granted') leaseOf(member, acquired.lease).release('cancelled', null)
        else member.outstanding -= 1
        if (acquired.type === 'refused') refusals.push({ ...acquired, by: member })
      }
      return { ok: false, failure: signal.aborted ? failure('cancelled', 'the call was cancelled') : refusalOf(refusals) }
    },
    unpin,
    async countTokens(session, countable) {
      const member = pins.get(session) ?? members.find(({ facts }) => facts.model !== '')
      if (member === undefined) return null
      const abort = new AbortController()
      const timer = kernel.scheduler.after(COUNT_DEADLINE_MS, () => abort.abort())
      const { engine, connection } = member.replica
      const tokens = await engine.countTokens(countable, member.facts.model, (request) => connection.send(request, abort.signal))
      timer.cancel()
      return tokens
    },
    async views() {
      const answers = await Promise.all(
        members.map(({ address }) =>
          kernel.ask<ReplicaCommand, ReplicaView>(address, (ask) => ({ type: 'read-replica', ask }), VIEW_DEADLINE_MS),
        ),
      )
      return answers.flatMap((answer) => (answer.ok ? [answer.value] : []))
    },
    modelName: () => members.find((member) => member.facts.model !== '')?.facts.model ?? '',
    maxModelLen() {
      const known = members.flatMap(({ facts }) => (facts.maxModelLen === null ? [] : [facts.maxModelLen]))
      return known.length === 0 ? null : Math.max(...known)
    },
    async close() {
      if (isClosed) return
      isClosed = true
      for (const { address } of members) kernel.stop(address)
      await Promise.all(members.map(({ replica }) => replica.connection.close()))
    },
  }
}

/** What the caller is told when nobody served it: waiting helps when somebody is merely busy. */
function refusalOf(refusals: readonly Refusal[]): Failure {
  const busy = refusals.filter(({ reason }) => reason === 'full' || reason === 'paused')
  if (busy.length > 0) return failure('overloaded', 'every inference server is busy; try again later', { retryAfterMs: soonest(busy) })
  const down = refusals.filter(({ reason }) => reason === 'down')
  if (down.length > 0)
    return failure('engine-unreachable', 'no inference server can be reached; try again later', { retryAfterMs: soonest(down) })
  const [first] = refusals
  if (first === undefined) return failure('engine-unreachable', 'no inference server is configured')
  return failure('not-trainable', first.detail)
}

function soonest(refusals: readonly Refusal[]): number {
  return Math.min(...refusals.map(({ retryAfterMs }) => retryAfterMs))
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

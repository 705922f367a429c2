// One replica in the pool: its proxy actor, what its probe found, and how many calls and sessions use it.
import type { ReplicaId } from '../../contract/ids.ts'
import type { Address } from '../../kernel/address.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { ReplicaStatus, ReplicaView } from '../boundary.ts'
import { within } from '../deadline.ts'
import type { Engine } from '../engines/engine.ts'
import type { LogprobMode } from '../engines/logprob-mode.ts'
import { type ProbeResult, probe, type Wanted } from '../engines/probe.ts'
import { readStanding, readWeightVersion, type Standing, saysHowItStands } from '../engines/standing.ts'
import type { Connection } from '../engines/transport.ts'
import { replicaActor } from './actor.ts'
import type { ReplicaCommand } from './protocol.ts'
import type { ReplicaLimits } from './state.ts'

export type PoolReplica = {
  readonly id: ReplicaId
  readonly url: string
  /** Data-parallel rank, when its connection addresses one. */
  readonly rank: number | null
  readonly engine: Engine
  readonly connection: Connection
  readonly limits: ReplicaLimits
}

type ProbedFacts = {
  model: string
  maxModelLen: number | null
  tier: 'train' | 'eval'
  logprobMode: LogprobMode
  /** Its streams lose nothing that is captured, as far as is known. */
  streams: boolean
}

export type Member = {
  readonly replica: PoolReplica
  readonly address: Address<ReplicaCommand>
  /** What the last probe found. */
  readonly facts: ProbedFacts
  /** Aborts what is asked of it on no call's behalf. */
  readonly stop: AbortController
  readonly gone: PromiseWithResolvers<void>
  /** A probe generates, too: the one on its way is given up, and asked again later. */
  endProbe(): void
  phase: 'joined' | 'leaving' | 'gone'
  isServing: boolean
  /** The latest that it is known to have had. */
  weightVersion: string | null
  /** Calls of this thread that hold or await a place. */
  outstanding: number
  /** Sessions whose prefixes it holds. */
  sessions: number
}

export type MemberOptions = Wanted & { readonly kernel: Kernel; readonly probeDeadlineMs: number }

const VIEW_DEADLINE_MS = 1_000

/** Its first probe has begun when this returns, unless it begins in a pause. */
export function openMember(
  options: MemberOptions,
  replica: PoolReplica,
  isPaused: boolean,
  onServing: (member: Member, isServing: boolean) => void,
): Member {
  const { kernel } = options
  const facts: ProbedFacts = { model: options.model, maxModelLen: null, tier: 'eval', logprobMode: 'unknown', streams: false }
  const stop = new AbortController()
  let probing = new AbortController()
  const member: Member = {
    replica,
    facts,
    stop,
    address: kernel.spawn(
      replicaActor({
        id: replica.id,
        url: replica.url,
        limits: replica.limits,
        isPaused,
        probe() {
          probing = new AbortController()
          return probed(options, replica, facts, AbortSignal.any([stop.signal, probing.signal]))
        },
        ask: saysHowItStands(replica.engine) ? () => stoodBy(options, replica, stop.signal) : null,
        onWeights(version) {
          member.weightVersion = version
        },
        onServing: (isServing) => onServing(member, isServing),
      }),
    ),
    gone: Promise.withResolvers(),
    endProbe: () => probing.abort(),
    phase: 'joined',
    isServing: false,
    weightVersion: null,
    outstanding: 0,
    sessions: 0,
  }
  return member
}

const STANDING_DEADLINE_MS = 5_000

function stoodBy({ kernel }: MemberOptions, { engine, connection }: PoolReplica, stopped: AbortSignal): Promise<Standing> {
  return within(kernel.scheduler, STANDING_DEADLINE_MS, stopped, (cut) => readStanding(engine, connection, cut))
}

/** Null when its actor is gone, or too busy to say. */
export async function viewOf(kernel: Kernel, { replica, facts, address }: Member): Promise<ReplicaView | null> {
  const answer = await kernel.ask<ReplicaCommand, ReplicaStatus>(address, (ask) => ({ type: 'read-replica', ask }), VIEW_DEADLINE_MS)
  if (!answer.ok) return null
  const { rank, limits } = replica
  return {
    ...answer.value,
    engine: replica.engine.kind,
    role: 'engine',
    rank,
    maxInFlight: limits.inFlight,
    logprobMode: facts.logprobMode,
    maxModelLen: facts.maxModelLen,
  }
}

async function probed(
  { kernel, probeDeadlineMs, ...wanted }: MemberOptions,
  replica: PoolReplica,
  facts: ProbedFacts,
  stopped: AbortSignal,
): Promise<ProbeResult> {
  const result = await within(kernel.scheduler, probeDeadlineMs, stopped, (cut) => probe(replica.engine, replica.connection, wanted, cut))
  if (result.type === 'serving') {
    facts.maxModelLen = result.maxModelLen
    facts.model = result.model
    facts.tier = result.tier
    facts.logprobMode = result.logprobMode
    facts.streams = result.streams
  }
  // Those whose answers do not tell, tell when they are asked.
  if (result.type !== 'serving' || result.weightVersion !== null) return result
  const { engine, connection } = replica
  const read = (cut: AbortSignal) => readWeightVersion(engine, connection, cut)
  return { ...result, weightVersion: await within(kernel.scheduler, STANDING_DEADLINE_MS, stopped, read) }
}

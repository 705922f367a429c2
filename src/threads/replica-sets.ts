// What each gateway is to serve from: changed while the node runs, and given to a gateway's thread whenever that starts again.
import type { GatewayCommand } from '../actors/gateway/protocol.ts'
import type { GatewayId, ReplicaId } from '../contract/ids.ts'
import { type ReplicaChange, type ReplicaSpec, shareOf } from '../contract/replica.ts'
import type { Address } from '../kernel/address.ts'
import type { Ask } from '../kernel/ask.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ReplicaConfig } from '../proxy/boundary.ts'

export type ReplicaSets = {
  /** With every change that a gateway has confirmed so far. */
  of(gateway: GatewayId): readonly ReplicaConfig[]
  /** `sharers`: among how many gateways its cap is divided. Null when the gateway does not answer. */
  add(gateway: GatewayId, replica: ReplicaSpec, sharers: number): Promise<ReplicaChange | null>
  /** Null when the gateway does not answer. */
  remove(gateway: GatewayId, replica: ReplicaId): Promise<ReplicaChange | null>
}

const CHANGE_DEADLINE_MS = 5_000

/** `addressOf`: a gateway's actor; undefined while its thread is gone. */
export function openReplicaSets(
  kernel: Kernel,
  begun: readonly { readonly gateway: GatewayId; readonly replicas: readonly ReplicaConfig[] }[],
  addressOf: (gateway: GatewayId) => Address<GatewayCommand> | undefined,
): ReplicaSets {
  const sets = new Map(begun.map(({ gateway, replicas }) => [gateway, replicas]))
  const of = (gateway: GatewayId): readonly ReplicaConfig[] => sets.get(gateway) ?? []

  async function change(gateway: GatewayId, make: (ask: Ask<ReplicaChange>) => GatewayCommand): Promise<ReplicaChange | null> {
    const address = addressOf(gateway)
    if (address === undefined) return null
    const answer = await kernel.ask<GatewayCommand, ReplicaChange>(address, make, CHANGE_DEADLINE_MS)
    return answer.ok ? answer.value : null
  }

  return {
    of,
    async add(gateway, spec, sharers) {
      const replica = replicaConfig(spec, sharers)
      const changed = await change(gateway, (ask) => ({ type: 'add-replica', replica, ask }))
      if (changed?.ok === true) sets.set(gateway, [...of(gateway), replica])
      return changed
    },
    async remove(gateway, id) {
      const changed = await change(gateway, (ask) => ({ type: 'remove-replica', replica: id, ask }))
      if (changed?.ok === true) {
        sets.set(
          gateway,
          of(gateway).filter((replica) => replica.id !== id),
        )
      }
      return changed
    },
  }
}

/** One gateway's part of it. */
export function replicaConfig(spec: ReplicaSpec, sharers: number): ReplicaConfig {
  const { id, url, engine, maxInFlight, maxWaiting, dataParallelRanks, isRouter } = spec
  return {
    id,
    url,
    engine,
    inFlight: shareOf(maxInFlight, sharers),
    line: maxWaiting,
    ...(dataParallelRanks === null ? {} : { ranks: dataParallelRanks }),
    ...(isRouter ? { router: true } : {}),
  }
}

// What each gateway is to serve from: changed while the node runs, and given to a gateway's thread whenever that starts again.
import type { GatewayCommand } from '../actors/gateway/protocol.ts'
import type { GatewayId, ReplicaId } from '../contract/ids.ts'
import { type GatewayChange, type ReplicaChange, type ReplicaSpec, shareOf } from '../contract/replica.ts'
import type { Address } from '../kernel/address.ts'
import type { Ask } from '../kernel/ask.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { ReplicaConfig } from '../proxy/boundary.ts'

/** One change at a time: none is seen half done by another. */
export type ReplicaSets = {
  /** With every change that a gateway has confirmed so far. */
  of(gateway: GatewayId): readonly ReplicaConfig[]
  /** To all of them, among whom its cap is divided, or to none; null when all took it, else who did not. */
  add(gateways: readonly GatewayId[], replica: ReplicaSpec): Promise<GatewayChange | null>
  /** From each of them that has it. */
  remove(gateways: readonly GatewayId[], replica: ReplicaId): Promise<readonly GatewayChange[]>
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
  let last: Promise<unknown> = Promise.resolve()

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = last.then(work)
    last = turn.catch(() => {})
    return turn
  }

  async function change(gateway: GatewayId, make: (ask: Ask<ReplicaChange>) => GatewayCommand): Promise<ReplicaChange | null> {
    const address = addressOf(gateway)
    if (address === undefined) return null
    const answer = await kernel.ask<GatewayCommand, ReplicaChange>(address, make, CHANGE_DEADLINE_MS)
    return answer.ok ? answer.value : null
  }

  async function addTo(gateway: GatewayId, replica: ReplicaConfig): Promise<ReplicaChange | null> {
    const changed = await change(gateway, (ask) => ({ type: 'add-replica', replica, ask }))
    if (changed?.ok === true) sets.set(gateway, [...of(gateway), replica])
    // It may have been too busy to say so, and add it yet: what it reads after that takes it back.
    else if (changed === null) void removeFrom(gateway, replica.id)
    return changed
  }

  async function removeFrom(gateway: GatewayId, id: ReplicaId): Promise<ReplicaChange | null> {
    const changed = await change(gateway, (ask) => ({ type: 'remove-replica', replica: id, ask }))
    // Who does not know it may have removed it without our hearing of that.
    if (changed !== null && (changed.ok || changed.error === 'unknown')) {
      sets.set(
        gateway,
        of(gateway).filter((replica) => replica.id !== id),
      )
    }
    return changed
  }

  return {
    of,
    add: (gateways, spec) =>
      inTurn(async () => {
        const replica = replicaConfig(spec, gateways.length)
        const added: GatewayId[] = []
        for (const gateway of gateways) {
          const changed = await addTo(gateway, replica)
          if (changed?.ok !== true) {
            for (const other of added) await removeFrom(other, replica.id)
            return { gateway, change: changed }
          }
          added.push(gateway)
        }
        return null
      }),
    remove: (gateways, id) =>
      inTurn(() => Promise.all(gateways.map(async (gateway) => ({ gateway, change: await removeFrom(gateway, id) })))),
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

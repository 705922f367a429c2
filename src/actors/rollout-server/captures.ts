// Places for captures: each is taken when one is admitted and freed when it has ended, so a gateway never holds more than its limit.
import type { GatewayId } from '../../contract/ids.ts'
import type { GatewayEntry, ServerState, TaskEntry } from './entries.ts'
import { gatewayOf, kindOf, putGateway } from './turn.ts'

/** `wanted` null: the gateway with the most room for its size. Null: none has room now. */
export function roomForCapture({ gateways }: ServerState, wanted: GatewayId | null): GatewayId | null {
  let best: GatewayEntry | null = null
  for (const gateway of gateways.values()) {
    const isCandidate = wanted === null ? !gateway.draining : gateway.gateway === wanted
    if (!isCandidate || !gateway.healthy || gateway.captures >= gateway.limits.maxCaptures) continue
    if (best === null || loadOf(gateway) < loadOf(best) || (loadOf(gateway) === loadOf(best) && gateway.gateway < best.gateway)) {
      best = gateway
    }
  }
  return best?.gateway ?? null
}

/** Nothing to do for a task whose sessions are no captures. */
export function takeCapture(state: ServerState, task: TaskEntry): ServerState {
  return addCaptures(state, task, 1)
}

export function freeCapture(state: ServerState, task: TaskEntry): ServerState {
  return addCaptures(state, task, -1)
}

function addCaptures(state: ServerState, task: TaskEntry, count: number): ServerState {
  const id = task.single?.gateway ?? null
  if (id === null || kindOf(task) !== 'capture') return state
  const gateway = gatewayOf(state, id)
  return putGateway(state, { ...gateway, captures: gateway.captures + count })
}

function loadOf({ captures, limits }: GatewayEntry): number {
  return captures / limits.maxCaptures
}

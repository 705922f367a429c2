// What is known of each gateway: its start, its loss, the room it announces, and whether it is to get sessions at all.
import type { GatewayId } from '../../contract/ids.ts'
import { itemsOf } from '../roster.ts'
import { lookUp } from '../table.ts'
import { attemptAgain, mayAttemptAgain } from './endings.ts'
import type { GatewayEntry, RolloutServerSignal } from './entries.ts'
import type { RolloutServerCommand } from './protocol.ts'
import { lostWith, settleLater, settlingEntry } from './settling.ts'
import { withdraw } from './stops.ts'
import { findDispatched, putGateway, putTask, reply, type Turn, withSession } from './turn.ts'
import { gatewayView, isListed } from './views.ts'

const NO_LINES: GatewayEntry['lines'] = { agent: [], capture: [] }

export function startGateway(turn: Turn, message: Extract<RolloutServerCommand, { readonly type: 'gateway-started' }>) {
  // A new start under a known id means that the old one is gone, whether or not anybody said so.
  loseGateway(turn, message.gateway)
  const { gateway, address, url, limits } = message
  const known = turn.state.gateways.get(gateway)
  turn.state = putGateway(turn.state, {
    gateway,
    address,
    url,
    limits,
    healthy: true,
    demand: 0,
    held: false,
    agents: 0,
    draining: known?.draining ?? false,
    captures: known?.captures ?? 0,
    lines: known?.lines ?? NO_LINES,
  })
}

export function loseGateway(turn: Turn, id: GatewayId) {
  const gateway = turn.state.gateways.get(id)
  if (gateway === undefined || !gateway.healthy) return
  turn.state = putGateway(turn.state, { ...gateway, healthy: false, demand: 0, held: false, agents: 0 })
  const ending = []
  for (const session of sessionsOf(turn, id)) {
    const holding = findDispatched(turn.state, session)
    if (holding === null) continue
    if (mayAttemptAgain(turn, holding)) {
      attemptAgain(turn, holding, lostWith(id))
      continue
    }
    const { task, sample, entry } = holding
    turn.state = putTask(turn.state, withSession(task, sample, settlingEntry(turn, task, entry, entry.stop ?? 'gateway lost')))
    ending.push(session)
  }
  settleLater(turn, ending)
}

/** By looking at every task that runs: it is asked only when a gateway is lost. */
function sessionsOf({ state }: Turn, id: GatewayId) {
  return state.order.flatMap((task) => {
    const entry = lookUp(state.tasks, task)
    if (entry?.phase !== 'active') return []
    return itemsOf(entry.sessions).flatMap((held) => (held.phase === 'dispatched' && held.gateway === id ? [held.session] : []))
  })
}

/**
 * A stopped gateway took its sessions with it; its supervisor may or may not have said so yet. What was sent to it in this same turn never
 * left and must not count as an attempt, so each of those refusals is heard before the gateway is given up.
 */
export function suspectGateway(turn: Turn, id: GatewayId) {
  const gateway = turn.state.gateways.get(id)
  if (gateway === undefined) return
  const { incarnation } = gateway.address
  turn.effects.push({ type: 'after', delayMs: 0, message: { type: 'gateway-stopped', gateway: id, incarnation } })
}

/** The next incarnation may have started meanwhile. */
export function stopGateway(turn: Turn, { gateway, incarnation }: Extract<RolloutServerSignal, { readonly type: 'gateway-stopped' }>) {
  if (turn.state.gateways.get(gateway)?.address.incarnation === incarnation) loseGateway(turn, gateway)
}

export function addDemand(turn: Turn, id: GatewayId, slots: number) {
  const gateway = turn.state.gateways.get(id)
  if (gateway?.healthy !== true) return
  turn.state = putGateway(turn.state, { ...gateway, demand: gateway.demand + slots, held: false })
}

export function releaseGateway(turn: Turn, id: GatewayId) {
  const gateway = turn.state.gateways.get(id)
  if (gateway !== undefined) turn.state = putGateway(turn.state, { ...gateway, held: false })
}

export function drainGateway(turn: Turn, { gateway: id, ask }: Extract<RolloutServerCommand, { readonly type: 'drain-gateway' }>) {
  const gateway = turn.state.gateways.get(id)
  if (gateway === undefined || !isListed(gateway)) return reply(turn, ask, null)
  turn.state = putGateway(turn.state, { ...gateway, draining: true })
  for (const { task: waiting } of [...gateway.lines.agent, ...gateway.lines.capture]) {
    const task = lookUp(turn.state.tasks, waiting)
    if (task?.phase === 'active') withdraw(turn, task, 'its gateway is draining')
  }
  answerView(turn, id, ask)
}

export function enrolGateway(turn: Turn, { gateway: id, ask }: Extract<RolloutServerCommand, { readonly type: 'enrol-gateway' }>) {
  const gateway = turn.state.gateways.get(id)
  if (gateway === undefined) return reply(turn, ask, null)
  turn.state = putGateway(turn.state, { ...gateway, draining: false })
  answerView(turn, id, ask)
}

function answerView(turn: Turn, id: GatewayId, ask: Extract<RolloutServerCommand, { readonly type: 'enrol-gateway' }>['ask']) {
  const gateway = turn.state.gateways.get(id)
  reply(turn, ask, gateway === undefined ? null : gatewayView(turn.state, gateway))
}

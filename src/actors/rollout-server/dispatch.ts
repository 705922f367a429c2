// Which pending session goes to which gateway, and what is known of each gateway.
import type { GatewayId, SessionId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import { lookUp } from '../table.ts'
import { attemptAgain, endWithoutReport, lostWith, mayAttemptAgain } from './endings.ts'
import type { ActiveTask, GatewayEntry, RolloutServerSignal, ServerState, SessionEntry } from './entries.ts'
import type { RolloutServerCommand } from './protocol.ts'
import { dequeue } from './queue.ts'
import { findDispatched, publishSession, putBack, putGateway, putTask, sendCancel, type Turn, withSession } from './turn.ts'

const GATEWAY_REST_MS = 1_000
const CANCEL_AGAIN_MS = 1_000

/** Sends pending sessions while some gateway has announced room; a session is never sent without. */
export function dispatch(turn: Turn) {
  for (;;) {
    const first = turn.state.queue[0]
    if (first === undefined) return
    const gateway = leastLoaded(turn.state)
    if (gateway === null) return
    const task = lookUp(turn.state.tasks, first.task)
    const sample = task?.waiting[0]
    const session = sample === undefined ? undefined : task?.sessions[sample]
    if (task?.phase !== 'active' || sample === undefined || session?.phase !== 'pending') {
      throw new Error(`task ${first.task} is queued without a pending session`)
    }
    send(turn, task, sample, session, gateway)
  }
}

export function startGateway(turn: Turn, message: Extract<RolloutServerCommand, { readonly type: 'gateway-started' }>) {
  // A new start under a known id means that the old one is gone, whether or not anybody said so.
  loseGateway(turn, message.gateway)
  const { gateway, address, url, limits } = message
  turn.state = putGateway(turn.state, { gateway, address, url, limits, healthy: true, demand: 0, held: false, sessions: [] })
}

export function loseGateway(turn: Turn, id: GatewayId) {
  const gateway = turn.state.gateways.get(id)
  if (gateway === undefined || !gateway.healthy) return
  turn.state = putGateway(turn.state, { ...gateway, healthy: false, demand: 0, held: false, sessions: [] })
  for (const session of gateway.sessions) {
    const holding = findDispatched(turn.state, session)
    if (holding === null) continue
    if (mayAttemptAgain(turn, holding)) attemptAgain(turn, holding, lostWith(id))
    else endWithoutReport(turn, holding, holding.entry.stop ?? 'gateway lost')
  }
}

/**
 * A stopped gateway took its sessions with it; its supervisor may or may not have said so yet. What was sent to it in this same turn never
 * left and must not count as an attempt, so each of those refusals is heard before the gateway is given up.
 */
function suspectGateway(turn: Turn, id: GatewayId) {
  const gateway = turn.state.gateways.get(id)
  if (gateway === undefined) return
  const { incarnation } = gateway.address
  turn.effects.push({ type: 'after', delayMs: 0, message: { type: 'gateway-stopped', gateway: id, incarnation } })
}

/** The next incarnation may have started meanwhile. */
export function stopGateway(turn: Turn, id: GatewayId, incarnation: number) {
  if (turn.state.gateways.get(id)?.address.incarnation === incarnation) loseGateway(turn, id)
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

/** The session never left: it takes its place in the queue again, and its reservation is still free. */
export function dispatchRefused(turn: Turn, refusal: Extract<RolloutServerSignal, { readonly type: 'dispatch-refused' }>) {
  const holding = findDispatched(turn.state, refusal.session)
  if (holding === null || holding.entry.attempt !== refusal.attempt || holding.entry.gateway !== refusal.gateway) return
  const gateway = turn.state.gateways.get(refusal.gateway)
  if (gateway !== undefined) {
    turn.state = putGateway(turn.state, {
      ...gateway,
      demand: gateway.demand + 1,
      held: true,
      sessions: gateway.sessions.filter((session) => session !== refusal.session),
    })
  }
  const stop = holding.entry.stop ?? (turn.state.admission === 'stopped' ? 'node is stopping' : null)
  if (stop === null) putBack(turn, holding, holding.entry.attempt)
  else endWithoutReport(turn, holding, stop)
  if (refusal.offer === 'stopped') return suspectGateway(turn, refusal.gateway)
  turn.effects.push({ type: 'after', delayMs: GATEWAY_REST_MS, message: { type: 'gateway-rested', gateway: refusal.gateway } })
}

export function cancelRefused(turn: Turn, refusal: Extract<RolloutServerSignal, { readonly type: 'cancel-refused' }>) {
  const holding = findDispatched(turn.state, refusal.session)
  if (holding === null || holding.entry.attempt !== refusal.attempt || holding.entry.gateway !== refusal.gateway) return
  if (refusal.offer === 'stopped') return suspectGateway(turn, refusal.gateway)
  const { session, attempt } = refusal
  turn.effects.push({ type: 'after', delayMs: CANCEL_AGAIN_MS, message: { type: 'cancel-again', session, attempt } })
}

export function cancelAgain(turn: Turn, session: SessionId, attempt: number) {
  const holding = findDispatched(turn.state, session)
  if (holding === null || holding.entry.attempt !== attempt || holding.entry.stop === null) return
  sendCancel(turn, holding.entry, holding.entry.stop)
}

export function changeStatus(turn: Turn, session: SessionId, attempt: number, status: SessionStatus) {
  const holding = findDispatched(turn.state, session)
  if (holding === null || holding.entry.attempt !== attempt || holding.entry.status === status) return
  // The end is told by `session-finished`, which carries the result's summary.
  if (status === 'COMPLETED' || status === 'ERROR' || status === 'TIMEOUT') return
  const { task, sample, entry } = holding
  turn.state = putTask(turn.state, withSession(task, sample, { ...entry, status }))
  publishSession(turn, task.task, session, attempt, status)
}

function send(
  turn: Turn,
  task: ActiveTask,
  sample: number,
  { session, attempt }: Extract<SessionEntry, { readonly phase: 'pending' }>,
  gateway: GatewayEntry,
) {
  const waiting = task.waiting.slice(1)
  const entry: SessionEntry = {
    phase: 'dispatched',
    session,
    attempt,
    gateway: gateway.gateway,
    status: 'REGISTERED',
    dispatchedAtMs: turn.now.nowMs,
    stop: null,
  }
  const state = putTask(turn.state, { ...withSession(task, sample, entry), waiting })
  turn.state = {
    ...putGateway(state, { ...gateway, demand: gateway.demand - 1, sessions: [...gateway.sessions, session] }),
    queue: waiting.length === 0 ? dequeue(state.queue, task.task) : state.queue,
    pendingSessions: state.pendingSessions - 1,
  }
  turn.effects.push({
    type: 'open-session',
    gateway: gateway.gateway,
    to: gateway.address,
    spec: {
      kind: 'agent',
      session,
      task: task.task,
      attempt,
      maxAttempts: turn.state.limits.maxAttempts,
      sampleIndex: sample,
      priority: task.request.dispatch_priority,
      request: task.request,
      registeredMsAgo: turn.now.nowMs - task.admittedAtMs,
    },
  })
}

/** Sessions held per place, so that a big gateway takes its share; then by id, so that the choice is reproducible. */
function leastLoaded(state: ServerState): GatewayEntry | null {
  let best: GatewayEntry | null = null
  for (const gateway of state.gateways.values()) {
    if (!gateway.healthy || gateway.held || gateway.demand <= 0) continue
    if (best === null || loadOf(gateway) < loadOf(best) || (loadOf(gateway) === loadOf(best) && gateway.gateway < best.gateway)) {
      best = gateway
    }
  }
  return best
}

function loadOf({ sessions, limits }: GatewayEntry): number {
  return sessions.length / (limits.maxReadySessions + limits.maxRunWorkers + limits.maxPostrunWorkers)
}

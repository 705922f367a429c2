// Which pending session goes to which gateway, and what comes back from one while it holds a session.
import type { SessionId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import { itemAt } from '../roster.ts'
import { lookUp } from '../table.ts'
import { maxAttemptsOf } from './endings.ts'
import type { ActiveTask, DispatchedSession, GatewayEntry, QueuedTask, RolloutServerSignal, ServerState } from './entries.ts'
import { suspectGateway } from './gateways.ts'
import { comesBefore } from './queue.ts'
import { endWithoutReport } from './settling.ts'
import {
  findDispatched,
  forget,
  kindOf,
  nameOf,
  publishSession,
  putBack,
  putGateway,
  putTask,
  sendCancel,
  type Turn,
  takeOutOfLine,
  withSession,
} from './turn.ts'

const GATEWAY_REST_MS = 1_000
const CANCEL_AGAIN_MS = 1_000

/** Sends pending sessions while some gateway has announced room; a session with an agent is never sent without. */
export function dispatch(turn: Turn) {
  for (let next = nextSend(turn.state); next !== null; next = nextSend(turn.state)) {
    const task = lookUp(turn.state.tasks, next.item.task)
    if (task?.phase !== 'active' || task.pending === 0) throw new Error(`task ${next.item.task} is in line without a pending session`)
    send(turn, task, next.gateway)
  }
}

type Send = { readonly item: QueuedTask; readonly gateway: GatewayEntry }

/** The first in line of all that may go somewhere now: who waits for one busy gateway holds up nobody else. */
function nextSend({ gateways, line }: ServerState): Send | null {
  let pinned: Send | null = null
  let free: GatewayEntry | null = null
  for (const gateway of gateways.values()) {
    if (!isOpen(gateway)) continue
    const [capture] = gateway.lines.capture
    // Its place was kept for it when it was admitted.
    if (capture !== undefined) return { item: capture, gateway }
    if (gateway.demand <= 0) continue
    const [own] = gateway.lines.agent
    if (own !== undefined && (pinned === null || comesBefore(own, pinned.item))) pinned = { item: own, gateway }
    if (free === null || isLessLoaded(gateway, free)) free = gateway
  }
  const [first] = line
  if (first === undefined || free === null) return pinned
  return pinned !== null && comesBefore(pinned.item, first) ? pinned : { item: first, gateway: free }
}

/** The session never left: it takes its place in line again, and its reservation is still free. */
export function dispatchRefused(turn: Turn, refusal: Extract<RolloutServerSignal, { readonly type: 'dispatch-refused' }>) {
  const holding = findDispatched(turn.state, refusal.session)
  if (holding === null || holding.entry.attempt !== refusal.attempt || holding.entry.gateway !== refusal.gateway) return
  const { task, sample, entry } = holding
  turn.state = forget(turn.state, holding)
  const gateway = turn.state.gateways.get(refusal.gateway)
  if (gateway !== undefined) {
    const demand = gateway.demand + (kindOf(task) === 'agent' ? 1 : 0)
    turn.state = putGateway(turn.state, { ...gateway, demand, held: true })
  }
  const stop = entry.stop ?? (turn.state.admission === 'stopped' ? 'node is stopping' : null)
  if (stop === null) putBack(turn, holding, entry)
  else endWithoutReport(turn, task, sample, entry, stop)
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
  publishSession(turn, task, entry, status)
}

function send(turn: Turn, task: ActiveTask, gateway: GatewayEntry) {
  const sample = nextPending(task)
  const pending = itemAt(task.sessions, sample)
  if (pending === undefined) throw new Error(`task ${task.task} has no sample ${sample}`)
  const { session, attempt, earlier } = pending
  const entry: DispatchedSession = {
    phase: 'dispatched',
    session,
    attempt,
    earlier,
    gateway: gateway.gateway,
    status: 'REGISTERED',
    dispatchedAtMs: turn.now.nowMs,
    stop: null,
  }
  const sent = { ...withSession(task, sample, entry), firstPending: sample + 1 }
  const kind = kindOf(task)
  const state = putTask(turn.state, sent)
  const taken = kind === 'agent' ? { ...gateway, demand: gateway.demand - 1, agents: gateway.agents + 1 } : gateway
  const rest = putGateway({ ...state, pendingSessions: state.pendingSessions - 1 }, taken)
  turn.state = sent.pending === 0 ? takeOutOfLine(rest, sent) : rest
  turn.effects.push({
    type: 'open-session',
    gateway: gateway.gateway,
    to: gateway.address,
    spec: {
      kind,
      session,
      task: nameOf(task),
      key: task.task,
      attempt,
      maxAttempts: maxAttemptsOf(task, turn.state.limits.maxAttempts),
      sampleIndex: sample,
      priority: task.request.dispatch_priority,
      request: task.request,
      registeredMsAgo: turn.now.nowMs - task.admittedAtMs,
    },
  })
  publishSession(turn, task, entry, 'DISPATCHING')
}

function nextPending({ sessions, firstPending }: ActiveTask): number {
  let sample = firstPending
  while (sample < sessions.length && itemAt(sessions, sample)?.phase !== 'pending') sample += 1
  return sample
}

function isOpen({ healthy, held, draining }: GatewayEntry): boolean {
  return healthy && !held && !draining
}

/**
 * Sessions held per place, so that a big gateway takes its share; then by id, so that the choice is reproducible. Nothing else is weighed:
 * a gateway whose stages are backed up announces no room.
 */
function isLessLoaded(a: GatewayEntry, b: GatewayEntry): boolean {
  const [loadA, loadB] = [loadOf(a), loadOf(b)]
  return loadA < loadB || (loadA === loadB && a.gateway < b.gateway)
}

function loadOf({ agents, limits }: GatewayEntry): number {
  return agents / (limits.maxReadySessions + limits.maxRunWorkers + limits.maxPostrunWorkers)
}

// The stage pools of one gateway thread: who may initialise, who waits in READY, who runs, who is being finished.
import type { ModelUse } from '../../contract/call.ts'
import type { SessionId } from '../../contract/ids.ts'
import type { SessionStatus } from '../../contract/outcome.ts'
import type { Ask } from '../../kernel/ask.ts'
import type { Mailbox } from '../../kernel/mailbox.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { SessionCommand } from '../session/protocol.ts'
import { emptyTable, insert, lookUp, remove, type Table, values } from '../table.ts'
import type { GatewayCommand, GatewayLimits, GatewayMetrics, GatewaySessionView, SessionSpec } from './protocol.ts'

type Stage = 'capturing' | 'init-queued' | 'init' | 'ready' | 'running' | 'post-run-queued' | 'post-run'

type Entry = {
  readonly spec: SessionSpec
  readonly stage: Stage
  /** A place in READY that the session has not taken, or will never take. */
  readonly holdsReservation: boolean
  readonly status: SessionStatus
  readonly calls: number
  readonly model: ModelUse | null
  readonly openedAtMs: number
  readonly changedAtMs: number
}

export type GatewayState = {
  readonly limits: GatewayLimits
  readonly sessions: Table<SessionId, Entry>
  readonly counts: Readonly<Record<Stage, number>>
  /** Higher priority first, then arrival. */
  readonly initQueue: readonly SessionId[]
  readonly postRunQueue: readonly SessionId[]
  /** The READY stage: every demand this gateway has announced, and every session in INIT, holds a reservation in it. */
  readonly ready: Mailbox<SessionId>
  readonly arenaPressure: boolean
  readonly isEngineAvailable: boolean
  readonly areCallsHeld: boolean
  readonly draining: readonly Ask<void>[]
}

export type GatewayEffect =
  | { readonly type: 'spawn-session'; readonly spec: SessionSpec }
  | { readonly type: 'tell-session'; readonly session: SessionId; readonly message: SessionCommand }
  | { readonly type: 'forget-session'; readonly session: SessionId }
  | { readonly type: 'announce-demand'; readonly slots: number }
  | { readonly type: 'announce-status'; readonly session: SessionId; readonly attempt: number; readonly status: SessionStatus }
  | { readonly type: 'drained'; readonly asks: readonly Ask<void>[] }

type Step = readonly [GatewayState, readonly GatewayEffect[]]

/** Announces the whole READY capacity as demand: nothing is dispatched that has no place to wait. */
export function openGateway(limits: GatewayLimits, ready: Mailbox<SessionId>): Step {
  let slots = 0
  while (ready.reserve()) slots += 1
  const state: GatewayState = {
    limits,
    sessions: emptyTable(),
    counts: { capturing: 0, 'init-queued': 0, init: 0, ready: 0, running: 0, 'post-run-queued': 0, 'post-run': 0 },
    initQueue: [],
    postRunQueue: [],
    ready,
    arenaPressure: false,
    isEngineAvailable: false,
    areCallsHeld: false,
    draining: [],
  }
  return [state, [{ type: 'announce-demand', slots }]]
}

export function step(
  state: GatewayState,
  message: Exclude<
    GatewayCommand,
    {
      type:
        | 'announce-demand'
        | 'add-replica'
        | 'remove-replica'
        | 'read-gateway'
        | 'session-crashed'
        | 'read-access'
        | 'finish-capture'
        | 'read-completions'
        | 'count-calls'
        | 'read-inference'
        | 'pause-inference'
        | 'resume-inference'
    }
  >,
  nowMs: number,
): Step {
  switch (message.type) {
    case 'open-session':
      return open(state, message.spec, nowMs)
    case 'cancel-session':
      return lookUp(state.sessions, message.session) !== undefined
        ? [state, [{ type: 'tell-session', session: message.session, message: { type: 'cancel', reason: message.reason } }]]
        : [state, []]
    case 'session-prepared':
      return prepared(state, message.session, nowMs)
    case 'session-left-run':
      return leftRun(state, message.session, nowMs)
    case 'session-closed':
      return closed(state, message.session)
    case 'session-status': {
      const entry = lookUp(state.sessions, message.session)
      if (entry === undefined) return [state, []]
      const { status, calls, model } = message
      const next = put(state, { ...entry, status, calls, model, changedAtMs: nowMs })
      const isNews = entry.status !== message.status
      return [
        next,
        isNews ? [{ type: 'announce-status', session: message.session, attempt: entry.spec.attempt, status: message.status }] : [],
      ]
    }
    case 'arena-pressure':
      return grant({ ...state, arenaPressure: message.high }, [])
    case 'engine-available':
      return grant({ ...state, isEngineAvailable: message.isAvailable }, [])
    case 'calls-held':
      return holdCalls(state, message.isHeld)
    case 'drain':
      return settleDrain({ ...state, draining: [...state.draining, message.ask] }, [])
    default:
      return unreachable(message)
  }
}

export function metricsOf(state: GatewayState): Omit<GatewayMetrics, 'arena'> {
  const inStage = (stage: Stage): number => count(state, stage)
  return {
    initQueueDepth: inStage('init-queued'),
    initInflight: inStage('init'),
    readyDepth: inStage('ready'),
    runInflight: inStage('running'),
    postrunQueueDepth: inStage('post-run-queued'),
    postrunInflight: inStage('post-run'),
  }
}

/** Its door is open, as far as the gateway knows. */
export function isCapturing(state: GatewayState, session: SessionId): boolean {
  return lookUp(state.sessions, session)?.stage === 'capturing'
}

export function callsOf(state: GatewayState, session: SessionId): number {
  return lookUp(state.sessions, session)?.calls ?? 0
}

export function specOf(state: GatewayState, session: SessionId): SessionSpec | null {
  return lookUp(state.sessions, session)?.spec ?? null
}

export function sessionsOf(state: GatewayState, nowMs: number): readonly GatewaySessionView[] {
  const longestHere = [...values(state.sessions)].toSorted((a, b) => a.openedAtMs - b.openedAtMs)
  return longestHere.map((entry) => ({
    session: entry.spec.session,
    task: entry.spec.task,
    attempt: entry.spec.attempt,
    status: entry.status,
    ageMs: nowMs - entry.openedAtMs,
    idleMs: nowMs - entry.changedAtMs,
    calls: entry.calls,
    model: entry.model,
  }))
}

function open(state: GatewayState, spec: SessionSpec, nowMs: number): Step {
  const entry: Entry = {
    spec,
    stage: 'init-queued',
    holdsReservation: true,
    status: 'REGISTERED',
    calls: 0,
    model: null,
    openedAtMs: nowMs,
    changedAtMs: nowMs,
  }
  if (spec.kind === 'capture') return openCapture(state, { ...entry, stage: 'capturing', holdsReservation: false })
  const before = state.initQueue.findLastIndex((id) => (lookUp(state.sessions, id)?.spec.priority ?? 0) >= spec.priority)
  const initQueue = state.initQueue.toSpliced(before + 1, 0, spec.session)
  return grant({ ...put(state, entry), initQueue }, spawn(state, spec))
}

/** It runs nowhere here: until POSTRUN it takes no place of any stage. */
function openCapture(state: GatewayState, entry: Entry): Step {
  const { spec } = entry
  const begin: GatewayEffect = { type: 'tell-session', session: spec.session, message: { type: 'begin-capture' } }
  return [put(state, entry), [...spawn(state, spec), begin]]
}

/** A session begins with its time running. */
function spawn({ areCallsHeld }: GatewayState, spec: SessionSpec): readonly GatewayEffect[] {
  const spawned: GatewayEffect = { type: 'spawn-session', spec }
  return areCallsHeld ? [spawned, tellHeld(spec.session, true)] : [spawned]
}

function holdCalls(state: GatewayState, isHeld: boolean): Step {
  if (state.areCallsHeld === isHeld) return [state, []]
  return [{ ...state, areCallsHeld: isHeld }, [...values(state.sessions)].map(({ spec }) => tellHeld(spec.session, isHeld))]
}

function tellHeld(session: SessionId, isHeld: boolean): GatewayEffect {
  return { type: 'tell-session', session, message: { type: 'calls-held', isHeld } }
}

function prepared(state: GatewayState, session: SessionId, nowMs: number): Step {
  const entry = lookUp(state.sessions, session)
  if (entry?.stage !== 'init') return [state, []]
  state.ready.put(session)
  return grant(put(state, { ...entry, stage: 'ready', holdsReservation: false, changedAtMs: nowMs }), [])
}

/** From any stage before POSTRUN: the agent is gone, or never was. A READY place is kept until POSTRUN has room. */
function leftRun(state: GatewayState, session: SessionId, nowMs: number): Step {
  const entry = lookUp(state.sessions, session)
  if (entry === undefined || entry.stage === 'post-run-queued' || entry.stage === 'post-run') return [state, []]
  let holdsReservation = entry.holdsReservation
  if (entry.stage === 'ready') {
    // Leaving the mailbox from the middle frees a place; it is reserved again at once so that READY stays within its bound.
    state.ready.remove((id) => id === session)
    holdsReservation = state.ready.reserve()
  }
  const next = put(state, { ...entry, stage: 'post-run-queued', holdsReservation, changedAtMs: nowMs })
  const initQueue = entry.stage === 'init-queued' ? next.initQueue.filter((id) => id !== session) : next.initQueue
  return grant({ ...next, initQueue, postRunQueue: [...next.postRunQueue, session] }, [])
}

function closed(state: GatewayState, session: SessionId): Step {
  const entry = lookUp(state.sessions, session)
  if (entry === undefined) return [state, []]
  if (entry.stage === 'ready') state.ready.remove((id) => id === session)
  if (entry.holdsReservation) state.ready.releaseReservation()
  const without = (queue: readonly SessionId[], stage: Stage) => (entry.stage === stage ? queue.filter((id) => id !== session) : queue)
  const next: GatewayState = {
    ...state,
    sessions: remove(state.sessions, session),
    counts: moved(state.counts, entry.stage, null),
    initQueue: without(state.initQueue, 'init-queued'),
    postRunQueue: without(state.postRunQueue, 'post-run-queued'),
  }
  return settleDrain(...grant(next, [{ type: 'forget-session', session }]))
}

/** Fills every stage that has room, from the end of the pipeline to its start. */
function grant(state: GatewayState, before: readonly GatewayEffect[]): Step {
  const effects = [...before]
  let next = state

  while (next.postRunQueue.length > 0 && count(next, 'post-run') < next.limits.maxPostrunWorkers) {
    const [session] = next.postRunQueue
    const postRunQueue = next.postRunQueue.slice(1)
    const entry = session === undefined ? undefined : lookUp(next.sessions, session)
    next = { ...next, postRunQueue }
    if (entry === undefined) continue
    if (entry.holdsReservation) next.ready.releaseReservation()
    next = put(next, { ...entry, stage: 'post-run', holdsReservation: false })
    effects.push({ type: 'tell-session', session: entry.spec.session, message: { type: 'begin-post-run' } })
  }

  const isPostRunBehind = next.postRunQueue.length >= next.limits.maxPostrunWorkers
  const mayRun = next.isEngineAvailable && !next.arenaPressure && !isPostRunBehind
  while (mayRun && count(next, 'running') < next.limits.maxRunWorkers) {
    const session = next.ready.take()
    if (session === undefined) break
    const entry = lookUp(next.sessions, session)
    if (entry === undefined) continue
    next = put(next, { ...entry, stage: 'running' })
    effects.push({ type: 'tell-session', session, message: { type: 'begin-run' } })
  }

  while (next.initQueue.length > 0 && count(next, 'init') < next.limits.maxInitWorkers) {
    const [session] = next.initQueue
    const initQueue = next.initQueue.slice(1)
    const entry = session === undefined ? undefined : lookUp(next.sessions, session)
    next = { ...next, initQueue }
    if (entry === undefined) continue
    next = put(next, { ...entry, stage: 'init' })
    effects.push({ type: 'tell-session', session: entry.spec.session, message: { type: 'begin-init' } })
  }

  if (next.draining.length === 0) {
    let slots = 0
    while (next.ready.reserve()) slots += 1
    if (slots > 0) effects.push({ type: 'announce-demand', slots })
  }
  return [next, effects]
}

function settleDrain(state: GatewayState, effects: readonly GatewayEffect[]): Step {
  if (state.draining.length === 0 || state.sessions.size > 0) return [state, effects]
  return [{ ...state, draining: [] }, [...effects, { type: 'drained', asks: state.draining }]]
}

function put(state: GatewayState, entry: Entry): GatewayState {
  const { session } = entry.spec
  const counts = moved(state.counts, lookUp(state.sessions, session)?.stage ?? null, entry.stage)
  return { ...state, sessions: insert(state.sessions, session, entry), counts }
}

function count({ counts }: GatewayState, stage: Stage): number {
  return counts[stage]
}

/** Null: it was, or will be, in none. */
function moved(counts: GatewayState['counts'], from: Stage | null, to: Stage | null): GatewayState['counts'] {
  if (from === to) return counts
  const next = { ...counts }
  if (from !== null) next[from] -= 1
  if (to !== null) next[to] += 1
  return next
}

// Whether a request is a new turn or the same turn asked again: one session's digests, lingers and adoptions. Pure.
import type { CallId } from '../contract/ids.ts'
import { unreachable } from '../kernel/unreachable.ts'

type Turn = {
  readonly digest: string
  readonly progress: 'running' | 'answered'
  /** `linger` counts up with every departure, so that an old timer means nothing. */
  readonly client: { readonly type: 'connected' } | { readonly type: 'gone'; readonly linger: number }
}

export type DedupeState = {
  /** Turns that a client is connected to, or may come back to. */
  readonly turns: ReadonlyMap<CallId, Turn>
  /** The newest call of each digest, oldest first; bounded. */
  readonly latest: ReadonlyMap<string, CallId>
  readonly lingers: number
}

export type DedupeEvent =
  /** `call` is the id the turn gets if it is new. */
  | { readonly type: 'arrived'; readonly call: CallId; readonly digest: string }
  /** The client went away before it had the whole answer. */
  | { readonly type: 'left'; readonly call: CallId }
  | { readonly type: 'answered'; readonly call: CallId }
  /** The turn has no answer to come back for. */
  | { readonly type: 'failed'; readonly call: CallId }
  | { readonly type: 'delivered'; readonly call: CallId }
  | { readonly type: 'linger-over'; readonly call: CallId; readonly linger: number }
  | { readonly type: 'sealed' }

export type DedupeEffect =
  | { readonly type: 'start'; readonly call: CallId; readonly retryOf: CallId | null }
  | { readonly type: 'adopt'; readonly call: CallId }
  | { readonly type: 'linger'; readonly call: CallId; readonly linger: number }
  | { readonly type: 'cancel'; readonly call: CallId }

type Step = readonly [DedupeState, readonly DedupeEffect[]]

/** Retries come soon after what they retry; older digests may be forgotten. */
const MAX_DIGESTS = 1_024
/** Answers kept for clients that left; the oldest goes first. */
const MAX_ABANDONED = 64

export const NO_TURNS: DedupeState = { turns: new Map(), latest: new Map(), lingers: 0 }

/** True when a request with this digest would adopt a turn instead of starting one. */
export function isAwaited(state: DedupeState, digest: string): boolean {
  return [...state.turns.values()].some((turn) => turn.digest === digest && turn.client.type === 'gone')
}

export function step(state: DedupeState, event: DedupeEvent): Step {
  switch (event.type) {
    case 'arrived':
      return arrived(state, event.call, event.digest)
    case 'left':
      return left(state, event.call)
    case 'answered': {
      const turn = state.turns.get(event.call)
      return turn === undefined ? [state, []] : [withTurn(state, event.call, { ...turn, progress: 'answered' }), []]
    }
    case 'failed':
    case 'delivered':
      return [withoutTurn(state, event.call), []]
    case 'linger-over': {
      const turn = state.turns.get(event.call)
      if (turn === undefined || turn.client.type === 'connected' || turn.client.linger !== event.linger) return [state, []]
      return [withoutTurn(state, event.call), turn.progress === 'running' ? [{ type: 'cancel', call: event.call }] : []]
    }
    case 'sealed': {
      const running = [...state.turns].filter(([, turn]) => turn.progress === 'running')
      return [{ ...state, turns: new Map() }, running.map(([call]) => ({ type: 'cancel', call }))]
    }
    default:
      return unreachable(event)
  }
}

function arrived(state: DedupeState, call: CallId, digest: string): Step {
  for (const [known, turn] of state.turns) {
    // A turn whose client is still connected is never joined: two open connections are two turns.
    if (turn.digest === digest && turn.client.type === 'gone') {
      return [withTurn(state, known, { ...turn, client: { type: 'connected' } }), [{ type: 'adopt', call: known }]]
    }
  }
  const latest = new Map(state.latest)
  latest.delete(digest)
  latest.set(digest, call)
  for (const oldest of latest.keys()) {
    if (latest.size <= MAX_DIGESTS) break
    latest.delete(oldest)
  }
  const started = withTurn({ ...state, latest }, call, { digest, progress: 'running', client: { type: 'connected' } })
  return [started, [{ type: 'start', call, retryOf: state.latest.get(digest) ?? null }]]
}

function left(state: DedupeState, call: CallId): Step {
  const turn = state.turns.get(call)
  if (turn === undefined || turn.client.type === 'gone') return [state, []]
  const linger = state.lingers + 1
  const gone = withTurn({ ...state, lingers: linger }, call, { ...turn, client: { type: 'gone', linger } })
  const abandoned = [...gone.turns].flatMap(([id, { progress, client }]) =>
    progress === 'answered' && client.type === 'gone' ? [{ id, linger: client.linger }] : [],
  )
  const [oldest] = abandoned.toSorted((a, b) => a.linger - b.linger)
  const kept = abandoned.length > MAX_ABANDONED && oldest !== undefined ? withoutTurn(gone, oldest.id) : gone
  return [kept, [{ type: 'linger', call, linger }]]
}

function withTurn(state: DedupeState, call: CallId, turn: Turn): DedupeState {
  return { ...state, turns: new Map(state.turns).set(call, turn) }
}

function withoutTurn(state: DedupeState, call: CallId): DedupeState {
  const turns = new Map(state.turns)
  turns.delete(call)
  return { ...state, turns }
}

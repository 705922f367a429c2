// Whether a request is a new turn or the same turn asked again: one session's digests, lingers and adoptions. Pure.
import type { CallId } from '../contract/ids.ts'
import { unreachable } from '../kernel/unreachable.ts'
import type { Question } from './question.ts'

type Turn = {
  readonly question: Question
  /** `length`: null when its budget ended the answer, or when nobody counted it. */
  readonly progress: { readonly type: 'running' } | { readonly type: 'answered'; readonly length: number | null }
  /** `linger` counts up with every departure, so that an old timer means nothing. */
  readonly client: { readonly type: 'connected' } | { readonly type: 'gone'; readonly linger: number }
}

export type DedupeState = {
  /** Turns that a client is connected to, or may come back to. */
  readonly turns: ReadonlyMap<CallId, Turn>
  /** The newest call of each digest, oldest first; bounded. `failures`: since its last answer. */
  readonly latest: ReadonlyMap<string, { readonly call: CallId; readonly failures: number }>
  readonly lingers: number
}

export type DedupeEvent =
  /** `call` is the id the turn gets if it is new. */
  | { readonly type: 'arrived'; readonly call: CallId; readonly question: Question }
  /** The client went away before it had the whole answer. */
  | { readonly type: 'left'; readonly call: CallId }
  /** `length` in tokens, as above. */
  | { readonly type: 'answered'; readonly call: CallId; readonly length: number | null }
  /** The turn has no answer to come back for. A call that was cancelled is no turn any more, and counts as no failure. */
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

/** True when this question would adopt a turn instead of starting one. */
export function isAwaited(state: DedupeState, question: Question): boolean {
  return [...state.turns.values()].some((turn) => isFor(turn, question))
}

/** How often a question has failed since it was last answered, whatever its budget. */
export function failuresOf(state: DedupeState, digest: string): number {
  return state.latest.get(digest)?.failures ?? 0
}

export function step(state: DedupeState, event: DedupeEvent): Step {
  switch (event.type) {
    case 'arrived':
      return arrived(state, event.call, event.question)
    case 'left':
      return left(state, event.call)
    case 'answered': {
      const turn = state.turns.get(event.call)
      if (turn === undefined) return [state, []]
      const answered = withTurn(state, event.call, { ...turn, progress: { type: 'answered', length: event.length } })
      return [withFailures(answered, turn.question.digest, () => 0), []]
    }
    case 'failed': {
      const turn = state.turns.get(event.call)
      if (turn === undefined) return [state, []]
      return [withFailures(withoutTurn(state, event.call), turn.question.digest, (failures) => failures + 1), []]
    }
    case 'delivered':
      return [withoutTurn(state, event.call), []]
    case 'linger-over': {
      const turn = state.turns.get(event.call)
      if (turn === undefined || turn.client.type === 'connected' || turn.client.linger !== event.linger) return [state, []]
      return [withoutTurn(state, event.call), turn.progress.type === 'running' ? [{ type: 'cancel', call: event.call }] : []]
    }
    case 'sealed': {
      const running = [...state.turns].filter(([, turn]) => turn.progress.type === 'running')
      return [{ ...state, turns: new Map() }, running.map(([call]) => ({ type: 'cancel', call }))]
    }
    default:
      return unreachable(event)
  }
}

function arrived(state: DedupeState, call: CallId, question: Question): Step {
  const { digest } = question
  for (const [known, turn] of state.turns) {
    if (isFor(turn, question)) {
      return [withTurn(state, known, { ...turn, client: { type: 'connected' } }), [{ type: 'adopt', call: known }]]
    }
  }
  const before = state.latest.get(digest)
  const latest = new Map(state.latest)
  latest.delete(digest)
  latest.set(digest, { call, failures: before?.failures ?? 0 })
  for (const oldest of latest.keys()) {
    if (latest.size <= MAX_DIGESTS) break
    latest.delete(oldest)
  }
  const started = withTurn({ ...state, latest }, call, { question, progress: { type: 'running' }, client: { type: 'connected' } })
  return [started, [{ type: 'start', call, retryOf: before?.call ?? null }]]
}

/** A turn whose client is still connected is never joined: two open connections are two turns. */
function isFor({ question, progress, client }: Turn, { digest, maxTokens }: Question): boolean {
  if (client.type === 'connected' || question.digest !== digest) return false
  if (question.maxTokens === maxTokens) return true
  // An answer that ended by itself is one under every budget that holds it.
  const length = progress.type === 'answered' ? progress.length : null
  return length !== null && (maxTokens === null || length <= maxTokens)
}

function left(state: DedupeState, call: CallId): Step {
  const turn = state.turns.get(call)
  if (turn === undefined || turn.client.type === 'gone') return [state, []]
  const linger = state.lingers + 1
  const gone = withTurn({ ...state, lingers: linger }, call, { ...turn, client: { type: 'gone', linger } })
  const abandoned = [...gone.turns].flatMap(([id, { progress, client }]) =>
    progress.type === 'answered' && client.type === 'gone' ? [{ id, linger: client.linger }] : [],
  )
  const [oldest] = abandoned.toSorted((a, b) => a.linger - b.linger)
  const kept = abandoned.length > MAX_ABANDONED && oldest !== undefined ? withoutTurn(gone, oldest.id) : gone
  return [kept, [{ type: 'linger', call, linger }]]
}

function withTurn(state: DedupeState, call: CallId, turn: Turn): DedupeState {
  return { ...state, turns: new Map(state.turns).set(call, turn) }
}

function withFailures(state: DedupeState, digest: string, next: (failures: number) => number): DedupeState {
  const known = state.latest.get(digest)
  if (known === undefined) return state
  return { ...state, latest: new Map(state.latest).set(digest, { ...known, failures: next(known.failures) }) }
}

function withoutTurn(state: DedupeState, call: CallId): DedupeState {
  const turns = new Map(state.turns)
  turns.delete(call)
  return { ...state, turns }
}

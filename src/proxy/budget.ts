// What a session has spent on model calls and what is left: who may still call, and how much a call may sample. Pure.
import { BUDGETS, type BudgetLimits, type BudgetName, type BudgetUse, type Spendable } from '../contract/session-budget.ts'

export type BudgetState = {
  readonly limits: BudgetLimits
  /** Calls that began; a retry that adopts one, or finds its answer, begins none. */
  readonly calls: number
  /** Of all calls that have ended. */
  readonly sampledTokens: number
  /** Prompt and answer of the longest call. */
  readonly contextTokens: number
  /** What each call in flight may yet sample. */
  readonly reserved: ReadonlyMap<string, number>
  /** The first budget that was found used up. It stays so: a session that was told its end gets no more calls. */
  readonly spent: Spendable | null
  /** How often an agent was told that it is over. */
  readonly farewells: number
}

/** What is not counted call by call. */
export type Gauges = { readonly seconds: number; readonly isTextFull: boolean }

/** `tokens` null: as many as the call wants. `wait`: what is left is reserved by others, and some of it may come back. */
export type Reservation =
  | { readonly type: 'granted'; readonly tokens: number | null; readonly state: BudgetState }
  | { readonly type: 'wait' }
  | { readonly type: 'spent' }

/** Far more agents and sub-agents than one session runs at a time; who calls again after as many is told in plain refusals. */
const MAX_FAREWELLS = 16

export function openBudget(limits: BudgetLimits): BudgetState {
  return { limits, calls: 0, sampledTokens: 0, contextTokens: 0, reserved: new Map(), spent: null, farewells: 0 }
}

/** Which budget keeps another call from being opened now; null: none. */
export function spentNow(state: BudgetState, { seconds, isTextFull }: Gauges): Spendable | null {
  const { limits, calls, sampledTokens, spent } = state
  if (spent !== null) return spent
  if (isReached(calls, limits.calls)) return 'calls'
  // While calls are in flight their reservations may come back, so the next call is opened and waits.
  if (isReached(sampledTokens, limits.sampled_tokens)) return 'sampled_tokens'
  if (isReached(seconds, limits.seconds)) return 'seconds'
  return isTextFull ? 'text_bytes' : null
}

export function opened(state: BudgetState): BudgetState {
  return { ...state, calls: state.calls + 1 }
}

/** Before a call is sent: what it may sample at most, set aside so that calls in flight cannot overshoot together. */
export function reserve(state: BudgetState, call: string, most: number | null): Reservation {
  const limit = state.limits.sampled_tokens
  if (limit === null) return { type: 'granted', tokens: null, state }
  const left = limit - state.sampledTokens - [...state.reserved.values()].reduce((sum, tokens) => sum + tokens, 0)
  const isWhole = most !== null && most <= left
  // A call is cut short only by what was sampled, never by what another one may leave over.
  if (!isWhole && state.reserved.size > 0) return { type: 'wait' }
  const tokens = isWhole ? most : left
  if (tokens < 1) return { type: 'spent' }
  return { type: 'granted', tokens: isWhole ? null : tokens, state: { ...state, reserved: new Map(state.reserved).set(call, tokens) } }
}

/** A call has ended, with this many tokens; what it did not sample of its reservation comes back. */
export function ended(state: BudgetState, call: string, promptTokens: number, sampledTokens: number): BudgetState {
  const reserved = new Map(state.reserved)
  reserved.delete(call)
  return {
    ...state,
    reserved,
    sampledTokens: state.sampledTokens + sampledTokens,
    contextTokens: Math.max(state.contextTokens, promptTokens + sampledTokens),
  }
}

/** Which budget has cut an answer off: the session is over then, whether or not its agent asks again. */
export function cutBy(state: BudgetState, promptTokens: number, sampledTokens: number): Spendable | null {
  if (isReached(state.sampledTokens, state.limits.sampled_tokens)) return 'sampled_tokens'
  return isReached(promptTokens + sampledTokens, state.limits.context_tokens) ? 'context_tokens' : null
}

export function withSpent(state: BudgetState, spent: Spendable): BudgetState {
  return state.spent === null ? { ...state, spent } : state
}

/** `message`: one more agent is told its end as its model would; `refusal`: it was told often enough. */
export function farewell(state: BudgetState): readonly [BudgetState, 'message' | 'refusal'] {
  if (state.farewells >= MAX_FAREWELLS) return [state, 'refusal']
  return [{ ...state, farewells: state.farewells + 1 }, 'message']
}

/** For the result; null where nothing was limited and nothing ran out. */
export function useOf(state: BudgetState, seconds: number, asked: BudgetLimits): BudgetUse | null {
  const used: { readonly [name in BudgetName]: number } = {
    calls: state.calls,
    sampled_tokens: state.sampledTokens,
    context_tokens: state.contextTokens,
    seconds: Math.round(seconds * 1_000) / 1_000,
  }
  const told = BUDGETS.flatMap((name) => {
    const limit = state.limits[name]
    const isTold = limit !== null && (asked[name] !== null || state.spent === name)
    return isTold ? [[name, { limit, used: used[name] }] as const] : []
  })
  return told.length === 0 && state.spent === null ? null : { ...Object.fromEntries(told), used_up: state.spent }
}

function isReached(used: number, limit: number | null): boolean {
  return limit !== null && used >= limit
}

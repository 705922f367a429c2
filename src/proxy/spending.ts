// One session's budget as its door uses it: its clock, the calls that wait for what others may give back, and an end that is told once.
import type { CallId } from '../contract/ids.ts'
import type { BudgetLimits, BudgetUse, Spendable } from '../contract/session-budget.ts'
import { unreachable } from '../kernel/unreachable.ts'
import { cutBy, ended, farewell, openBudget, opened, reserve, spentNow, useOf, withSpent } from './budget.ts'
import type { CallEnd } from './capture.ts'
import type { ChatAnswer } from './chat.ts'
import { type Failure, failure } from './failure.ts'
import { farewellAnswer, spentFailure, spentSentence } from './farewell.ts'
import type { CallLimits } from './generation.ts'
import type { JsonObject } from './json.ts'

export type SpendingOptions = {
  readonly limits: BudgetLimits
  /** Holds beside them. */
  readonly maxCalls: number
  /** Stands still in pauses. */
  readonly nowMs: () => number
  readonly isTextFull: () => boolean
  /** When the first budget is found used up. */
  readonly onSpent: (sentence: string) => void
}

/** What is told in a call's stead: no generation, but what a model might have said. */
type Farewell = { readonly ok: true; readonly answer: ChatAnswer } | { readonly ok: false; readonly failure: Failure }

type Allowance = { readonly ok: true; readonly limits: CallLimits } | { readonly ok: false; readonly failure: Failure }

export type Spending = {
  /** Its time begins. Idempotent. */
  begin(): void
  /** Its time ends. Idempotent. */
  end(): void
  /** Null while another call may be opened. */
  farewell(): Farewell | null
  opened(): void
  /** Resolves when it is known what the call may sample: others in flight may have to end first. */
  allow(call: CallId, parameters: JsonObject, maxModelLen: number | null, signal: AbortSignal): Promise<Allowance>
  ended(call: CallId, end: Pick<CallEnd, 'tokens' | 'usage' | 'finishReason'>, failure: Failure | null): void
  use(): BudgetUse | null
}

export function openSpending({ limits: asked, maxCalls, nowMs, isTextFull, onSpent }: SpendingOptions): Spending {
  const limits = { ...asked, calls: Math.min(asked.calls ?? maxCalls, maxCalls) }
  let state = openBudget(limits)
  let begunMs: number | null = null
  let endedMs: number | null = null
  const waiting = new Set<() => void>()

  const seconds = (): number => (begunMs === null ? 0 : ((endedMs ?? nowMs()) - begunMs) / 1_000)

  function spend(spent: Spendable): void {
    if (state.spent !== null) return
    state = withSpent(state, spent)
    onSpent(spentSentence(spent, limits))
  }

  /** Null: it has to wait. */
  function tryAllow(call: CallId, most: number | null): Allowance | null {
    const reservation = reserve(state, call, most)
    switch (reservation.type) {
      case 'wait':
        return null
      case 'granted':
        state = reservation.state
        return { ok: true, limits: { sampledTokens: reservation.tokens, contextTokens: limits.context_tokens } }
      case 'spent':
        spend('sampled_tokens')
        return { ok: false, failure: spentFailure('sampled_tokens', limits) }
      default:
        return unreachable(reservation)
    }
  }

  return {
    begin() {
      begunMs ??= nowMs()
    },
    end() {
      endedMs ??= nowMs()
    },
    farewell() {
      const spent = spentNow(state, { seconds: seconds(), isTextFull: isTextFull() })
      if (spent === null) return null
      spend(spent)
      const [next, form] = farewell(state)
      state = next
      return form === 'message' ? { ok: true, answer: farewellAnswer(spent, limits) } : { ok: false, failure: spentFailure(spent, limits) }
    },
    opened() {
      state = opened(state)
    },
    allow(call, parameters, maxModelLen, signal) {
      const most = smallest([parameters.max_tokens, maxModelLen, limits.context_tokens])
      const now = signal.aborted ? CANCELLED : tryAllow(call, most)
      if (now !== null) return Promise.resolve(now)
      return new Promise((resolve) => {
        const settle = (allowance: Allowance | null): void => {
          if (allowance === null) return
          waiting.delete(retry)
          signal.removeEventListener('abort', cancel)
          resolve(allowance)
        }
        const retry = (): void => settle(tryAllow(call, most))
        const cancel = (): void => settle(CANCELLED)
        waiting.add(retry)
        signal.addEventListener('abort', cancel, { once: true })
      })
    },
    ended(call, { tokens, usage, finishReason }, reason) {
      // An engine that tells no ids still counts.
      const prompt = Math.max(tokens?.promptIds.length ?? 0, usage?.promptTokens ?? 0)
      const sampled = Math.max(tokens?.sampledIds.length ?? 0, usage?.completionTokens ?? 0)
      state = ended(state, call, prompt, sampled)
      const cut = finishReason === 'length' ? cutBy(state, prompt, sampled) : null
      if (cut !== null) spend(cut)
      if (reason?.code === 'budget-exhausted') spend('context_tokens')
      for (const retry of [...waiting]) retry()
    },
    use: () => useOf(state, seconds(), asked),
  }
}

const CANCELLED: Allowance = { ok: false, failure: failure('cancelled', 'the call was cancelled') }

function smallest(numbers: readonly unknown[]): number | null {
  const known = numbers.filter((each) => typeof each === 'number')
  return known.length === 0 ? null : Math.min(...known)
}

// What a session may still spend: never more than its limits, whatever its calls do and however many are in flight.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BudgetLimits, UNLIMITED } from '../../src/contract/session-budget.ts'
import { type BudgetState, ended, farewell, openBudget, opened, reserve, spentNow, useOf, withSpent } from '../../src/proxy/budget.ts'

const limits = (some: Partial<BudgetLimits>): BudgetLimits => ({ ...UNLIMITED, ...some })
const CALM = { seconds: 0, isTextFull: false }

/** As a door does: opened, granted, sampled, ended. */
function spend(state: BudgetState, call: string, sampled: number, prompt = 0): BudgetState {
  const reservation = reserve(opened(state), call, null)
  return ended(reservation.type === 'granted' ? reservation.state : opened(state), call, prompt, sampled)
}

describe('a budget', () => {
  it.each<[string, Partial<BudgetLimits>, (state: BudgetState) => BudgetState, Partial<typeof CALM>, string | null]>([
    ['calls, of which one is left', { calls: 2 }, (state) => opened(state), {}, null],
    ['calls, all of them begun', { calls: 2 }, (state) => opened(opened(state)), {}, 'calls'],
    ['sampled tokens, of which one is left', { sampled_tokens: 10 }, (state) => spend(state, 'a', 9), {}, null],
    ['sampled tokens, all of them', { sampled_tokens: 10 }, (state) => spend(spend(state, 'a', 4), 'b', 6), {}, 'sampled_tokens'],
    ['seconds, a little before', { seconds: 5 }, (state) => state, { seconds: 4.999 }, null],
    ['seconds, at their end', { seconds: 5 }, (state) => state, { seconds: 5 }, 'seconds'],
    ['the memory for its texts', {}, (state) => state, { isTextFull: true }, 'text_bytes'],
    ['a context that one call filled, which says nothing of the next', { context_tokens: 9 }, (state) => spend(state, 'a', 4, 5), {}, null],
    ['nothing that is limited', {}, (state) => spend(opened(state), 'a', 1e9, 1e9), { seconds: 1e9 }, null],
  ])('of %s', (_, some, act, gauges, spent) => {
    expect(spentNow(act(openBudget(limits(some))), { ...CALM, ...gauges })).toBe(spent)
  })

  it('stays used up, by the first that was', () => {
    const state = withSpent(withSpent(openBudget(limits({ calls: 9, seconds: 1 })), 'seconds'), 'calls')
    expect(spentNow(state, CALM)).toBe('seconds')
  })

  it('lets a call sample what it wants while there is as much', () => {
    const state = openBudget(limits({ sampled_tokens: 10 }))
    expect(reserve(state, 'a', 10)).toMatchObject({ type: 'granted', tokens: null })
  })

  it.each([11, null])('cuts the only call (at most %s) to what is left', (most) => {
    const state = spend(openBudget(limits({ sampled_tokens: 10 })), 'before', 3)
    expect(reserve(state, 'a', most)).toMatchObject({ type: 'granted', tokens: 7 })
  })

  it('lets a call wait for what others may give back, rather than cut it short', () => {
    const first = reserve(openBudget(limits({ sampled_tokens: 10 })), 'a', 8)
    if (first.type !== 'granted') throw new Error(first.type)
    expect(reserve(first.state, 'b', 2)).toMatchObject({ type: 'granted', tokens: null })
    expect(reserve(first.state, 'b', 3)).toEqual({ type: 'wait' })
    expect(reserve(ended(first.state, 'a', 0, 5), 'b', 3)).toMatchObject({ type: 'granted', tokens: null })
    expect(reserve(ended(first.state, 'a', 0, 8), 'b', 3)).toMatchObject({ type: 'granted', tokens: 2 })
  })

  it('says farewell a bounded number of times, and then refuses', () => {
    let state = openBudget(UNLIMITED)
    const forms: string[] = []
    for (let times = 0; times < 40; times += 1) {
      const [next, form] = farewell(state)
      state = next
      forms.push(form)
    }
    expect([forms.indexOf('refusal'), forms.at(-1)]).toEqual([16, 'refusal'])
  })

  it('tells what was used of each limit that was asked for, and of the one that ended the session', () => {
    const asked = limits({ calls: 3, seconds: 60 })
    const state = spend(openBudget(asked), 'a', 7, 11)
    expect(useOf(state, 1.23456, asked)).toEqual({ calls: { limit: 3, used: 1 }, seconds: { limit: 60, used: 1.235 }, used_up: null })
    const own = { ...UNLIMITED, calls: 1 }
    expect(useOf(openBudget(own), 0, UNLIMITED)).toBe(null)
    expect(useOf(withSpent(opened(openBudget(own)), 'calls'), 0, UNLIMITED)).toEqual({ calls: { limit: 1, used: 1 }, used_up: 'calls' })
  })

  it('is never overshot, and no call waits for ever', () => {
    const call = fc.record({ most: fc.option(fc.integer({ min: 1, max: 60 })), share: fc.double({ min: 0, max: 1, noNaN: true }) })
    // True: the next call begins; false: one of those in flight ends.
    const order = fc.array(fc.boolean(), { minLength: 1, maxLength: 80 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), fc.array(call, { minLength: 1, maxLength: 20 }), order, (limit, calls, moves) => {
        let state = openBudget(limits({ sampled_tokens: limit }))
        const waiting: number[] = []
        const inFlight = new Map<number, number>()
        const refused = new Set<number>()
        const ask = (index: number): boolean => {
          const most = calls[index]?.most ?? null
          const reservation = reserve(state, String(index), most)
          if (reservation.type === 'wait') return false
          if (reservation.type === 'spent') refused.add(index)
          else {
            state = reservation.state
            // An engine that was told no limit samples as much as the call could.
            inFlight.set(index, reservation.tokens ?? most ?? Infinity)
          }
          return true
        }
        const endOne = (): void => {
          const [index, most] = inFlight.entries().next().value ?? [0, 0]
          inFlight.delete(index)
          state = ended(state, String(index), 0, Math.round((calls[index]?.share ?? 0) * most))
          expect(state.sampledTokens).toBeLessThanOrEqual(limit)
          for (const each of waiting.splice(0)) if (!ask(each)) waiting.push(each)
        }
        let begun = 0
        for (const begins of moves) {
          if (begins && begun < calls.length) {
            if (!ask(begun)) waiting.push(begun)
            begun += 1
          } else if (inFlight.size > 0) endOne()
        }
        while (inFlight.size > 0) endOne()
        expect(waiting).toEqual([])
        expect(state.reserved.size).toBe(0)
        if (refused.size > 0) expect(spentNow(state, CALM)).toBe('sampled_tokens')
      }),
    )
  })
})

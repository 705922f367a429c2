// Deduplication against a dumb oracle: a list of turns, searched from the start at every arrival.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { callId } from '../../src/contract/ids.ts'
import { type DedupeEffect, type DedupeEvent, failuresOf, isAwaited, NO_TURNS, step } from '../../src/proxy/dedupe.ts'

type Entry = {
  call: string
  digest: string
  maxTokens: number | null
  answered: boolean
  length: number | null
  gone: number | null
  over: boolean
}

const budget = fc.constantFrom(null, 10, 20)

/** The same budget, or an answer that ended by itself within the other one. */
const suits = (turn: Entry, maxTokens: number | null): boolean =>
  turn.maxTokens === maxTokens || (turn.length !== null && turn.length <= (maxTokens ?? Number.POSITIVE_INFINITY))

const event = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constant('arrived' as const), digest: fc.constantFrom('a', 'b', 'c'), maxTokens: budget }) },
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constantFrom(
        'left' as const,
        'answered' as const,
        'failed' as const,
        'delivered' as const,
        'linger-over' as const,
        'stale-linger' as const,
      ),
      at: fc.nat(30),
      length: fc.constantFrom(null, 5, 15, 25),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ type: 'sealed' as const }) },
)

it('adopts exactly what a client left and may still want, and cancels exactly what nobody waits for', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60, size: 'max' }), (events) => {
      let state = NO_TURNS
      let lingers = 0
      const turns: Entry[] = []
      const newest = new Map<string, string>()
      const failures = new Map<string, number>()
      const apply = (given: DedupeEvent): readonly DedupeEffect[] => {
        const [next, effects] = step(state, given)
        state = next
        return effects
      }
      for (const each of events) {
        switch (each.type) {
          case 'arrived': {
            const known = turns.find(
              (turn) => !turn.over && turn.digest === each.digest && turn.gone !== null && suits(turn, each.maxTokens),
            )
            const question = { digest: each.digest, maxTokens: each.maxTokens }
            expect(isAwaited(state, question)).toBe(known !== undefined)
            const call = callId(`${turns.length}`)
            const effects = apply({ type: 'arrived', call, question })
            if (known === undefined) {
              expect(effects).toEqual([{ type: 'start', call, retryOf: newest.get(each.digest) ?? null }])
              turns.push({ call, ...question, answered: false, length: null, gone: null, over: false })
              newest.set(each.digest, call)
            } else {
              expect(effects).toEqual([{ type: 'adopt', call: known.call }])
              known.gone = null
            }
            break
          }
          case 'sealed': {
            const running = turns.filter((turn) => !turn.over && !turn.answered).map(({ call }) => ({ type: 'cancel', call }))
            expect(apply({ type: 'sealed' })).toEqual(running)
            for (const turn of turns) turn.over = true
            break
          }
          default: {
            const turn = turns[each.at % Math.max(1, turns.length)]
            if (turn === undefined) break
            const call = turn.call as ReturnType<typeof callId>
            const wasLive = !turn.over
            switch (each.type) {
              case 'left': {
                const effects = apply({ type: 'left', call })
                if (wasLive && turn.gone === null) {
                  lingers += 1
                  turn.gone = lingers
                  expect(effects).toEqual([{ type: 'linger', call, linger: lingers }])
                } else expect(effects).toEqual([])
                break
              }
              case 'answered':
                expect(apply({ type: 'answered', call, length: each.length })).toEqual([])
                if (!wasLive) break
                turn.answered = true
                turn.length = each.length
                failures.set(turn.digest, 0)
                break
              case 'failed':
                expect(apply({ type: 'failed', call })).toEqual([])
                if (wasLive) failures.set(turn.digest, (failures.get(turn.digest) ?? 0) + 1)
                turn.over = true
                break
              case 'delivered':
                expect(apply({ type: each.type, call })).toEqual([])
                turn.over = true
                break
              case 'linger-over': {
                const effects = apply({ type: 'linger-over', call, linger: turn.gone ?? -1 })
                const ends = wasLive && turn.gone !== null
                expect(effects).toEqual(ends && !turn.answered ? [{ type: 'cancel', call }] : [])
                if (ends) turn.over = true
                break
              }
              case 'stale-linger':
                expect(apply({ type: 'linger-over', call, linger: (turn.gone ?? 0) - 1 })).toEqual([])
            }
          }
        }
        for (const digest of newest.keys()) expect(failuresOf(state, digest)).toBe(failures.get(digest) ?? 0)
        expect([...state.turns.keys()]).toEqual(turns.filter((turn) => !turn.over).map(({ call }) => call))
      }
    }),
  )
})

const question = (digest: string) => ({ digest, maxTokens: null })

it('forgets the oldest digests and the oldest abandoned answers instead of growing', () => {
  let state = NO_TURNS
  for (let index = 0; index < 3_000; index += 1) {
    const call = callId(`${index}`)
    for (const given of [
      { type: 'arrived', call, question: question(`${index}`) },
      { type: 'answered', call, length: 3 },
      { type: 'left', call },
    ] as const) {
      state = step(state, given)[0]
    }
  }
  expect(state.turns.size).toBe(64)
  expect(state.latest.size).toBe(1_024)
  expect(isAwaited(state, question('2999'))).toBe(true)
  expect(isAwaited(state, question('0'))).toBe(false)
})

it('forgets of the abandoned answers the one whose client left first, whenever it had come', () => {
  let state = NO_TURNS
  const calls = Array.from({ length: 65 }, (_, index) => callId(`${index}`))
  for (const call of calls) {
    state = step(state, { type: 'arrived', call, question: question(call) })[0]
    state = step(state, { type: 'answered', call, length: 3 })[0]
  }
  for (const call of calls.toReversed()) state = step(state, { type: 'left', call })[0]
  expect(calls.filter((call) => !isAwaited(state, question(call)))).toEqual([calls[64]])
})

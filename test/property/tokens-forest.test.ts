// Whatever shape a session's calls have, what was appended is what every reader gets, and each call is stored as its news alone.
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openArena } from '../../src/tokens/arena.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import type { CallTokens } from '../../src/tokens/reference.ts'
import { naiveCommonPrefix } from './prefix-naive.ts'
import { asRead, callMove, makeCall, type PlainCall, sequenceOf } from './session-calls.ts'

const shape = fc.record({ blockTokens: fc.integer({ min: 1, max: 9 }), blocksPerSlab: fc.integer({ min: 1, max: 4 }) })
const session = fc.record({ shape, moves: fc.array(callMove, { maxLength: 25 }), isTyped: fc.boolean() })

function openSession({ blockTokens, blocksPerSlab }: { blockTokens: number; blocksPerSlab: number }) {
  const arena = openArena({ blockTokens, slabTokens: blockTokens * blocksPerSlab, maxSlabs: 10_000 })
  return { arena, tokens: arena.openSession() }
}

function append(tokens: ReturnType<typeof openSession>['tokens'], call: PlainCall, isTyped: boolean): CallTokens {
  const appended = tokens.append({
    promptIds: isTyped ? Int32Array.from(call.prompt) : call.prompt,
    sampledIds: isTyped ? Int32Array.from(call.sampled) : call.sampled,
    logprobs: isTyped && call.logprobs !== null ? Float32Array.from(call.logprobs) : call.logprobs,
  })
  if (!appended.ok) throw new Error(appended.error)
  return appended.tokens
}

/** Newest first: the earlier sequence the prompt follows longest. */
function longestNaive(prompt: readonly number[], earlier: readonly PlainCall[]) {
  let best = { parent: -1, shared: 0 }
  for (let index = earlier.length - 1; index >= 0; index--) {
    const sequence = sequenceOf(earlier[index]!)
    const shared = naiveCommonPrefix(prompt, 0, sequence, 0, Math.min(prompt.length, sequence.length))
    if (shared > best.shared) best = { parent: index, shared }
  }
  return best
}

describe('a random forest of calls', () => {
  it('is read back exactly, by the owner and through a reference that was cloned', () => {
    fc.assert(
      fc.property(session, ({ shape, moves, isTyped }) => {
        const { tokens } = openSession(shape)
        const calls: PlainCall[] = []
        for (const move of moves) {
          const call = makeCall(move, calls)
          append(tokens, call, isTyped)
          calls.push(call)
        }
        const expected = calls.map(asRead)
        expect(readCalls(structuredClone(tokens.lease()))).toEqual(expected)
        const into = new Int32Array(1_000).fill(-1)
        const byOwner = calls.map((_, index) => ({
          promptIds: tokens.readPrompt(index, into).slice(),
          sampledIds: tokens.readSampled(index),
          logprobs: tokens.readLogprobs(index),
        }))
        expect(byOwner).toEqual(expected)
      }),
      { numRuns: 300 },
    )
  })

  it('is stored as the longest known prefix and the rest, in segments that stay inside one block', () => {
    fc.assert(
      fc.property(session, ({ shape, moves, isTyped }) => {
        const { arena, tokens } = openSession(shape)
        const calls: PlainCall[] = []
        let words = 0
        for (const move of moves) {
          const call = makeCall(move, calls)
          const stored = append(tokens, call, isTyped)
          expect({ parent: stored.parent, shared: stored.shared }).toEqual(longestNaive(call.prompt, calls))
          const lengths = [stored.suffix, stored.sampled, stored.logprobs].map((segments) =>
            segments.reduce((sum, { length }) => sum + length, 0),
          )
          expect(lengths).toEqual([call.prompt.length - stored.shared, call.sampled.length, call.logprobs?.length ?? 0])
          for (const { offset, length } of [...stored.suffix, ...stored.sampled, ...stored.logprobs]) {
            expect(length).toBeGreaterThan(0)
            expect(Math.floor(offset / shape.blockTokens)).toBe(Math.floor((offset + length - 1) / shape.blockTokens))
          }
          words += lengths.reduce((sum, length) => sum + length, 0)
          calls.push(call)
        }
        expect(arena.stats().leasedBlocks).toBe(Math.ceil(words / shape.blockTokens))
      }),
      { numRuns: 300 },
    )
  })
})

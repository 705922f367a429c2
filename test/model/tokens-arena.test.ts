// Sessions that open, append, lease, release and close in any order, against counters: blocks are conserved and nobody reads another's.
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Arena, openArena } from '../../src/tokens/arena.ts'
import { StaleSegmentError, UnknownLeaseError } from '../../src/tokens/errors.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import type { SlabReference } from '../../src/tokens/reference.ts'
import type { SessionTokens } from '../../src/tokens/session-tokens.ts'
import { naiveCommonPrefix } from '../property/prefix-naive.ts'
import { asRead, type CallMove, callMove, makeCall, type PlainCall, sequenceOf } from '../property/session-calls.ts'

const BLOCK_TOKENS = 4
const CAPACITY_BLOCKS = 2 * 5
const SHAPE = { blockTokens: BLOCK_TOKENS, slabTokens: BLOCK_TOKENS * 2, maxSlabs: 5 }

type ModelSession = { readonly calls: PlainCall[]; words: number; isClosed: boolean }
type ModelLease = { readonly session: number; readonly calls: readonly PlainCall[]; isHeld: boolean }
type Model = { readonly sessions: ModelSession[]; readonly leases: ModelLease[] }
type Real = {
  readonly arena: Arena
  readonly sessions: SessionTokens[]
  readonly references: SlabReference[]
  readonly pressure: boolean[]
}
type Command = fc.Command<Model, Real>

const blocksOf = (words: number) => Math.ceil(words / BLOCK_TOKENS)
const isLive = (model: Model, session: number) =>
  !model.sessions[session]!.isClosed || model.leases.some((lease) => lease.session === session && lease.isHeld)
const leasedBlocks = (model: Model) =>
  model.sessions.reduce((sum, session, index) => sum + (isLive(model, index) ? blocksOf(session.words) : 0), 0)

function expectConserved(model: Model, real: Real): void {
  const stats = real.arena.stats()
  expect(stats.leasedBlocks).toBe(leasedBlocks(model))
  expect(stats.freeBlocks).toBe(stats.allocatedBlocks - stats.leasedBlocks)
  expect(stats.allocatedBlocks).toBeLessThanOrEqual(CAPACITY_BLOCKS)
  expect(real.pressure).toEqual(real.pressure.map((_, index) => index % 2 === 0))
}

function command(name: string, pick: (model: Model) => boolean, run: (model: Model, real: Real) => void): Command {
  return {
    check: (model) => pick(model),
    run: (model, real) => {
      run(model, real)
      expectConserved(model, real)
    },
    toString: () => name,
  }
}

const open = () =>
  command(
    'open',
    (model) => model.sessions.length < 8,
    (model, real) => {
      model.sessions.push({ calls: [], words: 0, isClosed: false })
      real.sessions.push(real.arena.openSession())
    },
  )

const append = (which: number, move: CallMove) =>
  command(
    `append ${which} ${JSON.stringify(move)}`,
    (model) => model.sessions.some((session) => !session.isClosed),
    (model, real) => {
      const openSessions = [...model.sessions.entries()].filter(([, session]) => !session.isClosed)
      const [index, session] = openSessions[which % openSessions.length]!
      const call = makeCall(move, session.calls)
      const shared = Math.max(
        0,
        ...session.calls
          .map(sequenceOf)
          .map((known) => naiveCommonPrefix(call.prompt, 0, known, 0, Math.min(call.prompt.length, known.length))),
      )
      const words = session.words + call.prompt.length - shared + call.sampled.length + (call.logprobs?.length ?? 0)
      const fits = leasedBlocks(model) - blocksOf(session.words) + blocksOf(words) <= CAPACITY_BLOCKS
      const before = real.arena.stats()
      const appended = real.sessions[index]!.append({ promptIds: call.prompt, sampledIds: call.sampled, logprobs: call.logprobs })
      expect(appended.ok ? 'stored' : appended.error).toBe(fits ? 'stored' : 'arena-full')
      if (appended.ok) {
        expect(appended.index).toBe(session.calls.length)
        session.calls.push(call)
        session.words = words
      } else {
        expect(real.arena.stats()).toEqual({ ...before, pressure: true })
      }
    },
  )

const lease = (which: number) =>
  command(
    `lease ${which}`,
    (model) => model.sessions.some((session) => !session.isClosed),
    (model, real) => {
      const openSessions = [...model.sessions.entries()].filter(([, session]) => !session.isClosed)
      const [index, session] = openSessions[which % openSessions.length]!
      model.leases.push({ session: index, calls: [...session.calls], isHeld: true })
      real.references.push(real.sessions[index]!.lease())
    },
  )

const release = (which: number) =>
  command(
    `release ${which}`,
    (model) => model.leases.length > 0,
    (model, real) => {
      const index = which % model.leases.length
      const held = model.leases[index]!
      const releaseIt = () => real.sessions[held.session]!.release(structuredClone(real.references[index]!))
      if (held.isHeld) releaseIt()
      else expect(releaseIt).toThrow(UnknownLeaseError)
      held.isHeld = false
    },
  )

const close = (which: number) =>
  command(
    `close ${which}`,
    (model) => model.sessions.length > 0,
    (model, real) => {
      const index = which % model.sessions.length
      model.sessions[index]!.isClosed = true
      real.sessions[index]!.close()
    },
  )

const read = (which: number) =>
  command(
    `read ${which}`,
    (model) => model.leases.length > 0,
    (model, real) => {
      const index = which % model.leases.length
      const held = model.leases[index]!
      const holdsTokens = held.calls.some((call) => sequenceOf(call).length > 0)
      if (isLive(model, held.session) || !holdsTokens) expect(readCalls(real.references[index]!)).toEqual(held.calls.map(asRead))
      else expect(() => readCalls(real.references[index]!)).toThrow(StaleSegmentError)
    },
  )

describe('an arena under any order of commands', () => {
  it('conserves its blocks, refuses exactly when full, and lets a reference read its own tokens or nothing', () => {
    const commands = fc.commands(
      [
        fc.constant(open()),
        fc.tuple(fc.nat(), callMove).map(([which, move]) => append(which, move)),
        fc.tuple(fc.nat(), callMove).map(([which, move]) => append(which, move)),
        fc.nat().map(lease),
        fc.nat().map(release),
        fc.nat().map(close),
        fc.nat().map(read),
      ],
      { size: 'large', maxCommands: 80 },
    )
    fc.assert(
      fc.property(commands, (list) => {
        const pressure: boolean[] = []
        const model: Model = { sessions: [], leases: [] }
        const real: Real = {
          arena: openArena({ ...SHAPE, onPressure: (high) => pressure.push(high) }),
          sessions: [],
          references: [],
          pressure,
        }
        fc.modelRun(() => ({ model, real }), list)

        for (const session of real.sessions) session.close()
        model.leases.forEach((held, index) => {
          if (held.isHeld) real.sessions[held.session]!.release(real.references[index]!)
        })
        expect(real.arena.stats()).toMatchObject({ leasedBlocks: 0, pressure: false })
      }),
      { numRuns: 300 },
    )
  })
})

// What must hold for every rollout of every CLI, whatever it speaks: tokens, calls and generations account for each other.
import { expect } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import type { EngineRequest } from '../../src/engine/scripted/request-log.ts'
import type { Session } from '../lib/rollout-node.ts'
import type { Rollout } from './rollout.ts'

export type Account = {
  /** Generations whose tokens are trained, each exactly once. */
  readonly turns: number
  /** Side calls: answered, and trained nowhere. */
  readonly aux: number
  /** Answers that the agent never had: it asked again, and only the other answer is trained. */
  readonly retries: number
  /** What the engine was asked and did not answer well: it was asked again. */
  readonly repeats: number
}

/** The lines of one session, and by what they part. */
type Lines = { readonly chains: number; readonly breaks: Readonly<Record<string, number>> }

const ONE_LINE: Lines = { chains: 1, breaks: {} }

/**
 * The whole account of a rollout. Every generation of the engine is a turn, an aux call or a repeat; every turn stands in exactly one trace
 * of its session, under exactly the prompt the engine reported; every session has as many chains as it had agents.
 */
export function accountFor({ sessions, generations }: Rollout, lines: Lines = ONE_LINE): Account {
  const open = new Set(generations.filter((generation) => !isProbe(generation)))
  const take = (holds: (generation: EngineRequest) => boolean): boolean => {
    const found = [...open].find(holds)
    return found !== undefined && open.delete(found)
  }
  let turns = 0
  for (const session of sessions) {
    const { D12: _askedAgain, ...breaks } = session.stats.forks_by_cause
    expect(breaks, 'no chain breaks, but for what was asked again').toEqual(lines.breaks)
    // A row of what nobody went on with may stand beside those that are trained.
    const trained = session.traces.filter((trace) => trace.loss_mask.includes(1))
    expect(trained).toHaveLength(lines.chains)
    for (const trace of trained) {
      expect(trace.metadata.unreported_context_tokens).toBe(0)
      const mask = trace.response_ids.map(() => 0)
      for (const { start, end, trained: isTrained, reason } of trace.metadata.turns) {
        // What chains have in common is trained in one of them.
        if (reason === 'shared') continue
        expect(isTrained).toBe(true)
        mask.fill(1, start, end)
        const [prompt, sampled] = [[...trace.prompt_ids, ...trace.response_ids.slice(0, start)], trace.response_ids.slice(start, end)]
        const isFound = take(
          (generation) => generation.fault === null && isEqual(generation.promptIds, prompt) && isEqual(generation.sampledIds, sampled),
        )
        expect(isFound, 'a trained turn is a generation of the engine under the very prompt that stands before it').toBe(true)
        turns += 1
      }
      expect(trace.loss_mask).toEqual(mask)
    }
  }
  let [aux, retries] = [0, 0]
  for (const { untrained } of sessions) {
    for (const { reason, tokens } of untrained) {
      const isOne = (generation: EngineRequest): boolean => generation.fault === null && generation.sampledIds.length === tokens
      if (reason === 'aux' && take((generation) => isOne(generation) && hasNoTools(generation))) aux += 1
      if (reason === 'retry_abandoned' && take(isOne)) retries += 1
    }
  }
  let repeats = 0
  const isUnanswered = ({ fault, status }: EngineRequest): boolean => fault !== null || (status !== null && status >= 400)
  for (const generation of open) if (isUnanswered(generation) && open.delete(generation)) repeats += 1
  expect([...open], 'every call of the engine is explained').toEqual([])
  return { turns, aux, retries, repeats }
}

/** Where calls begin something new: the kind of the edge, then the places of both among the calls of their session. */
export function partingsOf({ sessions }: Rollout, outcome = 'completed') {
  expect(sessions.map((session) => session.outcome)).toEqual(sessions.map(() => outcome))
  return sessions.flatMap(({ records, edges }) => {
    const place = (id: string | null) => records.findIndex((record) => record.id === id)
    return edges.flatMap(({ kind, call_id, of }) => (kind === 'extends' ? [] : [[kind, place(call_id), place(of)]]))
  })
}

/** Whose each chain is, and how many turns it has. */
export const rolesOf = ({ sessions }: Rollout) =>
  sessions.flatMap(({ traces }) => traces.map(({ metadata }) => [metadata.segment_role, metadata.turns.length]))

export type Expected = {
  readonly dialect: CallRecord['dialect']
  readonly model: string
  readonly statuses: readonly CallRecord['status'][]
  /** What may be said of a call. */
  readonly diagnostics: readonly string[]
}

/** The records say whose calls these were, by which dialect they came, and that their tokens were captured. */
export function checkRecords(session: Session, { dialect, model, statuses, diagnostics }: Expected): void {
  for (const record of session.records) {
    expect(record).toMatchObject({ session: session.id, attempt: 1, dialect, modelRequested: model, streamed: true, captureError: null })
    expect(statuses).toContain(record.status)
    if (record.status === 'ok') expect(record.delivery).toBe('yes')
    expect(record.diagnostics.filter(({ code }) => !diagnostics.includes(code))).toEqual([])
  }
}

/** The node looks itself whether an engine serves, and how: a token or two after one short question. */
function isProbe({ body }: EngineRequest): boolean {
  if (typeof body !== 'object' || body === null || !('messages' in body) || !('max_tokens' in body)) return false
  return Array.isArray(body.messages) && body.messages.length === 1 && typeof body.max_tokens === 'number' && body.max_tokens <= 2
}

function hasNoTools({ body }: EngineRequest): boolean {
  return typeof body === 'object' && body !== null && !('tools' in body)
}

function isEqual(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((id, at) => id === other[at])
}

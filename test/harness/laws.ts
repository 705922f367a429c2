// What must hold for every rollout of every CLI, whatever it speaks: tokens, calls and generations account for each other.
import { expect } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import type { EngineRequest } from '../../src/engine/scripted/request-log.ts'
import type { Rollout, Session } from './rollout.ts'

export type Account = {
  /** Generations whose tokens are trained, each exactly once. */
  readonly turns: number
  /** Side calls: answered, and trained nowhere. */
  readonly aux: number
  /** What the engine was asked and did not answer well: it was asked again. */
  readonly repeats: number
}

/** What a client's history may lack or spell otherwise without a token being lost; anything else said of a call is a finding. */
const HARMLESS: readonly string[] = ['history-restored', 'field-dropped', 'sampling-shaped']

/**
 * The whole account of a rollout. Every generation of the engine is a turn, an aux call or a repeat; every turn stands in exactly one trace
 * of its session, under exactly the prompt the engine reported; every session is one chain.
 */
export function accountFor({ sessions, generations }: Rollout): Account {
  const open = new Set(generations.filter((generation) => !isProbe(generation)))
  const take = (holds: (generation: EngineRequest) => boolean): boolean => {
    const found = [...open].find(holds)
    return found !== undefined && open.delete(found)
  }
  let turns = 0
  for (const session of sessions) {
    expect(session.forks, 'a session of one agent is one chain').toEqual({})
    expect(session.traces).toHaveLength(1)
    for (const trace of session.traces) {
      expect(trace.metadata.unreported_context_tokens).toBe(0)
      const mask = trace.response_ids.map(() => 0)
      for (const { start, end, trained } of trace.metadata.turns) {
        expect(trained).toBe(true)
        mask.fill(1, start, end)
        const [prompt, sampled] = [[...trace.prompt_ids, ...trace.response_ids.slice(0, start)], trace.response_ids.slice(start, end)]
        const isFound = take((generation) => isEqual(generation.promptIds, prompt) && isEqual(generation.sampledIds, sampled))
        expect(isFound, 'a trained turn is a generation of the engine under the very prompt that stands before it').toBe(true)
        turns += 1
      }
      expect(trace.loss_mask).toEqual(mask)
    }
  }
  let aux = 0
  for (const session of sessions) {
    for (const { reason } of session.untrained) {
      if (reason === 'aux' && take((generation) => generation.status === 200 && hasNoTools(generation))) aux += 1
    }
  }
  let repeats = 0
  for (const generation of open) if (generation.fault !== null && open.delete(generation)) repeats += 1
  expect([...open], 'every call of the engine is explained').toEqual([])
  return { turns, aux, repeats }
}

export type Expected = {
  readonly dialect: CallRecord['dialect']
  readonly model: string
  readonly statuses?: readonly CallRecord['status'][]
}

/** The records say whose calls these were, by which dialect they came, and that their tokens were captured. */
export function checkRecords(session: Session, { dialect, model, statuses = ['ok'] }: Expected): void {
  for (const record of session.records) {
    expect(record).toMatchObject({ session: session.id, attempt: 1, dialect, modelRequested: model, streamed: true, captureError: null })
    expect(statuses).toContain(record.status)
    if (record.status === 'ok') expect(record.delivery).toBe('yes')
    expect(record.diagnostics.filter(({ code }) => !HARMLESS.includes(code))).toEqual([])
  }
}

/** The node looks itself whether an engine serves. */
function isProbe({ body }: EngineRequest): boolean {
  return JSON.stringify(body).includes('"messages":[{"role":"user","content":"Say hi."}]')
}

function hasNoTools({ body }: EngineRequest): boolean {
  return typeof body === 'object' && body !== null && !('tools' in body)
}

function isEqual(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((id, at) => id === other[at])
}

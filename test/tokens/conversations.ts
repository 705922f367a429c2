// What a task's calls say of one another: whether each continues the one before it, and what is reported where one does not.
import { expect } from 'vitest'
import type { Session } from '../lib/rollout-node.ts'
import type { WireGeneration } from './relay.ts'
import type { Rollout } from './stand.ts'

export type Chain = { readonly continued: number; readonly broken: number }

/**
 * `wire` holds the generations of this session alone, which is one conversation. Every call begins with the whole of the one before it,
 * or the result reports, for just that call, the class of the break and where it is.
 */
export function checkChain(session: Session, wire: readonly WireGeneration[]): Chain {
  const chain = { continued: 0, broken: 0 }
  expect(session.records.map(({ status }) => status)).toEqual(wire.map(() => 'ok'))
  for (const [at, later] of wire.entries()) {
    const earlier = wire[at - 1]
    if (earlier === undefined) continue
    const edges = session.edges.filter(({ call_id }) => call_id === session.records[at]?.id)
    const of = session.records[at - 1]?.id
    const whole = [...earlier.promptIds, ...earlier.sampledIds]
    const parted = whole.findIndex((id, index) => id !== later.promptIds[index])
    if (parted === -1) {
      expect(edges).toMatchObject([{ kind: 'extends', of }])
      chain.continued += 1
      continue
    }
    const around = (ids: readonly number[], length: number): readonly number[] => ids.slice(parted, parted + length)
    // It may well continue a call before that one.
    const [edge, ...others] = edges.filter(({ kind }) => kind !== 'extends')
    const { earlier: was = [], later: is = [], common = [], start = -1 } = edge?.drift?.window ?? {}
    expect(edge).toMatchObject({ kind: 'rewrites', of, drift: { index: parted } })
    expect(others).toEqual([])
    expect(edge?.drift?.class).toMatch(/^D\d+$/)
    expect([was, is], 'the window shows what differs').toEqual([around(whole, was.length), around(later.promptIds, is.length)])
    expect(was[0]).not.toBe(is[0])
    expect(common.length).toBeGreaterThan(0)
    expect([start, common], 'and what stands right before it').toEqual([parted - common.length, whole.slice(start, parted)])
    chain.broken += 1
  }
  expect(Object.values(session.stats.forks_by_cause).reduce((sum, count) => sum + count, 0)).toBe(chain.broken)
  return chain
}

/** The generations of a session whose agent says its session first. */
export function wireOf({ id }: Session, { wire }: Rollout): readonly WireGeneration[] {
  return wire.filter(({ request }) => JSON.stringify(request.messages[0]).includes(id))
}

// What a session's calls come to in training: the calls whose tokens are trained, and why each of the others is not.
import { expect } from 'vitest'
import { taskId } from '../../src/contract/ids.ts'
import type { SealedCalls } from '../../src/proxy/boundary.ts'
import { readCalls } from '../../src/tokens/reader.ts'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'

export type Account = {
  /** Sequence numbers of trained calls; one that is trained twice stands here twice. */
  readonly trained: readonly number[]
  /** Sequence number and reason. */
  readonly untrained: readonly (readonly [number, string])[]
}

export function accountOf({ calls, tokens, messages }: SealedCalls): Account {
  const read = readCalls(tokens)
  const [first] = calls
  if (first === undefined) return { trained: [], untrained: [] }
  const built = assemble(
    {
      sessionId: first.session,
      taskId: taskId('retries'),
      attempt: 1,
      calls: calls.flatMap((record, at) => {
        const found = read[at]
        return found === undefined ? [] : [{ record, ...found }]
      }),
      messages,
      taskMetadata: {},
    },
    { strategy: 'prefix_merging', config: {} },
    buildPrefixMerging,
  )
  if (!built.ok) throw new Error(built.error)
  const sequenceOf = (id: string): number => calls.find((call) => call.id === id)?.sequence ?? -1
  const { traces, metadata } = built.trajectory
  const trained = traces.flatMap((trace) =>
    turnsOf(trace.metadata).flatMap(({ call_id, trained }) => (trained ? [sequenceOf(call_id)] : [])),
  )
  const untrained = untrainedOf(metadata).map(({ call_id, reason }) => [sequenceOf(call_id), reason] as const)
  const bySequence = (one: number, other: number): number => one - other
  expect([...trained, ...untrained.map(([sequence]) => sequence)].toSorted(bySequence), 'every call is accounted for').toEqual(
    calls.map(({ sequence }) => sequence).toSorted(bySequence),
  )
  return { trained: trained.toSorted(bySequence), untrained: untrained.toSorted(([one], [other]) => one - other) }
}

// The builder's own metadata, whose shape is tested elsewhere.
const turnsOf = (metadata: Readonly<Record<string, unknown>>) =>
  metadata.turns as readonly { readonly call_id: string; readonly trained: boolean }[]
const untrainedOf = (metadata: Readonly<Record<string, unknown>>) =>
  metadata.untrained as readonly { readonly call_id: string; readonly reason: string }[]

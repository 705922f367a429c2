import { expect, it } from 'vitest'
import { assemble } from '../../src/trajectory/assemble.ts'
import { buildPrefixMerging } from '../../src/trajectory/prefix-merging.ts'
import { toyInput } from './trajectory-calls.ts'

it('shows what the template put behind a turn that was cut, though nothing differs', () => {
  const calls = [
    { p: [1, 2], r: [5, 6], record: { finishReason: 'length' } as const },
    { p: [1, 2, 5, 6, 9, 3], r: [4, 9] },
  ]
  const built = assemble(toyInput(calls), { strategy: 'prefix_merging', config: {} }, buildPrefixMerging)
  if (!built.ok) throw new Error(built.error)
  const [edge] = built.trajectory.metadata.edges as readonly { readonly drift: unknown }[] // this builder's own shape
  expect(edge?.drift).toEqual({
    class: 'D7',
    index: null,
    reason: 'the turn before was cut by its token limit',
    window: { start: 0, common: [1, 2, 5, 6], earlier: [], later: [9, 3] },
  })
})

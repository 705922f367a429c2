import { describe, expect, it } from 'vitest'
import { ignoredKeys } from '../../src/cli/ignored-keys.ts'

const task = (metadata: Readonly<Record<string, unknown>>, more: Readonly<Record<string, unknown>> = {}): unknown => ({
  task_id: 'a-task',
  instruction: 'Do it.',
  agent: { harness: 'pi' },
  metadata,
  ...more,
})

describe('the keys of a task that mean nothing', () => {
  it('are those that no reader of tasks knows', () => {
    expect(ignoredKeys(task({}, { budget: { calls: 1 } }))).toEqual(['budget'])
    expect(ignoredKeys(task({}, { runtime: { backend: 'local', prepare: [{ type: 'exec', command: 'true', comand: '' }] } }))).toEqual([
      'runtime.prepare[0].comand',
    ])
  })

  it('are, of the metadata, those beside what the node reads under its own name', () => {
    expect(ignoredKeys(task({ polar_node: { budgets: { calls: 1 }, result: 'reference' } }))).toEqual([
      'metadata.polar_node.budgets',
      'metadata.polar_node.result',
    ])
    const known = { purpose: 'evaluation', results: 'reference', budget: { calls: 1 } }
    expect(ignoredKeys(task({ polar_node: known, anything: { of: 'a trainer' } }))).toEqual([])
    expect(ignoredKeys(task({ polar_node: null }))).toEqual([])
  })
})

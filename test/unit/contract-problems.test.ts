// The words in which a part of a task is refused.
import { expect, it } from 'vitest'
import { z } from 'zod'
import { problemsOf } from '../../src/contract/problems.ts'
import { testOnOutput } from '../../src/evaluators/test-on-output.ts'
import { checkBuilder } from '../../src/trajectory/config.ts'

const schema = z.strictObject({ name: z.string(), inner: z.strictObject({ depth: z.number().min(1) }) })
const told = (input: unknown): string => {
  const parsed = schema.safeParse(input)
  return parsed.success ? '' : problemsOf('a.b', input, parsed.error, Object.keys(schema.shape))
}

it.each([
  ['nothing', undefined, 'a.b: is required'],
  ['a missing key', { inner: { depth: 1 } }, 'a.b.name: is required'],
  ['a wrong type', { name: 1, inner: { depth: 1 } }, 'a.b.name: Invalid input: expected string, received number'],
  ['unknown keys', { name: '', inner: { depth: 1 }, x: 1, y: 1 }, 'a.b.x, a.b.y: unknown key; there are name, inner'],
  ['an unknown key further in', { name: '', inner: { depth: 1, deep: 1 } }, 'a.b.inner.deep: unknown key'],
  ['two at once', { inner: { depth: 0 } }, 'a.b.name: is required; a.b.inner.depth: Too small: expected number to be >=1'],
])('tells %s in one line', (_, input, words) => {
  expect(told(input)).toBe(words)
})

it('is how evaluators and builders refuse their configuration', () => {
  expect(testOnOutput.check({ strategy: 'test_on_output', config: { test_cmd: 'x' }, env: {}, refresh_runtime: false })).toBe(
    'evaluator.config.test_command: is required; evaluator.config.expected_output_json: is required',
  )
  expect(checkBuilder({ strategy: 'prefix_merging', config: { splices: true } }, [])).toBe('builder.config.splices: unknown key')
})

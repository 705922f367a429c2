// The documented way to fetch a result by reference: the very file of the docs, against a real node.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ContractNode, openContractNode } from './contract-node.ts'

/** Debian's own, as for the other clients. */
const PYTHON = '/usr/bin/python3'
const ROOT = join(import.meta.dirname, '../..')
const EXAMPLE = 'examples/clients/fetch_result.py'

let node: ContractNode
beforeAll(async () => {
  node = await openContractNode()
})
afterAll(() => node?.close())

it('gives the ids and logprobs that the inline results hold', async () => {
  await node.client.submit(node.task('by-reference', { calls: 2, keys: { num_samples: 2, builder: { strategy: 'per_request' } } }))
  const { results } = await node.finished('by-reference')
  const { stdout } = await promisify(execFile)(PYTHON, ['-B', join(ROOT, EXAMPLE), node.address, 'by-reference'])
  const told = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const rows = results.flatMap(({ session_id, trajectory }) =>
    trajectory.traces.map(({ prompt_ids, response_ids, loss_mask, response_logprobs, reward }) => ({
      session_id,
      reward,
      prompt_ids,
      response_ids,
      loss_mask,
      response_logprobs: response_logprobs?.map(Math.fround),
    })),
  )
  expect(rows).toHaveLength(4)
  expect(told).toEqual(rows)
})

it.each([
  ['how it is called', () => [], /fetch_result\.py http:\/\/polar:TOKEN@/],
  ['what the node has against it', () => [node.address, 'nowhere'], /^404 .*no task nowhere/],
] as const)('says %s when it has nothing to print', async (_, args, words) => {
  const run = promisify(execFile)(PYTHON, ['-B', join(ROOT, EXAMPLE), ...args()])
  await expect(run).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(words) })
})

it('is the code that the docs show', () => {
  const docs = readFileSync(join(ROOT, 'docs/results.md'), 'utf8')
  expect(docs).toContain(EXAMPLE)
  const linesOf = (text: string): readonly string[] => text.split('\n').map((line) => line.trim())
  const [, shown = ''] = /```python\n([\s\S]*?)\n```/.exec(docs) ?? []
  expect(linesOf(readFileSync(join(ROOT, EXAMPLE), 'utf8'))).toEqual(expect.arrayContaining([...linesOf(shown)]))
  expect(linesOf(shown).length).toBeGreaterThan(5)
})

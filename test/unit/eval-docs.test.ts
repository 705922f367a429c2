// What the pages on evaluations and topologies tell a user to write, and what they name.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { readDataset } from '../../src/eval/dataset.ts'
import { planEval } from '../../src/eval/plan.ts'
import { reportEval } from '../../src/eval/report.ts'

type Topology = {
  readonly rollout?: object
  readonly gateway: { readonly nodes: readonly { readonly inference: object }[] }
}

const page = (name: string): string => readFileSync(join(import.meta.dirname, '../../docs', name), 'utf8')

describe('the page on evaluations', () => {
  const text = page('eval.md')

  it('shows a file that is read, and filled in', () => {
    const [, yaml = ''] = /^```yaml\n([\s\S]*?)^```/m.exec(text) ?? []
    const read = readDataset('tasks.yaml', Buffer.from(yaml))
    expect(read).toMatchObject({
      ok: true,
      dataset: {
        tasks: [
          {
            name: 'first',
            request: { timeout_seconds: 120, evaluator: { config: { expected_output_json: { 'lower-cases letters': 'PASSED' } } } },
          },
        ],
      },
    })
  })

  it('tells every field of the JSON report', () => {
    const dataset = { name: 'd', sha256: 's', tasks: [{ name: 't', request: {} }] }
    const options = { samples: 1, seedBase: 0, run: '' }
    const report = reportEval(dataset, planEval(dataset, options), options, { ks: [1], threshold: 1 }, new Map())
    const told = text.slice(text.indexOf('## The JSON report'))
    for (const field of fieldsOf(report)) expect(told).toContain(`\`${field}\``)
  })
})

describe('the page on topologies', () => {
  const text = page('topology.md')

  it('says what each key of Polar’s is here', () => {
    const named = Array.from(text.matchAll(/`([a-z_.[\]*]+)`/g), ([, words = '']) => words.split('.').at(-1) ?? '')
    const isNamed = (key: string) => named.some((name) => new RegExp(`^${name.replace('*', '.+')}$`).test(key))
    const folder = join(import.meta.dirname, 'topologies')
    const files: readonly Topology[] = readdirSync(folder).map((file) => parse(readFileSync(join(folder, file), 'utf8')))
    const keys = files.flatMap(({ rollout, gateway: { nodes, ...gateway } }) => [
      rollout ?? {},
      gateway,
      ...nodes,
      ...nodes.map((node) => node.inference),
    ])
    expect(files.length).toBeGreaterThan(1)
    expect(keys.flatMap((section) => Object.keys(section)).filter((key) => !isNamed(key))).toEqual([])
  })
})

/** Of objects, not of tallies, whose keys are what is counted. */
function fieldsOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(fieldsOf)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key, ...(key === 'outcomes' ? [] : fieldsOf(inner))])
}

// The file of an evaluation: how it may be written, what becomes of each task, and how a mistake is shown.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type Dataset, readDataset } from '../../src/eval/dataset.ts'
import { planEval, seedOf } from '../../src/eval/plan.ts'

const AGENT = { harness: 'shell', custom_shell: { command: 'true' } }

function read(file: string, text: string): Dataset {
  const result = readDataset(file, Buffer.from(text))
  if (!result.ok) throw new Error(result.problem)
  return result.dataset
}

function problemOf(file: string, text: string): string {
  const result = readDataset(file, Buffer.from(text))
  return result.ok ? 'none' : result.problem
}

const task = (more: object = {}) => ({ instruction: 'x', agent: AGENT, ...more })
const lines = (...tasks: readonly object[]): string => tasks.map((one) => `${JSON.stringify(one)}\n`).join('\n')

describe('tasks are read', () => {
  const two = [task({ task_id: 'a' }), task({ task_id: 'b', instruction: 'y' })]
  it.each([
    ['JSON lines', 'set.jsonl', lines(...two)],
    ['a JSON list', 'set.json', JSON.stringify(two)],
    ['a YAML list', 'set.yaml', `- { task_id: a, instruction: x, agent: ${JSON.stringify(AGENT)} }\n- ${JSON.stringify(two[1])}\n`],
    [
      'a template and its instances',
      'set.yaml',
      JSON.stringify({
        template: task({ task_id: '{instance.id}', instruction: '{instance.of.text}' }),
        instances: [
          { id: 'a', of: { text: 'x' } },
          { id: 'b', of: { text: 'y' } },
        ],
      }),
    ],
  ])('from %s', (_, file, text) => {
    const dataset = read(`/data/${file}`, text)
    expect(dataset.name).toBe('set')
    expect(dataset.sha256).toBe(createHash('sha256').update(text).digest('hex'))
    expect(dataset.tasks.map(({ name, request }) => [name, request.instruction])).toEqual([
      ['a', 'x'],
      ['b', 'y'],
    ])
  })

  it('also one alone, and without ids', () => {
    expect(read('t.json', JSON.stringify(task())).tasks.map(({ name }) => name)).toEqual(['1'])
    expect(read('t.jsonl', lines(task(), task())).tasks.map(({ name }) => name)).toEqual(['1', '2'])
  })

  it('with a placeholder that stands alone keeping its type', () => {
    const template = task({ timeout_seconds: '{instance.seconds}', instruction: 'of {instance.seconds} s: {instance.list} {instance' })
    const { tasks } = read('t.yaml', JSON.stringify({ template, instances: [{ seconds: 7, list: ['a', 1] }] }))
    expect(tasks[0]?.request).toMatchObject({ timeout_seconds: 7, instruction: 'of 7 s: ["a",1] {instance' })
  })
})

describe('a mistake is shown with its place', () => {
  it.each([
    ['t.jsonl', `${lines(task())}{"instruction"\n`, /^t\.jsonl:2: .*JSON/],
    ['t.jsonl', lines(task(), { agent: AGENT }), /^t\.jsonl:3\.instruction: is required$/],
    ['t.yaml', JSON.stringify([task(), 3]), /^t\.yaml: \[1\]: must be an object/],
    ['t.yaml', '[', /^t\.yaml: /],
    ['t.yaml', '[]', /^t\.yaml: holds no task$/],
    ['t.jsonl', '\n\n', /^t\.jsonl: holds no task$/],
    [
      't.json',
      JSON.stringify([task({ task_id: 'a' }), task({ task_id: 'a' })]),
      /^t\.json: \[1\]: task_id a is that of t\.json: \[0\], too$/,
    ],
    [
      't.yaml',
      JSON.stringify({ template: task(), instance: [] }),
      /instances: is required; .*instance: unknown key; there are template, instances/,
    ],
    [
      't.yaml',
      JSON.stringify({ template: task({ instruction: '{instance.text} {instance.id}' }), instances: [{ text: 'a', id: 1 }, { txt: 'b' }] }),
      /^t\.yaml: instances\[1\]: has no text, id, which the template asks for$/,
    ],
    ['t.yaml', JSON.stringify({ template: task({ instruction: '{instance.constructor}' }), instances: [{}] }), /has no constructor/],
    ['t.json', JSON.stringify(task({ metadata: { polar_node: { purpose: 'fun' } } })), /purpose: must be training or evaluation/],
  ])('%s %s', (file, text, words) => {
    expect(problemOf(file, text)).toMatch(words)
  })
})

describe('what is submitted', () => {
  const dataset = read(
    'set.jsonl',
    lines(task({ task_id: 'a', num_samples: 7, callback_url: 'http://h', dispatch_priority: 3 }), task({ metadata: { mine: 1 } })),
  )
  const options = { samples: 4, seedBase: 0, run: '' }

  it('is judged and never trained, before everything else, with no early stop and no callback', () => {
    const [first, second] = planEval(dataset, options).tasks
    expect(first?.request).toMatchObject({
      task_id: first?.id,
      instruction: 'x',
      num_samples: 4,
      dispatch_priority: 100,
      early_stop_min_usable_sessions: null,
      callback_url: null,
      metadata: { eval_sampling_seed_base: first?.seedBase, polar_node: { purpose: 'evaluation' } },
    })
    expect(second?.request).toMatchObject({ metadata: { mine: 1 } })
  })

  it('is the same for the same file and options, and another task for any other', () => {
    const ids = (changes: Partial<typeof options> = {}, of = dataset) => planEval(of, { ...options, ...changes }).tasks.map(({ id }) => id)
    expect(planEval(dataset, options)).toEqual(planEval(dataset, options))
    const runs = [
      ids(),
      ids({ samples: 5 }),
      ids({ seedBase: 1 }),
      ids({ run: 'step-2' }),
      ids({}, { ...dataset, sha256: '0' }),
      ids({}, { ...dataset, name: 'x' }),
    ]
    expect(new Set(runs.flat()).size).toBe(runs.length * 2)
  })

  it('has seeds of the dataset’s name and the place alone', () => {
    const seeds = (of: Dataset, more: Partial<typeof options> = {}) =>
      planEval(of, { ...options, ...more }).tasks.map(({ seedBase }) => seedBase)
    const hash = (text: string): number => Number.parseInt(createHash('sha256').update(text).digest('hex').slice(0, 8), 16) % 2 ** 30
    expect(seeds(dataset)).toEqual([hash('set\n0'), hash('set\n1')])
    expect(seeds({ ...dataset, sha256: 'other' }, { samples: 9, run: 'r' })).toEqual(seeds(dataset))
    expect(seeds(dataset, { seedBase: 5 })).toEqual([hash('set\n0') + 5, hash('set\n1') + 5])
    expect(seeds({ ...dataset, name: 'other' })).not.toEqual(seeds(dataset))
    // What engines take: also with the highest sample added.
    expect(Math.max(...Array.from({ length: 1_000 }, (_, at) => seedOf('set', at)))).toBeLessThan(2 ** 31 - 4_096)
  })
})

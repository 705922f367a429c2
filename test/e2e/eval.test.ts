// `polar eval` as a command: a closed model is judged without training, and a run that was killed comes to the same report.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type ClosedModel, openClosedModel } from '../lib/closed-model.ts'
import { root, runPolar, type Serving, startServing } from '../lib/polar-process.ts'

const WAIT = { timeout: 60_000, interval: 20 }

/** Succeeds by the seed that its model call was made with. */
const AGENT = `
const reply = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'closed', messages: [{ role: 'user', content: 'which seed?' }] }),
})
if (!reply.ok) throw new Error(await reply.text())
const seed = Number((await reply.json()).choices[0].message.content)
process.exitCode = seed % 7 < 4 ? 0 : 1
`

/** The seeds of sample 0: the first 32 bits of sha256("tasks\n<position>") below 2³⁰. */
const BASES = [445_777_697, 733_708_024, 531_669_736]
/** Of four samples each, seed % 7 < 4 holds so often; the last task has no sandbox. */
const SUCCESSES = [3, 4, 1, 0]

let folder: string
let model: ClosedModel
let config: string
let tasks: string
let node: Serving

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-eval-'))
  model = await openClosedModel()
  writeFileSync(join(folder, 'agent.mjs'), AGENT)
  const task = (id: string, prepare: readonly object[] = []) => ({
    task_id: id,
    instruction: 'ask for the seed',
    runtime: { backend: 'local', prepare },
    agent: { harness: 'shell', custom_shell: { command: `exec node ${folder}/agent.mjs` } },
    evaluator: { strategy: 'session_completed' },
  })
  tasks = join(folder, 'tasks.jsonl')
  const lines = [task('one'), task('two'), task('three'), task('broken', [{ type: 'exec', command: 'exit 3' }])]
  writeFileSync(tasks, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  config = join(folder, 'polar.yaml')
  const gateway = { id: 'g', port: 0, inference: { engine: 'vllm', base_url: model.url }, max_init_workers: 4, max_run_workers: 4 }
  writeFileSync(
    config,
    JSON.stringify({
      rollout: { port: 0 },
      gateway: { nodes: [gateway] },
      polar_node: { data_dir: join(folder, 'data'), max_attempts: 1 },
    }),
  )
})
afterAll(async () => {
  await model.close()
  rmSync(folder, { recursive: true, force: true })
})

const command = (...more: readonly string[]): readonly string[] => [
  'eval',
  tasks,
  '--samples',
  '4',
  '--k',
  '1,2,4',
  '--rollout-url',
  node.url,
  '--token',
  node.token,
  ...more,
]

/** What does not depend on the run: everything but the names of sessions. */
function withoutNames(text: string): unknown {
  return JSON.parse(text, (key, value: unknown) => (key === 'session_id' || key === 'task_id' || key === 'run' ? undefined : value))
}

const seedsOf = (from: number): readonly number[] => model.seeds().slice(from).toSorted()

describe('polar eval', { timeout: 300_000 }, () => {
  beforeEach(async () => {
    node = await startServing(config)
  })
  afterEach(async () => {
    model.release()
    await node.stop('SIGKILL')
  })

  it('judges a model that gives no token ids: every sample counts, and what is not the policy’s fault stands apart', async () => {
    const before = model.seeds().length
    const { code, stdout, stderr } = await runPolar(...command('--name', 'whole', '--json'))
    // The broken sandbox is no fault of the policy: the command says so by its code.
    expect([code, stderr.split('\n').filter((line) => line.includes('4/4')).length]).toEqual([1, 1])
    const report = JSON.parse(stdout)
    expect(report.tasks.map(({ successes }: { readonly successes: number }) => successes)).toEqual(SUCCESSES)
    expect(report).toMatchObject({
      sessions: 16,
      mean_reward: 8 / 16,
      pass_at_k: [
        { k: 1, value: (3 / 4 + 1 + 1 / 4 + 0) / 4 },
        { k: 2, value: (1 + 1 + 1 / 2 + 0) / 4 },
        { k: 4, value: 3 / 4 },
      ],
      outcomes: { completed: 8, agent_error: 4, init_error: 4 },
      failures_not_of_the_policy: 4,
      classes: { policy: 12, infra: 4 },
    })
    expect(report.pass_at_k[0].low).toBeCloseTo(0.15, 3)
    expect(report.pass_at_k[0].high).toBeCloseTo(0.85, 3)
    expect(seedsOf(before)).toEqual(BASES.flatMap((base) => [0, 1, 2, 3].map((i) => base + i)).toSorted())

    const reply = await fetch(`${node.url}/rollout/task/${report.tasks[0].task_id}`, { headers: { authorization: `Bearer ${node.token}` } })
    const { results } = (await reply.json()) as { readonly results: readonly { readonly metadata: { readonly polar_node: object } }[] }
    expect(results.map(({ metadata }) => metadata.polar_node)).toMatchObject(
      Array(4).fill({ purpose: 'evaluation', trained_tokens: 0, calls: 1 }),
    )
  })

  it('goes on where it was killed, asks for no session twice, and comes to the same report', async () => {
    const out = join(folder, 'report.json')
    const before = model.seeds().length
    model.holdAfter(before + 6)
    const args = command('--name', 'cut', '--concurrency', '1', '--out', out)
    const child = spawn(process.execPath, [resolve(root, 'bin/polar.js'), ...args], { cwd: root, stdio: 'ignore' })
    const known = (): number => (existsSync(`${out}.partial`) ? readFileSync(`${out}.partial`, 'utf8').trim().split('\n').length - 1 : 0)
    await vi.waitUntil(() => known() === 1 && model.seeds().length === before + 6, WAIT)
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
    model.release()

    const { code, stderr } = await runPolar(...args)
    expect(code).toBe(1)
    expect(stderr).toContain('1 task known')
    expect(seedsOf(before)).toEqual(BASES.flatMap((base) => [0, 1, 2, 3].map((i) => base + i)).toSorted())
    const whole = await runPolar(...command('--name', 'again', '--json'))
    expect(withoutNames(readFileSync(out, 'utf8'))).toEqual(withoutNames(whole.stdout))
    expect(readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([])
  })

  it('goes on at a node that was started again and knows nothing of it', async () => {
    const out = join(folder, 'restarted.json')
    const before = model.seeds().length
    model.holdAfter(before + 6)
    const options = ['--name', 'restarted', '--concurrency', '1', '--out', out, '--poll-interval', '0.1']
    const running = runPolar(...command(...options))
    await vi.waitUntil(() => model.seeds().length === before + 6, WAIT)
    await node.stop('SIGKILL')
    expect((await running).code).toBe(3)
    model.release()
    node = await startServing(config)
    const { code } = await runPolar(...command(...options))
    expect(code).toBe(1)
    const report = JSON.parse(readFileSync(out, 'utf8'))
    expect(report.tasks.map(({ successes }: { readonly successes: number }) => successes)).toEqual(SUCCESSES)
  })
})

describe('polar eval, before it asks a node, refuses', () => {
  it.each([
    ['a k beyond the samples', ['--k', '1,8', '--samples', '4'], /--k 8 needs --samples 8 or more/],
    ['another file than the pinned one', ['--sha256', 'ab'.repeat(32)], /is not the pinned file: its sha256 is [0-9a-f]{64}/],
    ['a count that is none', ['--samples', '0'], /a whole number from 1 on/],
    ['a list of counts that holds none', ['--k', '1,x'], /a whole number from 1 on/],
  ] as const)('%s', async (_, options, words) => {
    const { code, stderr } = await runPolar('eval', tasks, ...options)
    expect(stderr).toMatch(words)
    expect(code).toBe(2)
  })

  it('a task that nothing grades', async () => {
    const file = join(folder, 'ungraded.json')
    writeFileSync(file, JSON.stringify({ task_id: 'a', instruction: 'x', agent: { harness: 'pi' } }))
    const { code, stderr } = await runPolar('eval', file)
    expect([code, stderr]).toEqual([2, `polar: ${file}: task a has no evaluator: no session of it could succeed\n`])
  })
})

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { call, type Model, openModel } from '../harness/answers.ts'
import { root, runPolar, type Serving, startServing } from '../lib/polar-process.ts'

/** Harnesses of somebody who is not careful; each answers what the part of its name says. */
const CLUMSY = {
  'throws-in-check': "check() { throw new Error('no idea') }",
  'throws-in-plan': "plan() { throw new Error('no plan') }",
  'plans-nothing': 'plan: () => ({ ok: true, plan: { files: [], setup: [] } })',
  'plans-later': 'async plan() { return { ok: false, error: "late" } }',
  'uploads-anything': "plan: () => ({ ok: true, plan: { ...PLAN, uploads: [{ source: '/etc', target: 'etc' }] } })",
  'throws-in-verdict': "verdict() { throw new Error('no word') }",
} as const
const CAREFUL = `dialect: 'any',
  check: () => null,
  plan: ({ modelUrl, modelKey }) => ({ ok: true, plan: { files: [], setup: [], run: {
    command: \`exec '\${process.execPath}' -e "\${ASK}"\`, env: { URL: modelUrl, KEY: modelKey }, label: 'agent' } } }),
  verdict: () => ({ failed: false })`
const PLAN = `{ files: [], setup: [], run: { command: 'true', env: {}, label: 'agent' } }`
const ASK = `fetch(process.env.URL + '/v1/chat/completions', { method: 'POST', headers: { authorization: 'Bearer ' + process.env.KEY },
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }) }).then((reply) => reply.text())`

let folder = ''
let model: Model
let engine: ScriptedEngine
let node: Serving

const moduleOf = (name: string, text: string): string => {
  writeFileSync(join(folder, `${name}.mjs`), text)
  return `${name}.mjs`
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-own-harness-'))
  model = openModel()
  engine = await openScriptedEngine({ answers: model, model: 'm' })
  const clumsy = Object.entries(CLUMSY).map(([name, part]) => {
    const text = `const ASK = ${JSON.stringify(ASK.replaceAll('\n', ' '))}\nconst PLAN = ${PLAN}\nexport const harness = { ${CAREFUL}, ${part} }\n`
    return [name, moduleOf(name, text)] as const
  })
  const harnesses = { loop: join(root, 'examples/harnesses/loop.ts'), ...Object.fromEntries(clumsy) }
  const gateway = { nodes: [{ id: 'g', port: 0, model_served: 'm', inference: { engine: 'vllm', base_url: engine.url } }] }
  const own = { data_dir: join(folder, 'data'), harnesses }
  writeFileSync(join(folder, 'polar.yaml'), JSON.stringify({ rollout: { port: 0 }, gateway, polar_node: own }))
  node = await startServing(join(folder, 'polar.yaml'))
  await vi.waitUntil(async () => (await control('/nodes')).text.includes('"tier":"train"'), { timeout: 60_000, interval: 50 })
}, 120_000)

afterAll(async () => {
  await node?.stop()
  await engine?.close()
  rmSync(folder, { recursive: true, force: true })
})

async function control(path: string, body?: unknown): Promise<{ readonly status: number; readonly text: string }> {
  const headers = { authorization: `Bearer ${node.token}`, 'content-type': 'application/json' }
  const reply = await fetch(node.url + path, body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: reply.status, text: await reply.text() }
}

let tasks = 0

const submit = (agent: Readonly<Record<string, unknown>>): ReturnType<typeof control> =>
  control('/rollout/task/submit', {
    task_id: `own-${++tasks}`,
    instruction: 'write "hello" into a file',
    agent,
    runtime: { backend: 'local' },
    builder: { strategy: 'prefix_merging' },
    evaluator: { strategy: 'session_completed' },
  })

type Result = {
  readonly session_id: string
  readonly status: string
  readonly metadata: { readonly polar_node: { readonly outcome: string } }
  readonly trajectory: {
    readonly error?: string | null
    readonly traces: readonly { readonly loss_mask: readonly number[]; readonly metadata: { readonly turns: readonly unknown[] } }[]
    readonly metadata: { readonly agent_result: { readonly error?: string } }
  }
}

async function resultOf(agent: Readonly<Record<string, unknown>>): Promise<Result & { readonly error: string; readonly attempts: number }> {
  const submitted = await submit(agent)
  expect(submitted.text).toContain(`own-${tasks}`)
  const [result] = await vi.waitUntil(
    async () => {
      const view: { readonly status: string; readonly results: readonly Result[] } = JSON.parse(
        (await control(`/rollout/task/own-${tasks}`)).text,
      )
      return view.status === 'running' ? null : view.results
    },
    { timeout: 90_000, interval: 50 },
  )
  if (result === undefined) throw new Error('the task has no result')
  const rows: { readonly sessions: readonly { readonly earlier_attempts: readonly unknown[] }[] } = JSON.parse(
    (await control(`/tasks/own-${tasks}/sessions`)).text,
  )
  const error = result.trajectory.error ?? result.trajectory.metadata.agent_result.error ?? ''
  return { ...result, error, attempts: 1 + (rows.sessions[0]?.earlier_attempts.length ?? 0) }
}

const outcomeOf = ({ metadata, status, error, attempts }: Awaited<ReturnType<typeof resultOf>>): readonly unknown[] => [
  metadata.polar_node.outcome,
  status,
  error,
  attempts,
]

describe('a harness of one’s own, named in the configuration,', () => {
  it('runs its agent, whose turns are trained and whose log is kept', async () => {
    model.play([
      () => ({ text: 'I begin.', calls: [call('shell', { command: 'echo hello > a.txt; cat a.txt' })] }),
      (last) => ({ text: last.includes('hello\nexit code 0') ? 'It is written.' : 'It is not.' }),
    ])
    const result = await resultOf({ harness: 'loop', model_name: 'any/name', settings: { max_turns: 3, sampling: { temperature: 0.5 } } })
    expect(outcomeOf(result)).toEqual(['completed', 'COMPLETED', '', 1])
    expect(result.trajectory.traces.map(({ metadata }) => metadata.turns.length)).toEqual([2])
    expect(result.trajectory.traces.flatMap(({ loss_mask }) => loss_mask)).toContain(1)
    const transcript = join(folder, 'data/logs', `${result.session_id}.1`, 'home/transcript.jsonl')
    const kept = await vi.waitUntil(() => readIfThere(transcript), { timeout: 30_000, interval: 20 })
    expect(kept).toContain('It is written.')
  })

  it.each<[string, Readonly<Record<string, unknown>>, string]>([
    ['a misspelt setting', { harness: 'loop', settings: { max_turn: 1 } }, 'agent.settings.max_turn: unknown key; there is max_turns'],
    [
      'a setting of the wrong kind',
      { harness: 'loop', settings: { max_turns: 'few' } },
      'agent.settings.max_turns: must be a whole number',
    ],
    ['what its module cannot check', { harness: 'throws-in-check' }, "harness 'throws-in-check' could not check the agent: no idea"],
  ])('refuses %s when the task is submitted', async (_name, agent, words) => {
    const reply = await submit(agent)
    expect([reply.status, JSON.parse(reply.text)]).toEqual([422, expect.anything()])
    expect(reply.text).toContain(words)
  })

  it('is heard when it says that its agent failed, though that exited with 0', async () => {
    model.play([() => ({ calls: [call('shell', { command: 'true' })] })])
    const result = await resultOf({ harness: 'loop', settings: { max_turns: 1 } })
    expect(outcomeOf(result)).toEqual(['agent_error', 'COMPLETED', 'the agent ended with: not done after 1 turns', 1])
  })

  it.each<[keyof typeof CLUMSY, string, string]>([
    ['throws-in-plan', 'harness_error', "harness 'throws-in-plan' made no plan: no plan"],
    ['plans-nothing', 'harness_error', "harness 'plans-nothing' made no plan: its answer.plan.run: is required"],
    ['plans-later', 'harness_error', "harness 'plans-later' made no plan: its answer.ok: is required"],
    ['uploads-anything', 'init_error', 'could not upload to etc: this node allows no uploads: set polar_node.upload_roots'],
    ['throws-in-verdict', 'agent_error', "harness 'throws-in-verdict' could not judge its agent: no word"],
  ])('costs no more than its session when it %s', async (harness, outcome, error) => {
    model.play([() => ({ text: 'hi' })])
    const result = await resultOf({ harness })
    expect(outcomeOf(result)).toEqual([outcome, outcome === 'agent_error' ? 'COMPLETED' : 'ERROR', expect.stringContaining(error), 1])
  })

  it('is not alone in leaving logs: what any program puts into LOGS_DIR is kept, and nothing that it links to', async () => {
    const command = 'echo "what I did" >"$LOGS_DIR/own.log"; ln -s /etc/hostname "$LOGS_DIR/link.log"; exit 3'
    const { session_id } = await resultOf({ harness: 'shell', custom_shell: { command } })
    const kept = join(folder, 'data/logs', `${session_id}.1`, 'home/.polar/logs')
    expect(await vi.waitUntil(() => readIfThere(join(kept, 'own.log')), { timeout: 30_000, interval: 20 })).toBe('what I did\n')
    expect(readIfThere(join(kept, 'link.log'))).toBeNull()
  })

  it('keeps the node from starting when its module exports none', async () => {
    const file = moduleOf('no-harness', 'export const agent = {}')
    const config = join(folder, 'broken.yaml')
    writeFileSync(
      config,
      JSON.stringify({ rollout: { port: 0 }, polar_node: { data_dir: join(folder, 'other'), harnesses: { mine: file } } }),
    )
    const { code, stderr } = await runPolar('serve', '--config', config)
    expect(code).not.toBe(0)
    expect(stderr).toContain(`custom harness 'mine' (${join(folder, file)})`)
  })
})

function readIfThere(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

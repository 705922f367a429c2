// Commands of a node that runs: those of Polar as a script written for it uses them, and those for what is new.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { freePort } from '../lib/free-port.ts'
import { root, runPolar, runToEnd, type Serving, startServing } from '../lib/polar-process.ts'

const WAIT = { timeout: 60_000, interval: 20 }
const polar = resolve(root, 'bin/polar.js')

const AGENT = `
const reply = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }),
})
if (!reply.ok) throw new Error(await reply.text())
process.exitCode = Number(process.argv[2] ?? 0)
`

let folder: string
let engine: ScriptedEngine
let topology: string
let agent: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-commands-'))
  engine = await openScriptedEngine({ generator: { words: [3, 8] }, model: 'm' })
  agent = join(folder, 'agent.mjs')
  writeFileSync(agent, AGENT)
  topology = join(folder, 'topology.yaml')
  const node = (id: string, port: number) => ({ id, port, model_served: 'm', inference: { engine: 'vllm', base_url: engine.url } })
  const nodes = [node('a', await freePort()), node('b', await freePort())]
  writeFileSync(
    topology,
    JSON.stringify({ rollout: { port: await freePort() }, gateway: { nodes }, polar_node: { data_dir: join(folder, 'data') } }),
  )
  // As a script of Polar's has it: no command is told which node it talks to.
  vi.stubEnv('POLAR_TOPOLOGY', topology)
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await engine.close()
  rmSync(folder, { recursive: true, force: true })
})

type Started = { readonly child: ChildProcess; output(): string; complaints(): string; ended(): Promise<number | null> }

const started: Started[] = []
afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGKILL')
    await ended()
  }
})

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Started {
  const child = spawn(process.execPath, [polar, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  let complained = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complained += text
  })
  const gone = once(child, 'close')
  const entry = { child, output: () => said, complaints: () => complained, ended: async () => ((await gone) as [number | null])[0] }
  started.push(entry)
  return entry
}

const says = ({ output }: Started, words: string): Promise<unknown> => vi.waitUntil(() => output().includes(words), WAIT)

describe('a script that starts Polar’s processes one by one', { timeout: 300_000 }, () => {
  it('ends in one working node, in any order, and every process ends with it', async () => {
    const first = start(['serve_gateway', '--node-id', 'a'])
    const server = start(['serve_rollout'])
    const second = start(['serve_gateway', '-c', topology], { POLAR_GATEWAY_NODE_ID: 'b' })
    await says(server, 'ready')
    await Promise.all([says(first, 'gateway a is served by the node'), says(second, 'gateway b is served by the node')])
    const { stdout } = await runPolar('status')
    for (const id of ['a', 'b']) expect(stdout).toContain(`gateway ${id}  healthy`)
    // One that is stopped takes nothing with it.
    second.child.kill('SIGTERM')
    expect(await second.ended()).toBe(0)
    expect(first.child.exitCode).toBeNull()
    server.child.kill('SIGTERM')
    expect(await Promise.all([server.ended(), first.ended()])).toEqual([0, 0])
    expect(first.output()).toContain('the node that served gateway a has ended')
  })

  it.each([
    ['a gateway that the topology does not have', ['serve_gateway', '--node-id', 'c'], 2, /no gateway c; there are a, b/],
    ['no choice among several', ['serve_gateway'], 2, /--node-id is needed: the topology has a, b/],
    ['no node within its patience', ['serve_gateway', '--node-id', 'a', '--wait', '0.1'], 3, /no node serves gateway a: no answer from/],
    ['a dashboard that there is none of', ['dashboard', '--port', '8090'], 2, /polar status -c FILE/],
  ] as const)('is told of %s', async (_, args, expected, words) => {
    const { code, stderr } = await runPolar(...args)
    expect(stderr).toMatch(words)
    expect(code).toBe(expected)
  })
})

describe('on a running node', { timeout: 300_000 }, () => {
  let node: Serving
  beforeAll(async () => {
    node = await startServing(topology)
  })
  afterAll(() => node.stop('SIGKILL'))

  const task = (id: string, command: string): string => {
    const file = join(folder, `${id}.json`)
    const body = { task_id: id, instruction: 'x', runtime: { backend: 'local' }, agent: { harness: 'shell', custom_shell: { command } } }
    writeFileSync(file, JSON.stringify({ ...body, num_samples: 2, evaluator: { strategy: 'session_completed' } }))
    return file
  }
  const json = async (...args: readonly string[]) => JSON.parse((await runPolar(...args, '--json')).stdout)

  it('submit tells how many sessions completed and which have reward 1.0', async () => {
    const { code, stdout } = await runPolar('submit', task('solved', `exec node ${agent}`))
    expect(code).toBe(0)
    expect(stdout).toMatch(/completed sessions: 2\/2\nsessions with reward 1\.0: sk-polar-\S+, sk-polar-\S+\n$/)
    const failed = await runPolar('submit', task('unsolved', `exec node ${agent} 1`))
    expect(failed.stdout).toMatch(/completed sessions: 2\/2\nsessions with reward 1\.0: none\n$/)
  })

  it('submit that is interrupted says that its task goes on, and how to end it', async () => {
    const submit = start(['submit', task('left', 'exec sleep 1000')])
    await says(submit, 'RUNNING')
    submit.child.kill('SIGINT')
    expect(await submit.ended()).toBe(130)
    expect(submit.complaints()).toBe("polar: interrupted: task left goes on; 'polar status left' shows it, 'polar cancel left' ends it\n")
    expect((await runPolar('cancel', 'left')).code).toBe(0)
  })

  it('tasks and sessions list what there is, by what is asked for', async () => {
    const file = task('listed', `exec node ${agent}`)
    expect((await runPolar('submit', file)).code).toBe(0)
    expect((await runPolar('tasks', '--status', 'completed', '--harness', 'shell')).stdout).toMatch(
      /^listed {2}completed {2}2\/2 sessions ended {2}mean reward 1$/m,
    )
    expect((await runPolar('tasks', '--status', 'failed')).stdout).toBe('no tasks\n')
    expect((await json('tasks', '--limit', '1')).tasks.map(({ task_id }: { readonly task_id: string }) => task_id)).toEqual(['listed'])
    const { sessions } = await json('sessions', 'listed')
    expect(sessions).toMatchObject(Array(2).fill({ task_id: 'listed', status: 'COMPLETED', completion_count: 1 }))
    expect((await runPolar('sessions', 'listed', '--status', 'active')).stdout).toBe('no sessions\n')
    expect((await runPolar('sessions', 'listed')).stdout).toMatch(/^sk-polar-\S+ {2}task listed {2}COMPLETED {2}1 call {2}/)
  })

  it('cancel ends a task, and says so of one that is not there', async () => {
    const file = task('endless', 'exec sleep 1000')
    expect((await runPolar('submit', file, '--no-wait')).code).toBe(0)
    const { code, stdout } = await runPolar('cancel', 'endless')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^task endless cancell(ing|ed): \d\/2 sessions ended\n$/)])
    await vi.waitUntil(async () => /^endless {2}/m.test((await runPolar('tasks', '--status', 'cancelled')).stdout), WAIT)
    expect(await runPolar('cancel', 'never')).toMatchObject({ code: 1, stderr: expect.stringContaining('no task never') })
    expect((await runPolar('cancel', 'never', '--register-if-missing')).stdout).toContain('task never cancelled')
    expect(await runPolar('submit', task('never', 'true'), '--no-wait')).toMatchObject({ code: 2 })
  })

  it('pause holds the calls of all gateways, or of one, until resume', async () => {
    expect((await runPolar('pause')).stdout).toBe('gateway a  paused  in flight 0, waiting 0\ngateway b  paused  in flight 0, waiting 0\n')
    expect((await runPolar('resume', '-g', 'b')).stdout).toBe('gateway b  serving  in flight 0, waiting 0\n')
    expect(await json('resume')).toMatchObject({ paused: false, inflight: 0 })
  })

  it('status says which gateway is drained, and when none takes sessions', async () => {
    const token = readFileSync(join(folder, 'data', 'control-token'), 'utf8').trim()
    const ask = (path: string, init: RequestInit = {}) =>
      fetch(`${node.url}${path}`, { ...init, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } })
    const nodes = async () => (await (await ask('/nodes')).json()) as readonly unknown[]
    const registrations = await nodes()
    const held = (await json('capture', '-g', 'a')).session_id
    await ask('/nodes/a', { method: 'DELETE' })
    const told = (await runPolar('status')).stdout.split('\n').filter((line) => line.startsWith('gateway'))
    expect(told).toEqual([
      expect.stringMatching(/^gateway a {2}healthy, drained: takes no new session {2}/),
      expect.stringMatching(/^gateway b {2}healthy {2}/),
    ])
    await ask('/nodes/b', { method: 'DELETE' })
    await runPolar('capture', '--finish', held)
    await vi.waitUntil(async () => (await nodes()).length === 0, WAIT)
    expect((await runPolar('status')).stdout).toMatch(/^no gateway: each has been drained, and sessions wait until one registers again\n/)
    for (const registration of registrations) {
      expect(await ask('/nodes/register', { method: 'POST', body: JSON.stringify(registration) })).toMatchObject({ status: 200 })
    }
  })

  it('capture runs a command of the caller’s as a session, and grades it', async () => {
    const run = await runPolar('capture', '--run', `node ${agent}`, '--reward', '0.5', '--task', 'mine')
    expect([run.code, run.stdout]).toEqual([
      0,
      expect.stringMatching(/^capture sk-polar-\S+ COMPLETED \(completed\): 1 call, 1 trace, [1-9]\d* tokens to train, reward 0\.5\n$/),
    ])
    expect(await json('sessions', 'mine')).toMatchObject({ sessions: [{ status: 'COMPLETED' }] })
    const again = await runPolar('capture', '--finish', run.stdout.split(' ')[1] ?? '', '--reward', '1')
    expect([again.code, again.stdout]).toEqual([0, run.stdout])
    expect(again.stderr).toMatch(/^polar: capture sk-polar-\S+ had ended before: this reward is not taken\n$/)
    const broken = await runPolar('capture', '--run', `node ${agent} 3`, '--json')
    expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining('exit code 3') })
    expect(JSON.parse(broken.stdout)).toMatchObject({ status: 'COMPLETED', completion_count: 1 })
  })

  it('capture gives an agent that is started elsewhere its environment, until it is finished', async () => {
    const script = `eval "$("$0" ${polar} capture --evaluation)" && "$0" ${agent} && "$0" ${polar} capture --finish "$SESSION_ID"`
    const { code, stdout, stderr } = await runToEnd('sh', ['-c', script, process.execPath])
    expect([code, stdout]).toEqual([0, expect.stringMatching(/: 1 call, 1 trace, 0 tokens to train, reward –\n$/)])
    expect(stderr).toMatch(/^polar: capture sk-polar-\S+ is open; end it with: polar capture --finish sk-polar-\S+\n$/)
  })

  it.each([
    ['two ends of a capture at once', ['--run', 'true', '--finish', 'x'], /--finish ends a capture, --run opens one/],
    ['a grade before the end', ['--reward', '1'], /--reward is given when a capture ends/],
    ['a session that is not there', ['--finish', 'nobody'], /no session nobody/],
  ] as const)('capture refuses %s', async (_, options, words) => {
    const { code, stderr } = await runPolar('capture', ...options)
    expect(stderr).toMatch(words)
    expect(code).toBe(options[0] === '--finish' ? 1 : 2)
  })
})

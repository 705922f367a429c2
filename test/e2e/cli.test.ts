import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { root, runPolar, runToEnd, startServing } from '../lib/polar-process.ts'

let folder = ''
let occupied: Server
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-cli-'))
  occupied = createServer((_, response) => response.writeHead(500).end('not polar'))
  await new Promise<void>((listening) => occupied.listen(0, '127.0.0.1', listening))
})
afterAll(async () => {
  await new Promise((closed) => occupied.close(closed))
  rmSync(folder, { recursive: true, force: true })
})

const stands: Server[] = []
afterEach(async () => {
  for (const stand of stands.splice(0)) await new Promise((closed) => stand.close(closed))
})

type Answers = { readonly [path: string]: (response: ServerResponse) => unknown }

/** Something that stands where a node would: these answers by path, and for every other path the same refusal. */
async function answering(answers: Answers, refusal = 503, refused: unknown = {}): Promise<string> {
  const stand = createServer((request, response) => {
    const answer = answers[request.url ?? '']
    const body = answer === undefined ? refused : answer(response)
    // An answer that has begun by itself goes on by itself.
    if (response.headersSent) return
    response.writeHead(answer === undefined ? refusal : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((listening) => stand.listen(0, '127.0.0.1', listening))
  stands.push(stand)
  return `http://127.0.0.1:${(stand.address() as AddressInfo).port}`
}

/** An engine of this machine's would have its own line in the log. */
const silent = 'inference: { base_url: "http://127.0.0.1:9" }'

function write(name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}

describe('polar on the command line', () => {
  it.each([
    ['polar', [], ['serve', 'submit', 'status', 'engine', 'Exit codes']],
    ['serve', ['serve'], ['--config', '--engine-url', '--json']],
    ['submit', ['submit'], ['--rollout-url', '--no-wait', '--json']],
    ['status', ['status'], ['--rollout-url', '--json']],
    ['engine', ['engine'], ['--scripted', '--shape', '--fault']],
    ['results', ['results'], ['--after', '--follow', '--save', '--json']],
    ['callbacks', ['callbacks'], ['list', 'redrive']],
    ['callbacks redrive', ['callbacks', 'redrive'], ['--url', '--state', '--session', '--json']],
    ['engines', ['engines'], ['list', 'add', 'remove']],
    ['tasks', ['tasks'], ['--status', '--harness', '--since', '--limit', '--json']],
    ['sessions', ['sessions'], ['[task]', '--status', '--gateway', '--json']],
    ['cancel', ['cancel'], ['<task>', '--register-if-missing', '--json']],
    ['capture', ['capture'], ['--run', '--finish', '--reward', '--evaluation']],
    ['pause', ['pause'], ['--timeout', '--gateway', '--json']],
    ['resume', ['resume'], ['--gateway', '--json']],
    ['eval', ['eval'], ['--samples', '--k', '--seed-base', '--concurrency', '--out', '--sha256', '--json']],
    ['serve_rollout', ['serve_rollout'], ['--config', 'POLAR_TOPOLOGY']],
    ['serve_gateway', ['serve_gateway'], ['--node-id', 'POLAR_GATEWAY_NODE_ID', '--wait']],
    ['dashboard', ['dashboard'], ['there is none here']],
    ['engines add', ['engines', 'add'], ['--engine', '--gateway', '--data-parallel-ranks', '--router', '--json']],
  ])('%s --help names its commands and options', async (_, command, words) => {
    const { code, stdout } = await runPolar(...command, '--help')
    expect(code).toBe(0)
    for (const word of words) expect(stdout).toContain(word)
  })

  it('is found by npx inside the checkout', async () => {
    const { code, stdout } = await runToEnd('npx', ['--no-install', 'polar', '--help'])
    expect([code, stdout.includes('Usage: polar')]).toEqual([0, true])
  })

  it.each([
    ['an unknown command', ['fly'], 2, /unknown command 'fly'/],
    ['an unknown option', ['serve', '--speed', 'high'], 2, /unknown option '--speed'/],
    ['a poll interval that is none', ['submit', 'x.json', '--poll-interval', 'soon'], 2, /positive number of seconds/],
    ['a task file that is not there', ['submit', 'nowhere.json'], 2, /cannot read the task nowhere\.json/],
    ['an address that is none', ['status', '--rollout-url', 'nowhere'], 2, /'nowhere' is not a URL/],
    ['an address without http://', ['status', '--rollout-url', 'localhost:8080'], 2, /'localhost:8080' is not a URL like http:/],
    [
      'a node that does not answer',
      ['status', '--rollout-url', 'http://127.0.0.1:9'],
      3,
      /no answer from http:\/\/127\.0\.0\.1:9.*polar serve/,
    ],
    ['an engine address without http://', ['serve', '--engine-url', 'localhost:8000'], 2, /--engine-url: must be a URL like http:/],
    ['the kind of no server', ['serve', '--engine', 'vllm'], 2, /no inference server is named/],
    ['the kind of no server, for the doctor', ['doctor', 'drift', '--engine', 'vllm'], 2, /no inference server is named/],
    ['a count that is none', ['engine', '--scripted', '--replicas', 'x'], 2, /--replicas: must be a whole number from 1 to 64/],
    ['the pace of an engine that has its own', ['engine', '--ttft-ms', '5'], 2, /--ttft-ms: only with --scripted/],
    ['a model file that is not there', ['engine', '--model-path', 'no.gguf'], 2, /there is no file no\.gguf/],
    ['a configuration that is not there', ['serve', '-c', '/none/polar.yaml'], 2, /^polar: \/none\/polar\.yaml: there is no such file\n$/],
    ['a server of no kind', ['engines', 'add', 'http://h'], 2, /required option '--engine <kind>'/],
    ['a cap of nothing', ['engines', 'add', 'http://h', '--engine', 'vllm', '--max-in-flight', '0'], 2, /a whole number from 1 on/],
    ['a node whose servers nobody tells', ['engines', '--rollout-url', 'http://127.0.0.1:9'], 3, /no answer from http:\/\/127\.0\.0\.1:9/],
    ['a fault nobody knows', ['engine', '--scripted', '--fault', 'rain'], 2, /no fault rain; there are hang/],
    ['a script that is not there', ['engine', '--scripted', '--script', 'no.yaml'], 2, /cannot read script no\.yaml/],
  ] as const)('says what is wrong with %s', async (_, args, expected, words) => {
    const { code, stderr } = await runPolar(...args)
    expect(stderr).toMatch(words)
    expect(code).toBe(expected)
  })

  it.each([
    ['an unknown key', 'rollout:\n  prot: 8080\n', /:2:3: rollout\.prot: .*port/],
    ['a value of the wrong type', 'rollout:\n  port: many\n', /:2:3: rollout\.port: /],
    ['a key of ours in Polar’s place', 'data_dir: /tmp\n', /:1:1: data_dir: /],
    [
      'two nodes with one port',
      'gateway:\n  nodes:\n    - { id: a, port: 9001 }\n    - { id: b, port: 9001 }\n',
      /:4:\d+: .*port 9001 is already/,
    ],
    ['text that is not YAML', 'rollout: [\n', /:2:1: /],
  ])('names file, line and key of %s', async (_, text, words) => {
    const file = write('bad.yaml', text)
    const { code, stderr } = await runPolar('serve', '--config', file)
    expect(stderr).toContain(file)
    expect(stderr).toMatch(words)
    expect(code).toBe(2)
  })

  it('says which port is in use', async () => {
    const { port } = occupied.address() as AddressInfo
    const control = write(
      'control.yaml',
      `rollout: { port: ${port} }\ngateway: { nodes: [{ port: 0, ${silent} }] }\npolar_node: { data_dir: ${folder}/a }\n`,
    )
    const model = write(
      'model.yaml',
      `rollout: { port: 0 }\ngateway: { nodes: [{ port: ${port}, ${silent} }] }\npolar_node: { data_dir: ${folder}/b }\n`,
    )
    const results = [await runPolar('serve', '--config', control), await runPolar('serve', '--config', model)]
    expect(results.map(({ code, stderr }) => [code, stderr])).toEqual([
      [1, `polar: port ${port} of 127.0.0.1 is in use; set rollout.port to another\n`],
      [1, `polar: port ${port} of 127.0.0.1 is in use; set the port of gateway-0 under gateway.nodes to another\n`],
    ])
  })

  it.each([
    ['is a file', 'file', 'is a file, not a folder'],
    ['lies under one', 'file/below', 'lies under a file, not under a folder'],
  ])('names the key of a data folder that %s', async (_, name, words) => {
    write('file', '')
    const config = write('data.yaml', `polar_node: { data_dir: ${folder}/${name} }\n`)
    const { code, stderr } = await runPolar('serve', '--config', config)
    expect([code, stderr]).toEqual([1, `polar: polar_node.data_dir: ${folder}/${name} ${words}\n`])
  })

  it('notes at its start that an upload root is missing, and has no other lines for a person among its log', async () => {
    const own = `{ data_dir: ${folder}/noted, upload_roots: [${folder}, ${folder}/nowhere] }`
    const node = await startServing(
      write('noted.yaml', `rollout: { port: 0 }\ngateway: { nodes: [{ port: 0, ${silent} }] }\npolar_node: ${own}\n`),
    )
    expect(node.notes).toEqual([`polar_node.upload_roots: there is no ${folder}/nowhere; no task can upload from it`])
    expect(await node.stop()).toBe(0)
    expect(node.stderr()).not.toContain('listening')
  })

  it('stops in order when it is told to while it starts', async () => {
    const data = join(folder, 'early')
    const file = write(
      'early.yaml',
      `rollout: { port: 0 }\ngateway: { nodes: [{ port: 0, ${silent} }] }\npolar_node: { data_dir: ${data} }\n`,
    )
    const child = spawn(process.execPath, [join(root, 'bin/polar.js'), 'serve', '--json', '--config', file], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    // The claim on the data folder is the first thing a start leaves; its threads and ports come later.
    await vi.waitUntil(() => existsSync(data) && readdirSync(data).some((name) => name.startsWith('lock')), {
      timeout: 60_000,
      interval: 2,
    })
    const gone = once(child, 'close')
    child.kill('SIGTERM')
    const [code] = (await gone) as [number | null]
    expect([code, said.includes('"stopped"')]).toEqual([0, true])
    expect(readdirSync(data).filter((name) => name.startsWith('lock'))).toEqual([])
  })

  it('says which Node it needs', async () => {
    const pretend = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.19.0' } })"
    const { code, stderr } = await runToEnd(process.execPath, ['--import', `data:text/javascript,${pretend}`, 'bin/polar.js', '--help'])
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^polar needs Node 22\.19 or newer, this is 20\.19\.0;/)])
  })

  it('prints its version', async () => {
    const { code, stdout } = await runPolar('--version')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/)])
  })

  it('follows a task by looking again where there are no events to follow', async () => {
    const task = write('followed.json', '{"task_id":"t"}')
    let looks = 0
    const url = await answering({
      '/rollout/task/submit': () => ({ task_id: 't' }),
      '/rollout/status': () => ({ tasks: { t: ++looks === 2 ? 'completed' : 'running' } }),
      '/tasks/t/sessions': () => ({ sessions: [] }),
    })
    const { code, stdout } = await runPolar('submit', task, '--rollout-url', url, '--poll-interval', '0.1')
    expect([code, stdout]).toEqual([0, expect.stringContaining('task t completed')])
  })

  it('hears a task from its first moment, and says which attempt it was and what became of the callback', async () => {
    const task = write('short.json', '{"task_id":"t"}')
    const session = 'sk-polar-00000000-0000-4000-8000-000000000000'
    const changed = { session_id: session, task_id: 't' }
    let feed: ServerResponse | null = null
    let reads = 0
    const tell = (type: string, data: unknown) => feed?.write(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`)
    const url = await answering({
      '/events': (response) => {
        feed = response.writeHead(200, { 'content-type': 'text/event-stream' })
        feed.flushHeaders()
      },
      '/rollout/task/submit': () => {
        tell('session.state_changed', { ...changed, status: 'RUNNING', attempt: 1 })
        tell('session.state_changed', { ...changed, status: 'RUNNING', attempt: 2 })
        tell('task.completed', { task_id: 't', status: 'completed' })
        return { task_id: 't', status: 'running' }
      },
      '/rollout/status': () => ({ tasks: { t: 'completed' } }),
      '/tasks/t/sessions': () => ({
        delivery: ++reads === 1 ? 'pending' : 'delivered',
        sessions: [{ session_id: session, attempt: 2, status: 'COMPLETED', outcome: 'completed', reward: 1, error: null }],
      }),
    })
    const { code, stdout } = await runPolar('submit', task, '--rollout-url', url, '--poll-interval', '0.4')
    expect(code).toBe(0)
    expect(stdout.trimEnd().split('\n')).toEqual([
      'task t submitted',
      '  sk-polar-00000000…  RUNNING',
      '  sk-polar-00000000…  RUNNING  (attempt 2)',
      `${session}  (attempt 2)  completed  reward 1`,
      'task t completed: 1 session, 1 with reward 1; callback delivered',
      'completed sessions: 1/1',
      `sessions with reward 1.0: ${session}`,
    ])
  })

  it.each([
    ['pending', 'callback not yet delivered'],
    ['dead', 'callback never delivered (polar callbacks says why)'],
  ])('shows in its lists that a callback is %s', async (delivery, words) => {
    const row = { task_id: 't', status: 'completed', num_samples: 4, completed_sessions: 4, mean_reward: 0.25, delivery }
    const bare = { node_id: 'g', healthy: true, replicas: [] }
    const url = await answering({
      '/rollout/status': () => ({ tasks: { older: 'failed', t: 'completed' }, pipeline: {}, nodes: { nodes: [bare] } }),
      '/tasks?limit=100': () => ({ tasks: [row] }),
      '/tasks/t/sessions': () => ({ task_id: 't', status: 'completed', delivery, sessions: [] }),
    })
    const { stdout } = await runPolar('status', '--rollout-url', url)
    expect(stdout).toContain('  no replicas: sessions wait until one is added\n')
    expect(stdout).toContain(`  t  completed  4/4 sessions ended  mean reward 0.25  ${words}\n  … and 1 earlier\n`)
    expect((await runPolar('status', 't', '--rollout-url', url)).stdout).toBe(`task t completed: 0 sessions, ${words}\n`)
    expect(JSON.parse((await runPolar('status', '--json', '--rollout-url', url)).stdout)).toMatchObject({ latest_tasks: [row] })
  })

  it('says that a task has ended already, and which of its keys mean nothing', async () => {
    const agent = { harness: 'shell', custom_shell: { command: 'true', comand: 'x' }, env: { ANY: 'x' } }
    const prepare = [{ type: 'exec', command: 'true', retires: 3 }]
    const body = { task_id: 't', instruction: 'x', num_sample: 4, agent, runtime: { backend: 'local', prepare } }
    const url = await answering({ '/rollout/task/submit': () => ({ task_id: 't', status: 'failed' }) })
    const { code, stdout, stderr } = await runPolar('submit', write('typo.json', JSON.stringify(body)), '--no-wait', '--rollout-url', url)
    expect([code, stdout]).toEqual([0, expect.stringContaining('t was submitted before and is failed')])
    expect(stderr).toMatch(/mean nothing here: num_sample, agent\.custom_shell\.comand, runtime\.prepare\[0\]\.retires\n/)
  })

  it.each([
    ['status', 401, { detail: 'the token is wrong' }, 2, /401: the token is wrong; give it with --token/],
    ['status', 404, { detail: 'no task x' }, 1, /404: no task x\n/],
    ['status', 404, { error: { message: 'not served here' } }, 3, /http:\/\/127\S+ is not the control API/],
    ['submit', 401, { detail: 'the token is wrong' }, 2, /401: the token is wrong; give it with --token/],
    ['submit', 422, { detail: [{ loc: ['body', 'a'], msg: 'is required' }] }, 2, /422: body\.a: is required/],
    ['submit', 404, 'Not Found', 3, /http:\/\/127\S+ is not the control API/],
    ['submit', 503, { detail: 'the node is stopping' }, 3, /503: the node is stopping/],
    ['cancel', 404, { detail: 'no task x' }, 1, /404: no task x\n/],
  ] as const)('%s tells %i %j from the other ways to fail', async (command, status, body, expected, words) => {
    const task = write('refused.json', '{"task_id":"t"}')
    const url = await answering({}, status, body)
    const { code, stderr } = await runPolar(command, command === 'submit' ? task : 'x', '--rollout-url', url)
    expect(stderr).toMatch(words)
    expect(code).toBe(expected)
  })

  it('tells a pause that timed out from a node that is not there', async () => {
    const url = await answering({}, 504, { detail: 'g: calls were still in flight' })
    expect(await runPolar('pause', '--rollout-url', url)).toMatchObject({ code: 1, stderr: 'polar: 504: g: calls were still in flight\n' })
  })

  it('outlives whoever reads its output', async () => {
    const task = write('unread.json', '{"task_id":"t"}')
    let looks = 0
    const url = await answering({
      '/rollout/task/submit': () => ({ task_id: 't' }),
      '/rollout/status': () => ({ tasks: { t: ++looks === 2 ? 'completed' : 'running' } }),
      '/tasks/t/sessions': () => ({ sessions: [] }),
    })
    const script = '{ "$0" bin/polar.js "$@"; echo "ended $?" >&2; } | true'
    const args = ['submit', task, '--rollout-url', url, '--poll-interval', '0.1']
    const { stderr } = await runToEnd('sh', ['-c', script, process.execPath, ...args])
    expect(stderr).toBe('ended 0\n')
  })
})

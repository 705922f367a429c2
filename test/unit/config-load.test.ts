// polar.yaml: what is taken, what it defaults to, and how a mistake is shown to the operator.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type ConfigProblem, loadConfig, parseConfig } from '../../src/config.ts'

function accepted(text: string, overrides = {}) {
  const result = parseConfig(text, '/etc/polar/polar.yaml', '/etc/polar', overrides)
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  return result.config
}

function refused(text: string): readonly ConfigProblem[] {
  const result = parseConfig(text, 'polar.yaml', '/')
  if (result.ok) throw new Error('accepted')
  return result.problems
}

describe('defaults', () => {
  it.each(['', '# nothing but a comment\n', 'rollout:\ngateway:\npolar_node:\n'])('make one loopback node of %j', (text) => {
    const config = accepted(text, { engineUrl: 'http://127.0.0.1:30000/v1/' })
    expect(config.control).toEqual({ host: '127.0.0.1', port: 8080, publicUrl: null, tokenFile: '/etc/polar/.polar/control-token' })
    expect(config.nodes).toEqual([
      {
        id: 'gateway-0',
        host: '127.0.0.1',
        port: 8081,
        publicUrl: null,
        modelServed: '',
        maxReadySessions: 6,
        maxInitWorkers: 4,
        maxRunWorkers: 2,
        maxPostrunWorkers: 4,
        maxGraderSandboxes: 4,
        defaultRuntime: null,
        replicas: [
          {
            id: 'gateway-0-replica-0',
            url: 'http://127.0.0.1:30000',
            engine: 'sglang',
            maxInFlight: 64,
            maxWaiting: 256,
            dataParallelRanks: null,
            isRouter: false,
          },
        ],
      },
    ])
    expect(config).toMatchObject({ topology: 'threaded', maxAttempts: 2, gradeTimeouts: true, dataDir: '/etc/polar/.polar', notes: [] })
    expect(config.abortedGenerations).toBe('resume')
    expect(config.stream).toEqual({ mode: 'synthetic', commitAfterMs: 5_000, beatMs: 10_000, lingerMs: 20_000 })
    expect(config.cpuThreads).toBeGreaterThan(0)
  })

  it('need no file at all', async () => {
    expect(await loadConfig(null)).toMatchObject({
      ok: true,
      config: { file: null, nodes: [{ replicas: [] }], embedded: { gateways: ['gateway-0'] } },
    })
  })
})

describe('settings', () => {
  it("are read from Polar's keys and ours", () => {
    const config = accepted(`
rollout: { host: 0.0.0.0, port: 9000, save_dir: /data, callback_grace_seconds: 120 }
gateway:
  heartbeat_interval_seconds: 30
  nodes:
    - { id: a, port: 8100, max_init_workers: 8, max_run_workers: 3, model_served: qwen, inference: { engine: vllm, base_url: "http://127.0.0.1:8000" } }
    - id: b
      default_runtime: { backend: local }
      model_pool: []
polar_node:
  data_dir: data
  upload_roots: [/srv/tasks, fixtures]
  budgets: { evaluate_seconds: 7.5 }
  evaluators: { mine: ./mine.ts }
  replicas:
    b:
      - { id: r0, url: "http://127.0.0.1:8001/v1", engine: vllm, max_in_flight: 5 }
      - { id: r1, url: "http://127.0.0.1:8002", data_parallel_ranks: 8 }
      - { id: r2, url: "http://Router:80/", router: true }
`)
    expect(config.control).toMatchObject({ host: '0.0.0.0', port: 9000, tokenFile: '/etc/polar/data/control-token' })
    expect(config.nodes).toMatchObject([
      {
        id: 'a',
        port: 8100,
        modelServed: 'qwen',
        maxReadySessions: 11,
        replicas: [{ id: 'a-replica-0', url: 'http://127.0.0.1:8000', engine: 'vllm' }],
      },
      {
        id: 'b',
        port: 8082,
        defaultRuntime: { backend: 'local' },
        replicas: [
          { id: 'r0', url: 'http://127.0.0.1:8001', engine: 'vllm', maxInFlight: 5, maxWaiting: 256 },
          { id: 'r1', url: 'http://127.0.0.1:8002', engine: 'sglang', maxInFlight: 64, dataParallelRanks: 8, isRouter: false },
          { id: 'r2', url: 'http://router', engine: 'sglang', dataParallelRanks: null, isRouter: true },
        ],
      },
    ])
    expect(config).toMatchObject({
      dataDir: '/etc/polar/data',
      uploadRoots: ['/srv/tasks', '/etc/polar/fixtures'],
      modules: { evaluators: { mine: '/etc/polar/mine.ts' } },
      budgets: { evaluateMs: 7_500, initMs: 600_000 },
    })
    expect(config.notes).toEqual([
      'rollout.save_dir has no effect here: results are kept by the node and read from GET /rollout/task/<id>',
      'rollout.callback_grace_seconds has no effect here: rollout server and gateways are one process',
      'gateway.heartbeat_interval_seconds has no effect here: rollout server and gateways are one process',
    ])
  })

  it('keep an engine named in the file over the one given on the command line', () => {
    const config = accepted('gateway: { nodes: [{ inference: { base_url: "http://127.0.0.1:1" } }, {}] }', {
      engineUrl: 'http://127.0.0.1:2',
    })
    expect(config.nodes.map((node) => node.replicas[0]?.url)).toEqual(['http://127.0.0.1:1', 'http://127.0.0.1:2'])
  })
})

describe('models', () => {
  it('are the operator’s words on them, in the order of the file', () => {
    const text =
      'polar_node:\n  models:\n    "*policy*": { thinking: true, max_output_tokens: { default: 5, limit: 9 } }\n    "qwen?": { calls: xml }\n'
    expect(accepted(text).models).toEqual([
      { pattern: '*policy*', profile: { thinking: true, max_output_tokens: { default: 5, limit: 9 } } },
      { pattern: 'qwen?', profile: { calls: 'xml' } },
    ])
    expect(accepted('').models).toEqual([])
  })

  it.each([
    ['think: true', 'think', 'unknown key'],
    ['system_messages: last', 'system_messages', '"anywhere"|"first"'],
    ['max_model_len: 0', 'max_model_len', '>=1'],
    ['stop: "x"', 'stop', 'expected array'],
    ['max_output_tokens: { default: 9, limit: 5 }', 'max_output_tokens.default', 'must not be more than the limit'],
  ])('that say %s are a mistake', (line, key, message) => {
    const [problem, ...others] = refused(`polar_node:\n  models:\n    m: { ${line} }\n`)
    expect([problem?.key, others]).toEqual([`polar_node.models.m.${key}`, []])
    expect(problem?.message).toContain(message)
  })

  it.each(['default', 'limit'])('may say one of the two budgets alone: %s', (name) => {
    const [rule] = accepted(`polar_node:\n  models:\n    m: { max_output_tokens: { ${name}: 5 } }\n`).models
    expect(rule?.profile).toEqual({ max_output_tokens: { [name]: 5 } })
  })

  it('named by a pattern with white space are a mistake', () => {
    expect(refused('polar_node:\n  models:\n    "my model": {}\n')[0]?.message).toBe('must not hold white space')
  })
})

describe('a mistake is shown with its place and key', () => {
  it.each([
    ['rolout:\n  port: 1\n', { line: 1, column: 1, key: 'rolout', message: 'unknown key; did you mean rollout?' }],
    ['rollout:\n  prot: 1\n', { line: 2, column: 3, key: 'rollout.prot', message: 'unknown key; did you mean port?' }],
    ['polar_node:\n  data-dir: x\n', { line: 2, column: 3, key: 'polar_node.data-dir', message: 'unknown key; did you mean data_dir?' }],
    ['data_dir: x\n', { line: 1, column: 1, key: 'data_dir', message: 'unknown key; did you mean polar_node.data_dir?' }],
    [
      'polar_node:\n  threads: 4\n',
      {
        line: 2,
        column: 3,
        key: 'polar_node.threads',
        message: 'unknown key; did you mean polar_node.cpu.threads or polar_node.embedded.threads?',
      },
    ],
    // The nearest of several that are near.
    [
      'polar_node:\n  budgets:\n    inid_seconds: 1\n',
      { line: 3, column: 5, key: 'polar_node.budgets.inid_seconds', message: 'unknown key; did you mean init_seconds?' },
    ],
    ['rollout:\n  portxyz: 1\n', { line: 2, column: 3, key: 'rollout.portxyz', message: 'unknown key' }],
    ['xyzzy: 1\n', { line: 1, column: 1, key: 'xyzzy', message: 'unknown key' }],
    [
      'gateway:\n  nodes:\n    - id: a\n    - id: b\n      max_run_worker: 3\n',
      { line: 5, column: 7, key: 'gateway.nodes[1].max_run_worker', message: 'unknown key; did you mean max_run_workers?' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - id: r\n        url: http://h\n        max_inflight: 2\n',
      { line: 6, column: 9, key: 'polar_node.replicas.gateway-0[0].max_inflight', message: 'unknown key; did you mean max_in_flight?' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - id: r\n',
      { line: 4, column: 9, key: 'polar_node.replicas.gateway-0[0].url', message: 'is required' },
    ],
    ['rollout:\n  port: high\n', { line: 2, column: 3, key: 'rollout.port', message: 'expected number, received string' }],
    ['rollout: { port: 70000 }\n', { line: 1, column: 12, key: 'rollout.port', message: '65535' }],
    ['rollout: 3\n', { line: 1, column: 1, key: 'rollout', message: 'expected object, received number' }],
    ['- a\n', { line: 1, column: 1, key: '', message: 'expected object, received array' }],
    ['gateway:\n  nodes: []\n', { line: 2, column: 3, key: 'gateway.nodes', message: '>=1' }],
    [
      'gateway:\n  nodes:\n    - inference:\n        engine: tgi\n',
      { line: 4, column: 9, key: 'gateway.nodes[0].inference.engine', message: '"sglang"|"sglang-native"|"vllm"|"llamacpp"' },
    ],
    [
      'gateway:\n  nodes:\n    - inference: { base_url: "localhost" }\n',
      { line: 3, column: 20, key: 'gateway.nodes[0].inference.base_url', message: 'must be a URL like http://127.0.0.1:8000' },
    ],
    ['gateway:\n  nodes:\n    - id: ../x\n', { line: 3, column: 7, key: 'gateway.nodes[0].id', message: 'must match' }],
    ['polar_node: { max_attempts: 0 }\n', { line: 1, column: 15, key: 'polar_node.max_attempts', message: '>=1' }],
    [
      'polar_node: { weight_updates: { aborted: retry } }\n',
      { line: 1, column: 33, key: 'polar_node.weight_updates.aborted', message: 'resume' },
    ],
    [
      'polar_node: { grade_timeouts: yes please }\n',
      { line: 1, column: 15, key: 'polar_node.grade_timeouts', message: 'expected boolean' },
    ],
    // What only the whole file shows.
    [
      'gateway:\n  nodes:\n    - id: a\n    - id: a\n',
      { line: 4, column: 7, key: 'gateway.nodes[1].id', message: 'is already the id of gateway.nodes[0]' },
    ],
    [
      'gateway:\n  nodes:\n    - port: 8090\n    - port: 8090\n',
      { line: 4, column: 7, key: 'gateway.nodes[1].port', message: 'port 8090 is already the model port of gateway-0' },
    ],
    [
      'gateway:\n  nodes:\n    - port: 8080\n',
      { line: 3, column: 7, key: 'gateway.nodes[0].port', message: 'port 8080 is already the control port' },
    ],
    [
      'gateway:\n  nodes:\n    - port: 8082\n    - {}\n',
      { line: 4, column: 7, key: 'gateway.nodes[1].port', message: 'port 8082 is already' },
    ],
    [
      'polar_node:\n  replicas:\n    g1: [{ id: r, url: "http://h" }]\n',
      { line: 3, column: 5, key: 'polar_node.replicas.g1', message: 'no node has this id; there is gateway-0' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - { id: r, url: "http://h" }\n      - { id: r, url: "http://h" }\n',
      { line: 5, column: 11, key: 'polar_node.replicas.gateway-0[1].id', message: 'is already the id of another replica' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - { id: r, url: "http://h" }\n      - { id: s, url: "http://H:80/v1/" }\n',
      { line: 5, column: 18, key: 'polar_node.replicas.gateway-0[1].url', message: 'is already the url of r' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - { id: r, url: "http://me:secret@h" }\n',
      { line: 4, column: 18, key: 'polar_node.replicas.gateway-0[0].url', message: 'must not hold a user name or password' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - { id: r, url: "http://h", router: true, data_parallel_ranks: 2 }\n',
      { line: 4, column: 49, key: 'polar_node.replicas.gateway-0[0].data_parallel_ranks', message: 'is not for a router' },
    ],
    [
      'polar_node:\n  replicas:\n    gateway-0:\n      - { id: r, url: "http://h", data_parallel_ranks: 0 }\n',
      { line: 4, column: 35, key: 'polar_node.replicas.gateway-0[0].data_parallel_ranks', message: '>=1' },
    ],
    [
      'polar_node:\n  callback:\n    backoff_seconds: 90\n',
      { line: 2, column: 3, key: 'polar_node.callback.backoff_cap_seconds', message: 'must not be less than backoff_seconds' },
    ],
    // What is not YAML.
    ['rollout:\n  port: 1\n  port: 2\n', { line: 3, column: 3, key: '', message: 'unique' }],
    ['rollout: {\n', { line: 2, column: 1, key: '', message: '' }],
    ['a: *b\n', { line: 1, column: 1, key: '', message: 'alias' }],
    ['rollout:\n\tport: 1\n', { line: 2, column: 1, key: '', message: '' }],
  ])('%j', (text, { message, ...place }) => {
    const [problem, ...others] = refused(text)
    expect(others).toEqual([])
    expect(problem).toMatchObject({ file: 'polar.yaml', ...place })
    expect(problem?.message.toLowerCase()).toContain(message.toLowerCase())
  })

  it('together with every other one of the file', () => {
    expect(
      refused('rolout: 1\npolar_node:\n  max_attempts: 0\n  cpu: { thread: 2 }\n')
        .map((problem) => problem.key)
        .sort(),
    ).toEqual(['polar_node.cpu.thread', 'polar_node.max_attempts', 'rolout'])
  })

  it('also when the file cannot be read', async () => {
    expect(await loadConfig('/')).toMatchObject({
      ok: false,
      problems: [{ file: '/', message: expect.stringContaining('cannot be read') }],
    })
    expect(await loadConfig('/no/such/polar.yaml')).toMatchObject({
      ok: false,
      problems: [{ file: '/no/such/polar.yaml', line: 0, message: 'there is no such file' }],
    })
  })
})

it('a file is read with paths relative to its folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'polar-config-'))
  try {
    const file = join(folder, 'polar.yaml')
    await writeFile(file, 'polar_node: { data_dir: state }\n')
    expect(await loadConfig(file)).toMatchObject({ ok: true, config: { file, dataDir: join(folder, 'state') } })
  } finally {
    await rm(folder, { recursive: true })
  }
})

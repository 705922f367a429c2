// Topologies as they are written for Polar: each loads as it is, becomes gateways of one node, and says at start what has no effect.
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig, parseConfig } from '../../src/config.ts'
import { nodeSetup } from '../../src/node-setup.ts'

const AGENTS = { packages: '/p', cache: '/c' }

async function load(name: string) {
  const loaded = await loadConfig(resolve(import.meta.dirname, 'topologies', `${name}.yaml`))
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}

/** What each gateway thread is started with. */
async function threads(name: string) {
  const { gateways } = nodeSetup(await load(name), AGENTS, null)
  return gateways.map(({ gateway, host, port, model, replicas, limits }) => ({
    gateway,
    at: `${host}:${port}`,
    model,
    servers: replicas.map(({ engine, url }) => `${engine} ${url}`),
    workers: [limits.maxInitWorkers, limits.maxRunWorkers, limits.maxPostrunWorkers],
    ready: limits.maxReadySessions,
  }))
}

/** The keys that are said to have no effect. */
async function idle(name: string): Promise<readonly string[]> {
  return (await load(name)).notes.map((note) => note.replace(/ has no effect here: .+/, ''))
}

describe('a topology of Polar', () => {
  it('with one node is one gateway thread, with Polar’s workers by default', async () => {
    expect(await threads('one-node')).toEqual([
      {
        gateway: 'gateway-local',
        at: '0.0.0.0:8081',
        model: 'Qwen/Qwen3-4B',
        servers: ['sglang http://127.0.0.1:8000'],
        workers: [4, 2, 4],
        ready: 6,
      },
    ])
    expect(await idle('one-node')).toEqual(['rollout.save_dir'])
  })

  it('with two nodes is two gateway threads, each with its port, server and limits', async () => {
    expect(await threads('two-nodes')).toEqual([
      {
        gateway: 'node-a',
        at: '0.0.0.0:8100',
        model: 'Qwen/Qwen3.5-4B',
        servers: ['sglang http://127.0.0.1:30000'],
        workers: [8, 16, 8],
        ready: 24,
      },
      {
        gateway: 'node-b',
        at: '0.0.0.0:8101',
        model: 'Qwen/Qwen3.5-4B',
        servers: ['vllm http://127.0.0.1:30001'],
        workers: [4, 2, 4],
        ready: 6,
      },
    ])
  })

  it('tells the addresses by which others reach it', async () => {
    const { control, nodes } = await load('two-nodes')
    expect([control.publicUrl, ...nodes.map(({ publicUrl }) => publicUrl)]).toEqual([
      'http://rollout.cluster:8080',
      'http://node-a.cluster:8100',
      'http://node-b.cluster:8101',
    ])
    const { control: unnamed, nodes: silent } = await load('one-node')
    expect([unnamed.publicUrl, ...silent.map(({ publicUrl }) => publicUrl)]).toEqual([null, null])
  })

  it('keeps the runtime that a node gives to tasks without one', async () => {
    expect((await load('two-nodes')).nodes.map(({ defaultRuntime }) => defaultRuntime)).toMatchObject([
      null,
      { backend: 'docker', image: 'python:3.12', network: 'host', prepare: [] },
    ])
  })

  it('says of every idle key why it is idle, once, in either revision', async () => {
    expect(await idle('two-nodes')).toEqual([
      'rollout.dispatch_poll_interval_seconds',
      'rollout.callback_grace_seconds',
      'gateway.heartbeat_interval_seconds',
      'gateway.rollout_server_url',
      'gateway.completion_persistence',
    ])
    expect(await idle('later-revision')).toEqual([
      'rollout.http_max_connections',
      'rollout.http_max_keepalive_connections',
      'rollout.cleanup_max_concurrency',
      'rollout.cleanup_max_attempts',
      'rollout.cleanup_retry_backoff_seconds',
      'gateway.completion_persistence',
      'gateway.nodes[].model_pool',
    ])
    const { notes } = await load('later-revision')
    expect(notes.every((note) => / has no effect here: \S/.test(note))).toBe(true)
  })

  it('that names a scheduler and no address gets Polar’s default address', async () => {
    expect((await threads('scheduler')).map(({ servers }) => servers)).toEqual([
      ['vllm http://127.0.0.1:8000'],
      ['vllm http://127.0.0.1:8001'],
    ])
    expect((await load('scheduler')).notes).toEqual([
      expect.stringContaining('gateway.nodes[].inference.scheduler has no effect here'),
      'gateway.nodes[0].inference.base_url is not written: http://127.0.0.1:8000, as in Polar',
    ])
  })
})

describe('a key that Polar does not know is a mistake with file, line and key, also below a key that has no effect', () => {
  it.each([
    ['rollout:\n  save_dirr: /x\n', 2, 'rollout.save_dirr', 'unknown key; did you mean save_dir?'],
    [
      'gateway:\n  completion_persistence:\n    max_fields_bytes: 1\n',
      3,
      'gateway.completion_persistence.max_fields_bytes',
      'unknown key; did you mean max_field_bytes?',
    ],
    [
      'gateway:\n  nodes:\n    - model_pool:\n        - { alias: pool/a, model: m, base_url: "http://h", max_concurency: 2 }\n',
      4,
      'gateway.nodes[0].model_pool[0].max_concurency',
      'unknown key; did you mean max_concurrency?',
    ],
    [
      'gateway:\n  nodes:\n    - model_pool:\n        - { alias: a, model: m, base_url: "http://h" }\n',
      4,
      'gateway.nodes[0].model_pool[0].alias',
      'must begin with pool/',
    ],
    ['gateway:\n  nodes:\n    - inference:\n        scheduler: fifo\n', 4, 'gateway.nodes[0].inference.scheduler', 'thunderagent'],
    ['rollout:\n  cleanup_max_attempts: 11\n', 2, 'rollout.cleanup_max_attempts', '<=10'],
    ['gateway:\n  rollout_server_url: rollout:8080\n', 2, 'gateway.rollout_server_url', 'must be a URL like http://127.0.0.1:8080'],
  ])('%j', (text, line, key, message) => {
    const parsed = parseConfig(text, 'topology.yaml', '/')
    expect(parsed).toMatchObject({ ok: false, problems: [{ file: 'topology.yaml', line, key, message: expect.stringContaining(message) }] })
  })
})

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { root, type Serving, startServing } from '../lib/polar-process.ts'

const SKILL = join(root, 'test/harness/fixtures/skills/tidy-drawers')

let folder = ''
let engine: ScriptedEngine
let node: Serving
let probes = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-bad-'))
  engine = await openScriptedEngine({ port: 0, generator: {}, model: 'm' })
  const config = join(folder, 'polar.yaml')
  const gateway = { nodes: [{ id: 'g', port: 0, model_served: 'm', inference: { engine: 'vllm', base_url: engine.url } }] }
  const own = { data_dir: join(folder, 'data'), upload_roots: [join(root, 'examples'), dirname(SKILL)], limits: { body_bytes: 100_000 } }
  writeFileSync(config, JSON.stringify({ rollout: { port: 0 }, gateway, polar_node: own }))
  node = await startServing(config)
  // The probe of a new replica is a generation of ours; everything after it would be a caller's.
  await vi.waitUntil(async () => (await control('GET', '/nodes')).text.includes('"tier":"train"'), { timeout: 20_000, interval: 50 })
  probes = engine.requests().length
}, 90_000)

afterAll(async () => {
  await node?.stop()
  await engine?.close()
  rmSync(folder, { recursive: true, force: true })
})

type Reply = { readonly status: number; readonly text: string }

async function call(base: string, method: string, path: string, headers: Readonly<Record<string, string>>, body?: string): Promise<Reply> {
  const response = await fetch(base + path, { method, headers, ...(body === undefined ? {} : { body }) })
  return { status: response.status, text: await response.text() }
}

const control = (method: string, path: string, body?: string, token = node.token): Promise<Reply> =>
  call(node.url, method, path, { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body)

const model = (method: string, path: string, body?: string, key = 'sk-nobody'): Promise<Reply> =>
  call(`http://127.0.0.1:${node.modelPort}`, method, path, { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body)

const task = (changes: Readonly<Record<string, unknown>>): string =>
  JSON.stringify({
    task_id: 't',
    instruction: 'x',
    agent: { harness: 'shell', custom_shell: { command: 'true' } },
    runtime: { backend: 'local' },
    ...changes,
  })

describe('bad input', () => {
  it.each([
    ['malformed JSON', '{"task_id":', 422, /JSON/i],
    ['a body that is no object', '[1,2]', 422, /object/i],
    ['a huge body', task({ instruction: 'x'.repeat(200_000) }), 413, /large|exceed/i],
    ['a mistyped field', task({ num_samples: 'four' }), 422, /num_samples/],
    ['no samples', task({ num_samples: 0 }), 422, /num_samples/],
    ['an id that could be a path', task({ task_id: '../../etc/passwd' }), 422, /task_id/],
    ['an unknown harness', task({ agent: { harness: 'hal' } }), 422, /hal.*pi|pi.*hal/],
    ['two kinds of agent', task({ agent: { harness: 'pi', import_path: 'x:Y' } }), 422, /exactly one/],
    ['skills from anywhere', task({ agent: { harness: 'pi', skills_path: '/etc' } }), 422, /skills_path.*upload_roots/],
    ['a skill where skills are asked for', task({ agent: { harness: 'pi', skills_path: SKILL } }), 422, /skills_path.*is a skill itself/],
    [
      'a file where skills are asked for',
      task({ agent: { harness: 'pi', skills_path: `${SKILL}/SKILL.md` } }),
      422,
      /skills_path.*is no folder"/,
    ],
    ['a backend this node has not', task({ runtime: { backend: 'docker' } }), 422, /docker.*local/],
    ['no runtime at all', task({ runtime: null }), 422, /runtime/],
    ['an unknown builder', task({ builder: { strategy: 'tower' } }), 422, /tower.*prefix_merging/],
    ['an unknown builder key', task({ builder: { strategy: 'prefix_merging', config: { splcie: true } } }), 422, /splcie/],
    ['an unknown evaluator', task({ evaluator: { strategy: 'oracle' } }), 422, /oracle.*test_on_output/],
    ['an evaluator without its command', task({ evaluator: { strategy: 'test_on_output', config: {} } }), 422, /test_command/],
    ['a callback to a metadata address', task({ callback_url: 'http://169.254.169.254/x' }), 422, /callback_url/],
    ['a callback that is no URL', task({ callback_url: 'nowhere' }), 422, /callback_url/],
    ['a negative agent timeout', task({ metadata: { agent_timeout: -1 } }), 422, /agent_timeout/],
    ['early stop beyond the samples', task({ early_stop_min_usable_sessions: 2 }), 422, /num_samples/],
  ])('%s is refused by the control plane in the caller’s terms', async (_, body, status, words) => {
    const reply = await control('POST', '/rollout/task/submit', body)
    expect(reply.text).toMatch(words)
    expect(reply.status).toBe(status)
  })

  it.each([
    ['an unknown route', 'GET', '/nowhere', 404],
    ['an unknown task', 'GET', '/rollout/task/none', 404],
    ['an unknown session', 'GET', '/sessions/none', 404],
    ['a wrong method', 'PUT', '/rollout/task/submit', 404],
  ])('%s is said to be unknown', async (_, method, path, status) => {
    const reply = await control(method, path, method === 'PUT' ? '{}' : undefined)
    expect([reply.status, typeof JSON.parse(reply.text).detail]).toEqual([status, 'string'])
  })

  it.each(['', 'wrong', 'sk-polar-00000000-0000-4000-8000-000000000000'])('the control plane refuses the token %j', async (token) => {
    for (const path of ['/rollout/status', '/tasks', '/nodes', '/events', '/sessions/x']) {
      expect((await control('GET', path, undefined, token)).status).toBe(401)
    }
  })

  it.each([
    ['an unknown key', 'POST', '/v1/chat/completions', '{"model":"m","messages":[]}', 401],
    ['an unknown key under a session’s prefix', 'POST', '/s/sk-polar-x/v1/chat/completions', '{}', 401],
    ['the control token as a key', 'POST', '/v1/chat/completions', '{}', 401],
    ['an unknown route', 'POST', '/v1/embeddings', '{}', 404],
    ['a control route', 'GET', '/rollout/status', undefined, 404],
    ['a model list without a key', 'GET', '/v1/models', undefined, 401],
  ])('the model plane refuses %s', async (name, method, path, body, status) => {
    const reply = await model(method, path, body, name.includes('control token') ? node.token : 'sk-nobody')
    expect([reply.status, typeof JSON.parse(reply.text).error.message]).toEqual([status, 'string'])
  })

  it('leaves nothing recorded, nothing generated, and the node alive', async () => {
    const { tasks, pipeline } = JSON.parse((await control('GET', '/rollout/status')).text)
    expect([tasks, pipeline]).toEqual([{}, { pending_sessions: 0 }])
    expect(engine.requests().length).toBe(probes)
    expect((await call(node.url, 'GET', '/health', {})).status).toBe(200)
    expect(node.child.exitCode).toBe(null)
    expect(await node.stop()).toBe(0)
  })
})

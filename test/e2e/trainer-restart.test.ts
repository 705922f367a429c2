// A trainer dies and comes back on another port: what it missed is read or sent again, by the very commands of the documentation.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { type Finished, root, runToEnd, type Serving, startServing } from '../lib/polar-process.ts'

type Delivered = { readonly key: string; readonly body: { readonly task_id: string } }

const AGENT = `
const reply = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }),
})
if (!reply.ok) throw new Error(await reply.text())
`

const closers: (() => unknown)[] = []
let folder = ''
let node: Serving
let polarUrl = ''
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-restart-'))
  writeFileSync(join(folder, 'agent.mjs'), AGENT)
  const engine = await openScriptedEngine({ port: 0, generator: {}, model: 'm' })
  closers.push(() => engine.close())
  const gateway = { id: 'g', port: 0, model_served: 'm', inference: { engine: 'vllm', base_url: engine.url } }
  const callback = { max_attempts: 2, backoff_seconds: 0.01, backoff_cap_seconds: 0.01, deadline_seconds: 600 }
  const config = { rollout: { port: 0 }, gateway: { nodes: [gateway] }, polar_node: { data_dir: join(folder, 'data'), callback } }
  writeFileSync(join(folder, 'polar.yaml'), JSON.stringify(config))
  node = await startServing(join(folder, 'polar.yaml'))
  closers.push(() => node.stop('SIGKILL'))
  polarUrl = node.url.replace('http://', `http://polar:${node.token}@`)
})
afterAll(async () => {
  for (const close of closers.reverse()) await close()
  rmSync(folder, { recursive: true, force: true })
})

/** Takes callbacks; `null` as its answer leaves them waiting. */
async function openTrainer(status: number | null) {
  const delivered: Delivered[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    delivered.push({ key: String(request.headers['idempotency-key']), body: JSON.parse(body) })
    if (status !== null) response.writeHead(status).end()
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  async function close() {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  }
  closers.push(close)
  return { delivered, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`, close }
}

async function control(path: string, body?: unknown): Promise<Record<string, unknown>> {
  const headers = { authorization: `Bearer ${node.token}`, 'content-type': 'application/json' }
  const response = await fetch(node.url + path, body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) })
  expect([path, response.status]).toEqual([path, 200])
  return (await response.json()) as Record<string, unknown> // the node's own API, whose shapes are tested elsewhere
}

async function submit(id: string, callbackUrl: string | null): Promise<void> {
  await control('/rollout/task/submit', {
    task_id: id,
    instruction: 'say hello',
    agent: { harness: 'shell', custom_shell: { command: `exec node ${folder}/agent.mjs` } },
    runtime: { backend: 'local' },
    ...(callbackUrl === null ? {} : { callback_url: callbackUrl }),
  })
}

const deliveryOf = async (id: string) => (await control(`/tasks/${id}/sessions`)).delivery
const comesTo = (id: string, delivery: string) =>
  vi.waitUntil(async () => (await deliveryOf(id)) === delivery, { timeout: 60_000, interval: 50 })

/** What a callback has of a task, as the node tells it when it is asked. */
async function readTask(id: string): Promise<unknown> {
  const { total_sessions: _, completed_sessions: __, ...result } = await control(`/rollout/task/${id}`)
  return result
}

const section =
  readFileSync(join(root, 'docs/trainers.md'), 'utf8')
    .split('\n## ')
    .find((text) => text.startsWith('When a trainer restarts')) ?? ''
const commands = Array.from(section.matchAll(/^```sh\n(.*?)\n```/gms), ([, command = '']) => command)
const ran = new Set<string>()

/** The documented command that has these words, with the variables that the text leaves to the reader. */
async function run(words: RegExp, variables: Readonly<Record<string, string>>): Promise<Finished> {
  const [command, ...others] = commands.filter((each) => words.test(each))
  if (command === undefined || others.length > 0) throw new Error(`${others.length + 1} documented commands are like ${words}`)
  ran.add(command)
  const assigned = Object.entries({ POLAR: polarUrl, ...variables }).map(([name, value]) => `${name}='${value}'`)
  const own = command.replace('npx --no-install polar', `'${process.execPath}' '${root}/bin/polar.js'`)
  return runToEnd('bash', ['-euc', `${assigned.join('; ')}; ${own}`], { cwd: folder })
}

it('gets exactly what it missed, under the keys and with the bodies it would have had, wherever it listens now', {
  timeout: 180_000,
}, async () => {
  const first = await openTrainer(200)
  const awaited = control('/feed?after=latest&wait_seconds=60')
  await submit('delivered', first.url)
  const { entries } = await awaited
  expect(entries).toContainEqual(expect.objectContaining({ type: 'session', task_id: 'delivered', attempt: 1 }))
  await comesTo('delivered', 'delivered')
  const before = await run(/results .*--save/, {})
  expect([before.code, before.stderr]).toEqual([0, ''])
  const lines = before.stdout.trimEnd().split('\n')
  expect(lines).toEqual([
    expect.stringMatching(/^\S+ {2}session sk-polar-\S+ of delivered {2}completed/),
    expect.stringMatching(/^\S+ {2}task delivered {2}completed {2}callback delivered$/),
  ])
  const cursor = lines[1]?.split(' ')[0] ?? ''

  await first.close()
  const hung = await openTrainer(null)
  await submit('dead-1', first.url)
  await submit('dead-2', first.url)
  await submit('hangs', hung.url)
  await submit('asked-for', null)
  for (const id of ['dead-1', 'dead-2']) await comesTo(id, 'dead')
  await vi.waitUntil(() => hung.delivered.length === 1, { timeout: 60_000, interval: 50 })
  await vi.waitUntil(async () => (await control('/rollout/task/asked-for')).status === 'completed', { timeout: 60_000, interval: 50 })
  const missed = ['dead-1', 'dead-2', 'hangs', 'asked-for']

  // It can be read.
  const since = await run(/results .*--after/, { CURSOR: cursor })
  const rows = since.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(
    rows
      .filter(({ type }) => type === 'task')
      .map(({ task_id }) => task_id)
      .sort(),
  ).toEqual([...missed].sort())
  expect(
    rows
      .filter(({ type }) => type === 'session')
      .map(({ task_id }) => task_id)
      .sort(),
  ).toEqual([...missed].sort())
  expect((await run(/results .*--save/, {})).code).toBe(0)
  for (const { type, task_id, session_id, href } of rows) {
    if (type !== 'session') continue
    const saved = JSON.parse(readFileSync(join(folder, 'results', `task_${task_id}`, `ses_${session_id}.json`), 'utf8'))
    expect(saved).toEqual(await control(href))
  }
  expect(readdirSync(join(folder, 'results'))).toHaveLength(5)

  // And it is sent to where the trainer is now.
  const dead = await run(/callbacks .*--state dead/, {})
  expect(
    dead.stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split('  ').slice(0, 2).join(' '))
      .sort(),
  ).toEqual(['task dead-1 dead', 'task dead-2 dead'])
  const second = await openTrainer(200)
  const driven = await run(/redrive --rollout-url/, { TRAINER: second.url })
  expect([driven.code, driven.stderr]).toEqual([0, ''])
  for (const id of ['dead-1', 'dead-2', 'hangs']) await comesTo(id, 'delivered')
  expect(second.delivered.map(({ body }) => body.task_id).sort()).toEqual(['dead-1', 'dead-2', 'hangs'])
  const one = await run(/redrive "\$TASK"/, { TRAINER: second.url, TASK: 'asked-for' })
  expect([one.code, one.stdout]).toEqual([0, 'driven again: asked-for\n'])
  await comesTo('asked-for', 'delivered')

  expect(second.delivered).toHaveLength(4)
  for (const { body } of second.delivered) expect(body).toEqual(await readTask(body.task_id))
  expect(second.delivered.find(({ body }) => body.task_id === 'hangs')).toEqual(hung.delivered[0])
  expect(new Set(second.delivered.map(({ key }) => key)).size).toBe(4)
  expect(first.delivered.map(({ body }) => body.task_id)).toEqual(['delivered'])
  expect((await run(/callbacks .*--state dead/, {})).stdout).toBe('no callbacks\n')

  expect([...ran].sort(), 'every documented command was run').toEqual([...commands].sort())
})

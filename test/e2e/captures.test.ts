// Agents that were started elsewhere: nothing but a base URL and a key, official SDKs, and a node that captures what they do.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { root } from '../lib/polar-process.ts'
import { openStand, type ReplicaNode, requestsOf, type Stand } from '../lib/replica-node.ts'

type Access = {
  readonly api_key: string
  readonly base_urls: { readonly openai: string; readonly anthropic: string; readonly google: string }
}
type Trace = {
  readonly prompt_ids: readonly number[]
  readonly response_ids: readonly number[]
  readonly loss_mask: readonly number[]
  readonly reward: number | null
}
type Result = {
  readonly session_id: string
  readonly task_id: string
  readonly status: string
  readonly error?: string
  readonly trajectory: { readonly traces: readonly Trace[]; readonly metadata: { readonly evaluation: unknown; readonly outcome: string } }
}

const CHAT_AGENT = join(root, 'test/threads/fixtures/chat-agent.ts')
const WAIT = { timeout: 60_000, interval: 20 }

let stand: Stand
let engine: ScriptedEngine
let node: ReplicaNode
beforeAll(async () => {
  stand = openStand()
  engine = await stand.openEngine()
  node = await stand.serve([{ id: 'r', url: engine.url, engine: 'vllm' }])
  await node.until(([replica]) => replica?.state === 'up')
})
afterAll(() => stand.close())

async function post(path: string, body: unknown): Promise<Record<string, unknown>> {
  const reply = await node.control(path, 'POST', body)
  expect([path, reply.status]).toEqual([path, 200])
  return (await reply.json()) as Record<string, unknown> // the node's own API
}

async function capture(session: string, more: Readonly<Record<string, unknown>> = {}): Promise<Access> {
  const { metadata } = await post('/gateways/g/sessions', { session_id: session, builder: { strategy: 'prefix_merging' }, ...more })
  return (metadata as { readonly polar_node: Access }).polar_node
}

const agent = ({ api_key, base_urls }: Access): OpenAI => new OpenAI({ apiKey: api_key, baseURL: base_urls.openai, maxRetries: 0 })

/** So many turns of one conversation; its first words name the session. */
async function converse(client: OpenAI, session: string, turns: number): Promise<void> {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: `I am ${session}.` }]
  for (let turn = 0; turn < turns; turn += 1) {
    const { choices } = await client.chat.completions.create({ model: 'any', messages })
    const content = choices[0]?.message.content ?? ''
    messages.push({ role: 'assistant', content }, { role: 'user', content: `${session} goes on.` })
  }
}

async function resultOf(session: string): Promise<Result> {
  return vi.waitUntil(async () => {
    const { result } = (await (await node.control(`/sessions/${session}`)).json()) as { readonly result?: Result }
    return result
  }, WAIT) as Promise<Result>
}

const trained = ({ response_ids, loss_mask }: Trace): readonly number[] => response_ids.filter((_, at) => loss_mask[at] === 1)
const sampled = (session: string): readonly number[] => requestsOf(engine, session).flatMap(({ sampledIds }) => sampledIds)
const statusOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 200,
    (error: unknown) => (error instanceof OpenAI.APIError ? error.status : error),
  )

describe('an agent that was started elsewhere', () => {
  it('is captured by URL and key alone, built, rewarded and reported like any session', async () => {
    const bodies: Result[] = []
    const trainer = createServer(async (request, response) => {
      let body = ''
      for await (const part of request) body += part
      bodies.push(JSON.parse(body))
      response.writeHead(200).end()
    })
    await new Promise<void>((listening) => trainer.listen(0, '127.0.0.1', listening))
    stand.keep(() => new Promise((closed) => trainer.close(closed)))
    const { port } = trainer.address() as AddressInfo
    const access = await capture('mine', {
      task_id: 'chores',
      callback_url: `http://127.0.0.1:${port}/session`,
      metadata: { group_id: 'g1' },
    })
    const client = agent(access)
    await converse(client, 'mine', 3)

    const row = async (): Promise<unknown> => {
      const { sessions } = (await (await node.control('/gateways/g/sessions?task_id=chores')).json()) as {
        readonly sessions: readonly unknown[]
      }
      expect(sessions).toHaveLength(1)
      return sessions[0]
    }
    const said = { completion_count: 3, model_requested: 'any', model_used: 'policy', api_type: 'openai_chat', node_id: 'g' }
    expect(await row()).toMatchObject({ session_id: 'mine', task_id: 'chores', status: 'RUNNING', ...said })
    expect(await post('/gateways/g/sessions/mine/finish', { reward: 0.25 })).toMatchObject({ finished: true })

    const result = await resultOf('mine')
    expect(result).toMatchObject({ session_id: 'mine', task_id: 'chores', status: 'COMPLETED', metadata: { group_id: 'g1' } })
    const { traces, metadata } = result.trajectory
    expect(traces.map(({ reward }) => reward)).toEqual([0.25])
    expect(metadata).toMatchObject({ outcome: 'completed', evaluation: { strategy: 'client', outcome_reward: 0.25 } })
    expect(traces.flatMap(trained)).toEqual(sampled('mine'))
    expect(sampled('mine').length).toBeGreaterThan(0)

    expect(await row()).toMatchObject({ session_id: 'mine', status: 'COMPLETED', ...said })
    await vi.waitUntil(() => bodies.length > 0, WAIT)
    expect(bodies).toEqual([result])
    // The key is dead: neither the session nor its list of models is there any more.
    expect(
      await statusOf(client.chat.completions.create({ model: 'any', messages: [{ role: 'user', content: 'mine, still?' }] })),
    ).toBeOneOf([401, 403])
    expect(await statusOf(Promise.resolve(client.models.list()))).toBeOneOf([401, 403])
    expect(
      await capture('mine', { task_id: 'chores', callback_url: `http://127.0.0.1:${port}/session`, metadata: { group_id: 'g1' } }),
    ).toMatchObject({ api_key: null, base_urls: null })
  }, 120_000)

  it('never sees another’s calls, however they mix', async () => {
    const names = ['alice', 'bob']
    const accesses = await Promise.all(names.map((name) => capture(name)))
    await Promise.all(accesses.map((access, at) => converse(agent(access), names[at] ?? '', 4)))
    const [alice, bob] = accesses
    if (alice === undefined || bob === undefined) throw new Error('two were opened')
    expect(alice.api_key).not.toBe(bob.api_key)
    const crossed = agent({ api_key: alice.api_key, base_urls: bob.base_urls })
    expect(await statusOf(crossed.chat.completions.create({ model: 'any', messages: [{ role: 'user', content: 'bob?' }] }))).toBe(403)
    for (const name of names) {
      await post(`/sessions/${name}/finish`, {})
      const { trajectory } = await resultOf(name)
      expect(trajectory.traces).toHaveLength(1)
      expect(trajectory.traces.flatMap(trained)).toEqual(sampled(name))
      // Not graded is not zero.
      expect(trajectory.traces[0]?.reward).toBeNull()
    }
  }, 120_000)

  it('may use the client of any vendor', async () => {
    const { api_key, base_urls } = await capture('all')
    const says = (vendor: string): string => `hello from all, by ${vendor}`
    await agent({ api_key, base_urls }).responses.create({ model: 'any', input: says('openai') })
    await new Anthropic({ apiKey: api_key, baseURL: base_urls.anthropic }).messages.create({
      model: 'any',
      max_tokens: 64,
      messages: [{ role: 'user', content: says('anthropic') }],
    })
    await new GoogleGenAI({ apiKey: api_key, httpOptions: { baseUrl: base_urls.google } }).models.generateContent({
      model: 'any',
      contents: says('google'),
    })
    await post('/sessions/all/finish', {})
    const { trajectory } = await resultOf('all')
    expect(trajectory.traces.flatMap(trained)).toEqual(sampled('all'))
    expect(requestsOf(engine, 'all')).toHaveLength(3)
  }, 120_000)

  it('is told nothing without the control token, and leaves a masked result when it is deleted', async () => {
    const url = `${node.serving.url}/gateways/g/sessions`
    for (const [path, method] of [
      ['', 'POST'],
      ['', 'GET'],
      ['/gone', 'GET'],
      ['/gone', 'DELETE'],
      ['/gone/finish', 'POST'],
    ] as const) {
      expect((await fetch(url + path, { method })).status).toBe(401)
    }
    const access = await capture('gone')
    await converse(agent(access), 'gone', 1)
    const deleted = await (await node.control('/gateways/g/sessions/gone', 'DELETE')).json()
    expect(deleted).toEqual({ session_id: 'gone', deleted: true, messages_deleted: 0 })
    const result = await resultOf('gone')
    expect([result.status, result.trajectory.metadata.outcome]).toEqual(['ERROR', 'cancelled'])
    // What was captured is built all the same, and trains nothing.
    expect(result.trajectory.traces.flatMap(trained)).toEqual([])
    expect(result.trajectory.traces).toHaveLength(1)
    expect(await (await node.control('/gateways/g/sessions/gone', 'DELETE')).json()).toMatchObject({ deleted: false })
  }, 120_000)
})

it('a session that Polar’s server dispatches to a gateway runs like any other', async () => {
  const posted = await post('/gateways/g/sessions', {
    session_id: 'sk-polar-1',
    task_id: 't',
    instruction: 'x',
    remaining_timeout_seconds: 60,
    runtime: { backend: 'local' },
    agent: { harness: 'shell', custom_shell: { command: `exec '${process.execPath}' '${CHAT_AGENT}' 2 5` } },
    evaluator: { strategy: 'session_completed' },
    metadata: {},
  })
  expect(posted).toMatchObject({ session_id: 'sk-polar-1', task_id: 't', status: 'REGISTERED' })
  const result = await resultOf('sk-polar-1')
  expect([result.status, result.error]).toEqual(['COMPLETED', undefined])
  expect(result.trajectory.traces.flatMap(trained)).toEqual(sampled('sk-polar-1'))
}, 120_000)

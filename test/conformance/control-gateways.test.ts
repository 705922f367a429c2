// A gateway's own routes, pauses of inference, and what Polar's processes tell each other: shapes, statuses, and what each changes.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { GatewaySnapshot } from '../../src/actors/gateway/protocol.ts'
import { gatewayId, replicaId } from '../../src/contract/ids.ts'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { openInferencePauses } from '../../src/threads/inference-pauses.ts'
import { GATEWAY, openControl, TOKEN, task } from './control-world.ts'

type View = GatewaySnapshot['replicas'][number]

let control: Awaited<ReturnType<typeof openControl>>
/** The inference servers that the gateway says it has; null: it does not answer. */
let servers: readonly Partial<View>[] | null

beforeEach(async () => {
  servers = []
  control = await openControl({
    async readGateway(gateway) {
      const answer = await control.options.askGateway<GatewaySnapshot>(gateway, (ask) => ({ type: 'read-gateway', ask }))
      if (!answer.ok || servers === null) return null
      return { ...answer.value, replicas: servers.map((server) => ({ ...REPLICA, ...server })) }
    },
  })
  control.startGateway(8)
})
afterEach(() => control.close())

const REPLICA: View = {
  id: replicaId('gpu'),
  url: 'http://127.0.0.1:1',
  engine: 'vllm',
  role: 'engine',
  rank: null,
  state: 'up',
  tier: 'train',
  inFlight: 0,
  maxInFlight: 4,
  waiting: 0,
  weightVersion: null,
  detail: null,
  logprobMode: 'raw',
  maxModelLen: 4_096,
}

async function withEngine(shape: 'vllm' | 'sglang' | 'llamacpp', use: (engine: ScriptedEngine) => Promise<void>): Promise<void> {
  const engine = await openScriptedEngine({ generator: { words: [1, 2] }, model: 'policy', shape })
  try {
    await use(engine)
  } finally {
    await engine.close()
  }
}

const ROUTES = [
  ['GET', '/gateways/g0'],
  ['GET', '/gateways/g0/health'],
  ['GET', '/gateways/g0/v1/models'],
  ['POST', '/gateways/g0/v1/tokenize'],
  ['POST', '/gateways/g0/v1/messages'],
  ['GET', '/gateways/g0/events'],
  ['GET', '/gateways/g0/admin/inference/status'],
  ['POST', '/gateways/g0/admin/inference/pause'],
  ['POST', '/gateways/g0/admin/inference/resume'],
  ['GET', '/admin/inference/status'],
  ['POST', '/admin/inference/pause'],
  ['POST', '/admin/inference/resume'],
  ['POST', '/nodes/register'],
  ['POST', '/nodes/g0/heartbeat'],
  ['DELETE', '/nodes/g0'],
  ['POST', '/callbacks/session_result'],
] as const

it.each(ROUTES)('%s %s wants the token, and changes nothing without', async (method, url) => {
  const reply = await control.app.inject({ method, url, headers: { authorization: 'Bearer wrong' } })
  expect([reply.statusCode, reply.headers['x-polar-error']]).toEqual([401, 'token-missing'])
  expect([control.calls.isPaused(), (await control.call('GET', '/nodes/g0')).body.draining]).toEqual([false, false])
})

it.each(ROUTES.filter(([, url]) => url.startsWith('/gateways/')))('%s %s knows the gateways of this node', async (method, url) => {
  const reply = await control.call(method, url.replace('g0', 'elsewhere'), method === 'POST' ? {} : undefined)
  expect(reply).toMatchObject({
    status: 404,
    headers: { 'x-polar-error': 'node-unknown' },
    body: { detail: expect.stringContaining('g0') },
  })
})

describe('a gateway', () => {
  it.each(['/gateways/g0', '/gateways/g0/'])('is there under %s', async (url) => {
    expect(await control.call('GET', url)).toMatchObject({ status: 200, body: { status: 'ok', service: 'polar-gateway' } })
    const head = await control.app.inject({ method: 'HEAD', url, headers: { authorization: `Bearer ${TOKEN}` } })
    expect([head.statusCode, head.body]).toEqual([200, ''])
  })

  it('says how it is, with the health of its server as that tells it', () =>
    withEngine('sglang', async (engine) => {
      servers = [{ state: 'down' }, { url: engine.url, engine: 'sglang' }]
      await control.call('POST', '/rollout/task/submit', task('t', { num_samples: 2 }))
      await vi.waitFor(() => expect(control.held.size).toBe(2), { interval: 1, timeout: 20_000 })
      const { status, body } = await control.call('GET', '/gateways/g0/health')
      const session = (id: string | undefined) => ({
        session_id: id,
        task_id: 't',
        status: 'RUNNING',
        age_seconds: 0.001,
        idle_seconds: 0.001,
      })
      expect([status, body]).toEqual([
        200,
        {
          status: 'ok',
          node_id: 'g0',
          gateway_url: 'http://127.0.0.1:0/gateways/g0',
          inference: expect.any(Object),
          metrics: { init_queue_depth: 1, init_inflight: 2, ready_depth: 3, run_inflight: 4, postrun_queue_depth: 5, postrun_inflight: 6 },
          active_status_counts: { RUNNING: 2 },
          active_sessions: [...control.held.keys()].map(session),
          available_init: 2,
          // More run than may: a place is not less than free.
          available_run: 0,
          available_postrun: 0,
        },
      ])
      expect(body.inference).not.toHaveProperty('error')
    }))

  it.each([
    ['none', [], 'the gateway has no inference server'],
    ['one that is gone', [{ state: 'down' as const }], expect.stringContaining('ECONNREFUSED')],
  ])('is well with %s', async (_, having, error) => {
    servers = having
    expect(await control.call('GET', '/gateways/g0/health')).toMatchObject({
      status: 200,
      body: { status: 'ok', inference: { status: 'error', error } },
    })
    expect(await control.call('GET', '/gateways/g0/v1/models')).toMatchObject({
      status: 502,
      headers: { 'x-polar-error': 'upstream-failed' },
      body: { error },
    })
    expect(await control.call('POST', '/gateways/g0/v1/tokenize', { prompt: 'x' })).toMatchObject({ status: 502, body: { error } })
  })

  it.each(['health', 'v1/models'])('that does not answer is 503 for its %s', async (path) => {
    servers = null
    expect(await control.call('GET', `/gateways/g0/${path}`)).toMatchObject({ status: 503, headers: { 'x-polar-error': 'unavailable' } })
    expect(await control.call('GET', '/gateways/g0')).toMatchObject({ status: 200 })
  })

  it('gives the list of models as its server does', () =>
    withEngine('vllm', async (engine) => {
      servers = [{ url: engine.url }]
      const own = await (await fetch(`${engine.url}/v1/models`)).text()
      const reply = await control.app.inject({
        method: 'GET',
        url: '/gateways/g0/v1/models',
        headers: { authorization: `Bearer ${TOKEN}` },
      })
      // The scripted engine stamps the moment.
      const timeless = (list: string) => list.replace(/"created":\d+/g, '"created":0')
      expect([reply.statusCode, timeless(reply.body)]).toEqual([200, timeless(own)])
    }))

  it.each(['vllm', 'sglang', 'llamacpp'] as const)('counts the tokens of a prompt by the tokenizer of %s', (shape) =>
    withEngine(shape, async (engine) => {
      servers = [{ url: engine.url, engine: shape, maxModelLen: 1_000 }]
      const ask = async (body: object): Promise<unknown> => (await control.call('POST', '/gateways/g0/v1/tokenize', body)).body
      const short = (await ask({ model: 'whatever', messages: [{ role: 'user', content: 'one' }] })) as { readonly count: number }
      const long = await ask({ messages: [{ role: 'user', content: 'one two three four' }] })
      expect(short).toEqual({ count: expect.any(Number), max_model_len: 1_000 })
      expect(long).toEqual({ count: short.count + 3, max_model_len: 1_000 })
      expect(await ask({ prompt: 'one two' })).toEqual({ count: 2, max_model_len: 1_000 })
      expect(engine.requests()).toEqual([])
    }),
  )

  it.each([{}, [], { messages: 'hello' }, { messages: [{ role: 'user', content: 'x' }], tools: 7 }])('refuses to count %j', (body) =>
    withEngine('vllm', async (engine) => {
      servers = [{ url: engine.url }]
      expect(await control.call('POST', '/gateways/g0/v1/tokenize', body)).toMatchObject({
        status: 400,
        body: { detail: expect.any(String) },
      })
    }),
  )

  it.each(['', '/', '/v1/messages', '/v1/chat/completions', '/v1beta/models/m:generateContent', '/anything/else'])(
    'serves no model call on POST %s, and says where they go',
    async (path) => {
      const reply = await control.call('POST', `/gateways/g0${path}`, { messages: [] })
      expect(reply).toMatchObject({ status: 404, headers: { 'x-polar-error': 'route-unknown' } })
      expect(reply.body.detail).toContain('http://g0.example:8081/s/<session id>')
    },
  )
})

describe('a pause of one gateway', () => {
  const at = (what: string): string => `/gateways/g0/admin/inference/${what}`
  const status = async (): Promise<unknown> => (await control.call('GET', at('status'))).body

  it('holds its calls until it is resumed, and each route answers with the status', async () => {
    const shape = (paused: boolean) => ({
      paused,
      inflight: 0,
      base_url: null,
      engine: null,
      metadata: { polar_node: { node_id: 'g0', waiting: 0, replicas: [] } },
    })
    expect(await status()).toEqual(shape(false))
    expect(await control.call('POST', at('pause'))).toMatchObject({ status: 200, body: shape(true) })
    expect([control.calls.isPaused(), await status()]).toEqual([true, shape(true)])
    expect(await control.call('POST', at('resume'))).toMatchObject({ status: 200, body: shape(false) })
    expect([control.calls.isPaused(), await status()]).toEqual([false, shape(false)])
  })

  it('waits for calls in flight, and is answered when the last has ended', async () => {
    control.calls.enter()
    const pausing = control.call('POST', at('pause?timeout_seconds=60'))
    await vi.waitFor(async () => expect(await status()).toMatchObject({ paused: true, inflight: 1 }), { interval: 1, timeout: 20_000 })
    control.calls.leave()
    expect(await pausing).toMatchObject({ status: 200, body: { paused: true, inflight: 0 } })
  })

  it('that is not drained in time is 504, and nothing is held any more', async () => {
    control.calls.enter()
    const reply = await control.call('POST', at('pause?timeout_seconds=0.01'))
    expect(reply).toMatchObject({
      status: 504,
      headers: { 'x-polar-error': 'inference-busy' },
      body: { detail: expect.stringContaining('0.01 s') },
    })
    expect([control.calls.isPaused(), await status()]).toEqual([false, expect.objectContaining({ paused: false, inflight: 1 })])
  })

  it('that a resume overtakes is 409', async () => {
    control.calls.enter()
    const pausing = control.call('POST', at('pause'))
    await vi.waitFor(() => expect(control.calls.isPaused()).toBe(true), { interval: 1, timeout: 20_000 })
    expect(await control.call('POST', at('resume'))).toMatchObject({ status: 200, body: { paused: false, inflight: 1 } })
    expect(await pausing).toMatchObject({ status: 409, headers: { 'x-polar-error': 'inference-resumed' } })
    expect(control.calls.isPaused()).toBe(false)
  })

  it.each(['-1', 'soon', 'NaN', '86401', 'Infinity', '', '%20'])('for %j seconds is no pause', async (seconds) => {
    for (const path of [at('pause'), '/admin/inference/pause']) {
      expect(await control.call('POST', `${path}?timeout_seconds=${seconds}`)).toMatchObject({
        status: 422,
        body: { detail: [{ loc: ['query', 'timeout_seconds'] }] },
      })
    }
    expect(control.calls.isPaused()).toBe(false)
  })
})

describe('a pause of the whole node', () => {
  const gone = gatewayId('gone')

  it('names every gateway', async () => {
    expect((await control.call('GET', '/admin/inference/status')).body).toMatchObject({
      paused: false,
      inflight: 0,
      gateways: [{ node_id: 'g0' }],
    })
    expect(await control.call('POST', '/admin/inference/pause')).toMatchObject({
      status: 200,
      body: {
        paused: true,
        inflight: 0,
        gateways: [{ node_id: 'g0', healthy: true, paused: true, inflight: 0, base_url: null, engine: null }],
      },
    })
    expect(control.calls.isPaused()).toBe(true)
    expect(await control.call('POST', '/admin/inference/resume')).toMatchObject({ status: 200, body: { paused: false } })
    expect(control.calls.isPaused()).toBe(false)
  })

  it('is 504 when one gateway cannot be paused, and none is', async () => {
    await control.close()
    control = await openControl({
      inference: openInferencePauses([GATEWAY, gone], (...question) => control.options.askGateway(...question)),
    })
    const reply = await control.call('POST', '/admin/inference/pause')
    expect(reply).toMatchObject({
      status: 504,
      headers: { 'x-polar-error': 'inference-busy' },
      body: { detail: expect.stringContaining('gone') },
    })
    expect(control.calls.isPaused()).toBe(false)
    expect((await control.call('GET', '/admin/inference/status')).body).toMatchObject({
      paused: false,
      gateways: [
        { node_id: 'g0', healthy: true, paused: false },
        { node_id: 'gone', healthy: false, paused: false },
      ],
    })
    expect(await control.call('POST', '/gateways/gone/admin/inference/pause')).toMatchObject({ status: 503 })
    expect(await control.call('GET', '/gateways/gone/admin/inference/status')).toMatchObject({ status: 503 })
    expect(await control.call('POST', '/gateways/gone/admin/inference/resume')).toMatchObject({ status: 503 })
  })

  it('that is not drained in time is 504, and nothing is held any more', async () => {
    control.calls.enter()
    expect((await control.call('POST', '/admin/inference/pause?timeout_seconds=0')).status).toBe(504)
    expect(control.calls.isPaused()).toBe(false)
  })
})

describe('the registry', () => {
  const registration = (id: string, more: Record<string, unknown> = {}) => ({
    node_id: id,
    gateway_url: 'http://10.0.0.1:8100',
    max_init_workers: 4,
    max_run_workers: 2,
    max_postrun_workers: 4,
    ...more,
  })

  it('drains a gateway, and takes that back when it registers', async () => {
    await control.call('POST', '/rollout/task/submit', task('t'))
    await vi.waitFor(() => expect(control.held.size).toBe(1), { interval: 1, timeout: 20_000 })
    expect(await control.call('DELETE', '/nodes/g0')).toMatchObject({ status: 200, body: { node_id: 'g0', draining: true } })
    expect((await control.call('GET', '/nodes/g0')).body).toMatchObject({ draining: true })
    expect(await control.call('POST', '/nodes/g0/heartbeat', { metrics: { run_inflight: 99 } })).toMatchObject({
      status: 200,
      body: { draining: true, metrics: { run_inflight: 4 } },
    })
    expect(await control.call('POST', '/nodes/register', registration('g0', { unknown: 1 }))).toMatchObject({
      status: 200,
      body: { node_id: 'g0', draining: false, healthy: true, gateway_url: 'http://127.0.0.1:0/gateways/g0', max_run_workers: 2 },
    })
  })

  it('does not list a gateway that has drained, whose routes stay and whose registration brings it back', async () => {
    await control.call('DELETE', '/nodes/g0')
    expect((await control.call('GET', '/nodes')).body).toEqual([])
    expect((await control.call('POST', '/nodes/g0/heartbeat', { metrics: {} })).status).toBe(404)
    expect((await control.call('GET', '/gateways/g0/health')).status).toBe(200)
    expect((await control.call('POST', '/nodes/register', registration('g0'))).status).toBe(200)
    expect((await control.call('GET', '/nodes')).body).toMatchObject([{ node_id: 'g0', draining: false }])
  })

  it('takes no gateway that is not of this node', async () => {
    expect(await control.call('POST', '/nodes/register', registration('elsewhere'))).toMatchObject({
      status: 409,
      headers: { 'x-polar-error': 'node-foreign' },
      body: { detail: expect.stringContaining('runs its own') },
    })
    expect((await control.call('GET', '/nodes')).body).toHaveLength(1)
    expect((await control.call('DELETE', '/nodes/elsewhere')).status).toBe(404)
    expect((await control.call('POST', '/nodes/elsewhere/heartbeat', { metrics: {} })).status).toBe(404)
  })

  it('says of a gateway that has not started yet that it is not there yet', async () => {
    await control.close()
    control = await openControl()
    for (const [method, url] of [
      ['POST', '/nodes/register'],
      ['DELETE', '/nodes/g0'],
    ] as const) {
      const reply = await control.call(method, url, method === 'POST' ? registration('g0') : undefined)
      expect(reply).toMatchObject({ status: 503, headers: { 'x-polar-error': 'unavailable' } })
    }
  })

  it.each([
    ['/nodes/register', {}, 'node_id'],
    ['/nodes/register', registration('g0', { max_run_workers: 0 }), 'max_run_workers'],
    ['/nodes/register', registration('g0', { max_init_workers: 'four' }), 'max_init_workers'],
    ['/nodes/g0/heartbeat', { metrics: 7 }, 'metrics'],
    ['/callbacks/session_result', { session_id: 's', task_id: 't', status: 'RUNNING' }, 'status'],
    ['/callbacks/session_result', { task_id: 't', status: 'ERROR' }, 'session_id'],
  ])('answers 422 on POST %s with %j', async (url, body, field) => {
    const reply = await control.call('POST', url, body)
    expect([reply.status, reply.body.detail.map(({ loc }: { readonly loc: readonly string[] }) => loc.at(-1))]).toEqual([
      422,
      expect.arrayContaining([field]),
    ])
  })

  it('accepts the report of any session, and changes nothing by it', async () => {
    await control.call('POST', '/rollout/task/submit', task('t'))
    await vi.waitFor(() => expect(control.held.size).toBe(1), { interval: 1, timeout: 20_000 })
    const [session] = [...control.held.keys()]
    for (const session_id of [session, 'sk-polar-nobody']) {
      const report = {
        session_id,
        task_id: 't',
        status: 'COMPLETED',
        trajectory: { status: 'COMPLETED', traces: [], more: 1 },
        timing: { unknown_ms: 1 },
      }
      expect(await control.call('POST', '/callbacks/session_result', report)).toMatchObject({ status: 200, body: { status: 'accepted' } })
    }
    expect((await control.call('GET', `/sessions/${session}`)).body).toMatchObject({ status: 'REGISTERED' })
    expect((await control.call('GET', '/rollout/task/t')).body).toMatchObject({ status: 'running', completed_sessions: 0 })
  })
})

it('gateways are listed as they are configured, whichever started first', async () => {
  await control.close()
  const second = gatewayId('a-second')
  control = await openControl({
    inference: openInferencePauses([GATEWAY, second], (...question) => control.options.askGateway(...question)),
  })
  control.kernel.tell(control.server, {
    type: 'gateway-started',
    gateway: second,
    address: control.gateway,
    url: 'http://h',
    limits: control.limits,
  })
  control.startGateway(1)
  const ids = async () => (await control.call('GET', '/nodes')).body.map(({ node_id }: { readonly node_id: string }) => node_id)
  await vi.waitFor(async () => expect(await ids()).toHaveLength(2), { interval: 1, timeout: 20_000 })
  expect(await ids()).toEqual(['g0', 'a-second'])
})

describe('gateway_url', () => {
  it.each([
    ['http://trainer.example/polar/', 'http://trainer.example/polar/gateways/g0'],
    [null, 'http://[::1]:8080/gateways/g0'],
  ])('is under %s', async (publicUrl, expected) => {
    await control.close()
    control = await openControl({ publicUrl, host: '::1', port: 8_080 })
    control.startGateway(1)
    expect((await control.call('GET', '/nodes/g0')).body.gateway_url).toBe(expected)
  })
})

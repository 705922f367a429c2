// The control API as a Polar client meets it: shapes, statuses, errors, and who may ask at all.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { SessionId } from '../../src/contract/ids.ts'
import { GATEWAY, openControl, TOKEN, task } from './control-world.ts'

let control: Awaited<ReturnType<typeof openControl>>
beforeEach(async () => {
  control = await openControl()
})
afterEach(async () => {
  await control.close()
  expect(control.reports).toEqual([])
})

/** Sessions of a task, as soon as the gateway holds `count` of them. */
async function dispatched(count: number): Promise<readonly SessionId[]> {
  await vi.waitFor(() => expect(control.held.size).toBe(count), { interval: 1, timeout: 20_000 })
  return [...control.held.keys()]
}

async function ended(id: string): Promise<Record<string, unknown>> {
  return vi.waitFor(
    async () => {
      const { body } = await control.call('GET', `/rollout/task/${id}`)
      expect(['completed', 'failed', 'cancelled']).toContain(body.status)
      return body
    },
    { interval: 1, timeout: 20_000 },
  )
}

const ROUTES = [
  ['POST', '/rollout/task/submit'],
  ['GET', '/rollout/task/t'],
  ['DELETE', '/rollout/task/t'],
  ['GET', '/rollout/status'],
  ['GET', '/nodes'],
  ['GET', '/nodes/g0'],
  ['GET', '/tasks'],
  ['GET', '/tasks/t/sessions'],
  ['GET', '/sessions/s'],
  ['GET', '/sessions/s/result'],
  ['GET', '/sessions/s/result/traces'],
  ['GET', '/sessions/s/completions'],
  ['GET', '/gateways/g0/sessions/s/completions'],
  ['GET', '/replicas'],
  ['POST', '/replicas'],
  ['DELETE', '/replicas/r'],
  ['GET', '/gateways/g0/replicas'],
  ['POST', '/gateways/g0/replicas'],
  ['DELETE', '/gateways/g0/replicas/r'],
  ['GET', '/events'],
  ['GET', '/no/such/route'],
] as const

describe('the control token', () => {
  const wrong: readonly (readonly [string, Record<string, string>])[] = [
    ['nothing', {}],
    ['a wrong bearer token', { authorization: 'Bearer wrong' }],
    ['a prefix of the token', { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
    ['the token as a Basic user', { authorization: `Basic ${Buffer.from(`${TOKEN}:`).toString('base64')}` }],
    ['a wrong header', { 'x-polar-control-token': 'wrong' }],
    ['the token as an API key', { 'x-api-key': TOKEN }],
  ]
  it.each(ROUTES.flatMap(([method, url]) => wrong.map(([what, headers]) => [method, url, what, headers] as const)))(
    '%s %s refuses %s',
    async (method, url, _, headers) => {
      const reply = await control.app.inject({ method, url, headers: { ...headers, 'content-type': 'application/json' }, payload: '{}' })
      expect(reply.statusCode).toBe(401)
      expect(reply.headers['www-authenticate']).toContain('Bearer')
      expect(reply.headers['x-polar-error']).toBe('token-missing')
      expect(reply.json()).toEqual({ detail: expect.any(String) })
      expect(reply.body).not.toContain(TOKEN)
    },
  )

  it.each([
    ['a bearer token', { authorization: `Bearer ${TOKEN}` }],
    ['a bearer token in lower case', { authorization: `bearer ${TOKEN}` }],
    ["Polar's own header", { 'x-polar-control-token': TOKEN }],
    ['a Basic password', { authorization: `Basic ${Buffer.from(`polar:${TOKEN}`).toString('base64')}` }],
  ])('opens with %s', async (_, headers) => {
    expect((await control.app.inject({ method: 'GET', url: '/tasks', headers })).json()).toEqual({ tasks: [] })
  })

  it('is not asked for /health, which says next to nothing', async () => {
    expect((await control.app.inject({ method: 'GET', url: '/health' })).json()).toEqual({ status: 'ok', nodes: 0 })
  })

  it('is checked before a body is read', async () => {
    const reply = await control.app.inject({ method: 'POST', url: '/rollout/task/submit', payload: 'x'.repeat(100_000) })
    expect(reply.statusCode).toBe(401)
  })
})

describe('submit', () => {
  it('answers at once with the task id and running', async () => {
    expect(await control.call('POST', '/rollout/task/submit', task('t'))).toMatchObject({
      status: 200,
      body: { task_id: 't', status: 'running' },
    })
    expect(await control.call('GET', '/rollout/task/t')).toMatchObject({
      status: 200,
      body: { task_id: 't', status: 'running', results: [], result_paths: [], total_sessions: 1, completed_sessions: 0 },
    })
  })

  it('is idempotent, and 409 for another body', async () => {
    await control.call('POST', '/rollout/task/submit', task('t', { num_samples: 2 }))
    expect(await control.call('POST', '/rollout/task/submit', task('t', { num_samples: 2 }))).toMatchObject({
      status: 200,
      body: { status: 'running' },
    })
    expect(await control.call('POST', '/rollout/task/submit', task('t', { num_samples: 3 }))).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('different body') },
    })
    expect((await control.call('GET', '/rollout/task/t')).body.total_sessions).toBe(2)
  })

  it('answers 429 with Retry-After when the node is full', async () => {
    await control.call('POST', '/rollout/task/submit', task('a', { num_samples: 20 }))
    const reply = await control.call('POST', '/rollout/task/submit', task('b'))
    expect(reply.status).toBe(429)
    expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0)
  })

  it('takes what Polar takes: unknown keys, null optionals, and strategies with configs', async () => {
    const body = task('t', {
      runtime: null,
      evaluator: null,
      callback_url: null,
      early_stop_min_usable_sessions: null,
      builder: { strategy: 'prefix_merging', config: { a: 1 } },
      some_future_key: 1,
    })
    expect((await control.call('POST', '/rollout/task/submit', body)).status).toBe(200)
  })

  it.each([
    [{ task_id: undefined }, ['body', 'task_id'], 'missing'],
    [{ task_id: '../x' }, ['body', 'task_id'], 'value_error'],
    [{ task_id: 7 }, ['body', 'task_id'], 'string_type'],
    [{ instruction: undefined }, ['body', 'instruction'], 'missing'],
    [{ num_samples: 0 }, ['body', 'num_samples'], 'greater_than_equal'],
    [{ num_samples: 1.5 }, ['body', 'num_samples'], 'int_type'],
    [{ num_samples: '2' }, ['body', 'num_samples'], 'float_type'],
    [{ num_samples: 21 }, ['body', 'num_samples'], 'less_than_equal'],
    [{ dispatch_priority: 101 }, ['body', 'dispatch_priority'], 'less_than_equal'],
    [{ timeout_seconds: 0 }, ['body', 'timeout_seconds'], 'greater_than'],
    [{ agent: { harness: 'shell', import_path: 'x:Y' } }, ['body', 'agent', 'harness'], 'value_error'],
    [{ agent: {} }, ['body', 'agent', 'harness'], 'value_error'],
    [{ agent: { harness: 'nonesuch' } }, ['body', 'agent', 'harness'], 'value_error'],
    [{ agent: 'shell' }, ['body', 'agent'], 'dict_type'],
    [{ early_stop_min_usable_sessions: 2 }, ['body', 'early_stop_min_usable_sessions'], 'value_error'],
    [{ metadata: { agent_timeout: true } }, ['body', 'metadata', 'agent_timeout'], 'value_error'],
    [{ callback_url: 'ftp://x/y' }, ['body', 'callback_url'], 'value_error'],
    [{ runtime: { backend: 'local', prepare: [{ type: 'exec' }] } }, ['body', 'runtime', 'prepare', 0, 'command'], 'missing'],
    [{ runtime: { backend: 'local', prepare: [{ type: 'rm' }] } }, ['body', 'runtime', 'prepare', 0, 'type'], 'union_tag_invalid'],
    [{ runtime: { backend: 'local', env: { 'A B': 'x' } } }, ['body', 'runtime', 'env', 'A B'], 'value_error'],
  ])('answers 422 with the place of the problem: %j', async (overrides, loc, type) => {
    const reply = await control.call('POST', '/rollout/task/submit', task('t', overrides))
    expect(reply.status).toBe(422)
    expect(reply.headers['x-polar-error']).toBe('invalid')
    expect(reply.body.detail).toEqual([{ loc, msg: expect.any(String), type }])
    expect((await control.call('GET', '/tasks')).body.tasks).toEqual([])
  })

  it.each([
    ['{"task_id": ', 'application/json', 422],
    ['', 'application/json', 422],
    ['null', 'application/json', 422],
    ['[]', 'application/json', 422],
    [`{"metadata": ${'['.repeat(1_500)}${']'.repeat(1_500)}}`, 'application/json', 422],
    ['{"__proto__": {"x": 1}}', 'application/json', 422],
    ['{}', 'text/plain', 415],
    ['task_id=t', 'application/x-www-form-urlencoded', 415],
    [JSON.stringify(task('t', { instruction: 'x'.repeat(5_000) })), 'application/json', 413],
  ])('answers the body %j as %s with %i', async (payload, type, status) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': type }
    const reply = await control.app.inject({ method: 'POST', url: '/rollout/task/submit', headers, payload })
    expect(reply.statusCode).toBe(status)
    expect(reply.json().detail).toBeTruthy()
  })
})

describe('a request without a body', () => {
  it.each([
    ['DELETE', '/rollout/task/t?register_if_missing=true'],
    ['DELETE', '/nodes/g0'],
    ['POST', '/admin/inference/resume'],
    ['POST', '/callbacks/redrive'],
    ['POST', '/sessions'],
  ] as const)('%s %s may say all the same that it is JSON, as clients do that always say so', async (method, url) => {
    control.startGateway(1)
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
    expect((await control.app.inject({ method, url, headers })).statusCode).toBe(200)
  })
})

describe('a task', () => {
  it('shows its results in sample order as they come, and is delivered when it ends', async () => {
    control.startGateway(2)
    await control.call(
      'POST',
      '/rollout/task/submit',
      task('t', { num_samples: 2, callback_url: 'http://127.0.0.1:9/cb', metadata: { group_id: 3 } }),
    )
    const [first, second] = await dispatched(2)
    await control.finish(second!, 'completed')
    const early = await control.call('GET', '/rollout/task/t')
    expect(early.body).toMatchObject({ status: 'running', total_sessions: 2, completed_sessions: 1, results: [{ session_id: second }] })
    await control.finish(first!, 'agent_timeout')
    const body = await ended('t')
    expect(Object.keys(body)).toEqual(['task_id', 'status', 'results', 'result_paths', 'total_sessions', 'completed_sessions'])
    expect(body).toMatchObject({
      status: 'completed',
      completed_sessions: 2,
      results: [
        { session_id: first, task_id: 't', status: 'TIMEOUT', node_id: GATEWAY, metadata: { group_id: 3 } },
        { session_id: second, task_id: 't', status: 'COMPLETED', trajectory: { traces: [] } },
      ],
    })
    await vi.waitFor(() => expect(control.delivered).toHaveLength(1), { interval: 1, timeout: 20_000 })
    const { total_sessions, completed_sessions, ...result } = body
    expect(control.delivered[0]).toMatchObject({ url: 'http://127.0.0.1:9/cb', body: result })
    await vi.waitFor(async () => expect((await control.call('GET', '/tasks')).body.tasks[0].delivery).toBe('delivered'), {
      interval: 1,
      timeout: 20_000,
    })
  })

  it('is cancelled by DELETE wherever its sessions are', async () => {
    control.startGateway(1)
    await control.call('POST', '/rollout/task/submit', task('t', { num_samples: 3 }))
    await dispatched(1)
    expect(await control.call('DELETE', '/rollout/task/t')).toMatchObject({
      status: 200,
      body: { task_id: 't', status: 'cancelling', total_sessions: 3 },
    })
    const body = await ended('t')
    expect(body).toMatchObject({ status: 'cancelled', completed_sessions: 3 })
    for (const result of body.results as Record<string, unknown>[])
      expect(result).toMatchObject({ status: 'ERROR', trajectory: { traces: [] } })
    expect(body.results).toHaveLength(3)
  })

  it('is 404 when unknown, and a tombstone when DELETE asks for one', async () => {
    expect(await control.call('GET', '/rollout/task/t')).toMatchObject({ status: 404, body: { detail: 'no task t' } })
    expect(await control.call('DELETE', '/rollout/task/t')).toMatchObject({ status: 404 })
    expect(await control.call('DELETE', '/rollout/task/t?register_if_missing=maybe')).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['query', 'register_if_missing'] }] },
    })
    expect(await control.call('DELETE', '/rollout/task/t?register_if_missing=True')).toMatchObject({
      status: 200,
      body: { status: 'cancelled', results: [] },
    })
    expect(await control.call('POST', '/rollout/task/submit', task('t'))).toMatchObject({ status: 409 })
  })

  it('appears in lists with its means', async () => {
    control.startGateway(1)
    await control.call('POST', '/rollout/task/submit', task('t', { agent: { harness: 'shell', model_name: 'm' } }))
    const [session] = await dispatched(1)
    await control.finish(session!, 'completed')
    await ended('t')
    const { body } = await control.call('GET', '/tasks?status=completed&harness=shell&limit=5')
    expect(body.tasks).toEqual([
      {
        task_id: 't',
        status: 'completed',
        harness: 'shell',
        model: 'm',
        num_samples: 1,
        completed_sessions: 1,
        errored_sessions: 0,
        mean_reward: null,
        mean_traces: 0,
        mean_completions: 3,
        created_at: expect.any(Number),
        updated_at: expect.any(Number),
        source: 'live',
        delivery: 'none',
        early_stop: null,
      },
    ])
    expect(Math.abs(body.tasks[0].created_at - Date.now() / 1_000)).toBeLessThan(60)
    expect((await control.call('GET', '/tasks?status=running')).body.tasks).toEqual([])
    expect((await control.call('GET', `/tasks?since=${body.tasks[0].updated_at + 1}`)).body.tasks).toEqual([])
    expect(await control.call('GET', '/tasks/t/sessions')).toMatchObject({
      body: {
        task_id: 't',
        status: 'completed',
        delivery: 'none',
        sessions: [
          {
            session_id: session,
            task_id: 't',
            status: 'COMPLETED',
            node_id: GATEWAY,
            reward: null,
            timing: { e2e_ms: 5 },
            error: 'no trainable trace',
          },
        ],
      },
    })
    expect((await control.call('GET', '/rollout/status')).body).toMatchObject({
      tasks: { t: 'completed' },
      pipeline: { pending_sessions: 0 },
    })
  })

  it.each(['limit=0', 'limit=1001', 'limit=x', 'status=done', 'since=yesterday'])('lists refuse %s', async (query) => {
    const reply = await control.call('GET', `/tasks?${query}`)
    expect(reply).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', query.split('=')[0]] }] } })
  })
})

describe('a session', () => {
  it('is shown with the calls its gateway counts, then with its result', async () => {
    control.startGateway(1)
    await control.call('POST', '/rollout/task/submit', task('t'))
    const [session] = await dispatched(1)
    expect((await control.call('GET', `/sessions/${session}`)).body).toEqual({
      session_id: session,
      task_id: 't',
      created_at: expect.any(Number),
      completion_count: 7,
      status: 'REGISTERED',
      node_id: GATEWAY,
      attempt: 1,
    })
    await control.finish(session!, 'completed')
    await ended('t')
    expect((await control.call('GET', `/sessions/${session}`)).body).toMatchObject({
      completion_count: 3,
      status: 'COMPLETED',
      result: { session_id: session, status: 'COMPLETED', trajectory: { traces: [] } },
    })
  })

  it.each([
    ['/sessions/sk-polar-none', 404],
    ['/sessions/..%2F..%2Fetc%2Fpasswd', 400],
    ['/tasks/none/sessions', 404],
  ] as const)('%s is %i', async (url, status) => {
    expect((await control.call('GET', url)).status).toBe(status)
  })
})

describe('nodes', () => {
  it("are shown in GatewayNodeInfo's shape", async () => {
    control.startGateway(3)
    const expected = {
      node_id: 'g0',
      gateway_url: 'http://127.0.0.1:0/gateways/g0',
      max_init_workers: 4,
      max_run_workers: 2,
      max_postrun_workers: 4,
      heartbeat_interval_seconds: 30,
      metrics: { init_queue_depth: 1, init_inflight: 2, ready_depth: 3, run_inflight: 4, postrun_queue_depth: 5, postrun_inflight: 6 },
      dispatch_reservations: 3,
      healthy: true,
      draining: false,
      last_heartbeat: expect.any(Number),
    }
    expect((await control.call('GET', '/nodes')).body).toMatchObject([expected])
    expect((await control.call('GET', '/nodes/g0')).body).toMatchObject(expected)
    expect((await control.call('GET', '/rollout/status')).body).toMatchObject({ nodes: { nodes: [expected] } })
    expect((await control.call('GET', '/nodes/none')).status).toBe(404)
    expect((await control.app.inject({ method: 'GET', url: '/health' })).json()).toEqual({ status: 'ok', nodes: 1 })
  })
})

describe('a node that cannot answer', () => {
  // Of their inference servers the gateways themselves are asked.
  const isAsked = (url: string): boolean => url !== '/events' && url !== '/no/such/route' && !url.includes('/replicas')

  it.each(ROUTES.filter(([, url]) => isAsked(url)).map(([method, url]) => [method, url]))(
    '%s %s is 503 when the rollout server is gone',
    async (method, url) => {
      control.kernel.stop(control.server)
      const reply = await control.call(method as 'GET', url, method === 'POST' ? task('t') : undefined)
      expect(reply).toMatchObject({ status: 503, headers: { 'x-polar-error': 'unavailable' } })
    },
  )

  it.each([
    ['missing', 410],
    ['unavailable', 503],
  ] as const)('says so when a result is %s', async (error, status) => {
    await control.close()
    control = await openControl({ readResult: async () => ({ ok: false, error, detail: 'gone' }) })
    control.startGateway(1)
    await control.call('POST', '/rollout/task/submit', task('t'))
    const [session] = await dispatched(1)
    await control.finish(session!, 'completed')
    await vi.waitFor(async () => expect(await control.call('GET', '/rollout/task/t')).toMatchObject({ status, body: { detail: 'gone' } }), {
      interval: 1,
      timeout: 20_000,
    })
    expect(await control.call('GET', `/sessions/${session}`)).toMatchObject({ status, body: { detail: 'gone' } })
  })
})

describe('routes that are not there', () => {
  it.each([
    ['GET', '/nope'],
    ['POST', '/v1/chat/completions'],
    ['POST', '/tasks'],
    ['GET', '/rollout/task'],
    ['GET', '/tasks/t/sessions/x'],
  ] as const)('%s %s is 404 in JSON', async (method, url) => {
    expect(await control.call(method, url)).toMatchObject({
      status: 404,
      body: { detail: `no route ${method} ${url}; GET /openapi.json lists those of this node` },
    })
  })

  it('a broken escape is 400 in JSON', async () => {
    const reply = await control.app.inject({ method: 'GET', url: '/tasks/%zz/sessions', headers: { authorization: `Bearer ${TOKEN}` } })
    expect([reply.statusCode, reply.json().detail]).toEqual([400, expect.any(String)])
  })
})
